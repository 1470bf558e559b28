"""The stage of a corrector: color changes, and training from an existing corrector."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from commands import is_one_line, run_stmg
from stmg.errors import SettingsError
from stmg.networks.corrector import Corrector, Shape
from stmg.segmenter import VideoSegmenter
from stmg.training.corrector import check_start, vary_colors
from stmg.training.corrector_run import AdaptSettings, train_corrector
from zoo import colors, streets

SIZE, CPU = (64, 96), torch.device("cpu")
FEW = AdaptSettings(steps=2, pairs=16, batch=4, checks=1, longest=3)


def adapt(folder, start, settings=FEW):
    videos = streets(20, SIZE).videos("val")[:1]
    return train_corrector(
        VideoSegmenter(colors, motion="dis"),
        videos,
        folder,
        settings,
        CPU,
        lambda report: None,
        "colors",
        start=start,
    )


def test_it_goes_on_from_the_weights_and_the_shape_of_a_corrector(tmp_path):
    start = Corrector(3, Shape(16, 3, 2))
    before = {name: value.clone() for name, value in start.state_dict().items()}
    after = adapt(tmp_path, start, replace(FEW, learning_rate=1e-12)).module
    assert after.shape == start.shape
    for name, value in after.named_parameters():
        assert torch.allclose(value, before[name], atol=1e-6), name


def test_one_of_other_classes_or_too_dear_is_refused(tmp_path):
    start = Corrector(3, Shape(16, 3, 2))
    with pytest.raises(SettingsError, match="is for 3 classes; the network has 4"):
        check_start(start, 4, None, SIZE)
    with pytest.raises(SettingsError, match="allow more"):
        check_start(start, 3, 1.0, SIZE)
    assert check_start(start, 3, None, SIZE) is start


def test_a_folder_without_a_corrector_is_one_line_and_none_starts_over(tmp_path):
    command = ("adapt", "small-streets", "--out", tmp_path / "out", "--corrector")
    done = run_stmg(*command, tmp_path, "--on", "street:1-1")
    assert (done.returncode, is_one_line(done.stderr), "holds no corrector" in done.stderr) == (2, True, True)
    assert "nowhere.mp4" in run_stmg(*command, "none", "--on", tmp_path / "nowhere.mp4").stderr


def test_colors_of_both_images_of_a_pair_change_alike_and_those_of_other_pairs_otherwise():
    images = torch.full((8, 2, 2, 3), 100, dtype=torch.uint8)
    one, two = vary_colors(images, images, np.random.default_rng(0))
    assert torch.equal(one, two)
    assert len({float(value) for value in one.mean((1, 2, 3))}) == 8
    assert (one.std((1, 2)) == 0).all()  # a plain image stays plain
    assert 0 < float((one - 100).abs().max()) <= 128 * 0.33 + 20


def test_changed_colors_stay_within_bytes():
    black, white = torch.zeros((16, 1, 1, 3), dtype=torch.uint8), torch.full((16, 1, 1, 3), 255, dtype=torch.uint8)
    dark, bright = vary_colors(black, white, np.random.default_rng(0))
    assert 0 <= float(dark.min()) < float(bright.max()) <= 255
