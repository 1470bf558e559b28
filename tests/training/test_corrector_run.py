"""Training of a corrector on videos without labels, and its resumption."""

import json
import shutil
import threading
from contextlib import nullcontext
from dataclasses import replace

import cv2
import numpy as np
import pytest
import torch

from stmg.errors import DataError, SettingsError
from stmg.segmenter import VideoSegmenter
from stmg.training.corrector_run import AdaptSettings, train_corrector
from stmg.training.run_folder import RECIPE
from zoo import streets

SIZE = (96, 128)


CPU = torch.device("cpu")


FEW = AdaptSettings(steps=6, pairs=16, batch=4, checks=2, longest=4)


def videos():
    return streets(20, SIZE).videos("val")[:1]


def by_darkness(image):
    """Two classes, by the brightness of a cell."""
    small = cv2.resize(image, (SIZE[1] // 8, SIZE[0] // 8), interpolation=cv2.INTER_AREA).mean(2) / 20 - 6
    return np.stack([small, -small]).astype(np.float32)


def segmenter():
    return VideoSegmenter(by_darkness, motion="dis")


def run(folder, settings=FEW, on_progress=lambda report: None):
    return train_corrector(segmenter(), videos(), folder, settings, CPU, on_progress)


def weights(adapted):
    return torch.cat([value.flatten().float() for value in adapted.module.state_dict().values()])


def test_the_same_seed_gives_the_same_corrector(tmp_path):
    one, two = (run(tmp_path / name) for name in ("one", "two"))
    assert torch.equal(weights(one), weights(two))
    assert one.steps == 6
    assert one.check.clips == 2


@pytest.mark.parametrize(("phase", "done"), [("training", 5), ("training", 6), ("checking", 1)])
def test_an_interrupted_run_goes_on_and_ends_alike(tmp_path, monkeypatch, phase, done):
    monkeypatch.setattr("stmg.training.corrector_run.SAVE_EVERY", 2)
    whole, reports = run(tmp_path / "whole"), []

    def interrupt(report):
        if (report.phase, report.done) == (phase, done):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "part", on_progress=interrupt)
    part = run(tmp_path / "part", on_progress=reports.append)
    assert torch.equal(weights(part), weights(whole))
    assert part.check == whole.check
    resumed = [report.phase for report in reports]
    if phase == "training":
        assert resumed == (["training", *["checking"] * 2, "training"] if done == 5 else [])  # 4 was saved
    else:
        assert resumed == ["checking"] * 2


def test_a_folder_of_other_settings_or_videos_is_refused(tmp_path):
    run(tmp_path)
    with pytest.raises(SettingsError, match=r"holds a run with another settings\.steps, settings\.checks"):
        run(tmp_path, AdaptSettings(steps=7, pairs=16, batch=4, longest=4))
    others = streets(20, SIZE).videos("val")[1:2]
    with pytest.raises(SettingsError, match="holds a run with another videos"):
        train_corrector(segmenter(), others, tmp_path, FEW, CPU)
    with pytest.raises(SettingsError, match="holds a run with another network"):
        train_corrector(segmenter(), videos(), tmp_path, FEW, CPU, identity="another")
    (tmp_path / "pairs" / "image.npy").unlink()
    with pytest.raises(SettingsError, match="are gone; remove"):
        run(tmp_path)
    shutil.rmtree(tmp_path / "pairs")
    with pytest.raises(SettingsError, match="a part of it is gone; remove"):
        run(tmp_path)


@pytest.mark.parametrize("lost", [RECIPE, "pairs/collected.json"])
def test_a_run_of_another_version_is_refused_before_anything_is_learned(tmp_path, lost):
    run(tmp_path)
    (tmp_path / lost).unlink()
    reports = []
    with pytest.raises(SettingsError, match="holds a run of another version"):
        run(tmp_path, on_progress=reports.append)
    assert not reports


def test_the_number_of_pairs_may_follow_from_the_time_and_an_interrupted_run_goes_on_with_them(tmp_path, monkeypatch):
    timed = replace(FEW, pairs=None, minutes=0.05)

    interrupted = threading.Event()

    def interrupt(report):
        if report.phase == "watching" and report.total:
            interrupted.set()

    with monkeypatch.context() as patch:
        patch.setattr("stmg.training.pairs.defer_interrupt", lambda: nullcontext(interrupted))
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, timed, interrupt)
    store = np.load(tmp_path / "pairs" / "image.npy", mmap_mode="r")
    before = store[0].copy()
    assert before.any()
    planned = json.loads((tmp_path / "pairs" / "collected.json").read_text())["planned"]
    assert run(tmp_path, timed).pairs >= planned > 0
    assert np.array_equal(np.load(tmp_path / "pairs" / "image.npy", mmap_mode="r")[0], before)


def test_a_video_too_short_to_check_on_is_refused_before_anything_is_learned(tmp_path):
    (short,) = streets(6, SIZE).videos("val")[:1]
    with pytest.raises(DataError, match="no frames are left to check a corrector on; give a longer video, or several"):
        train_corrector(segmenter(), [short], tmp_path, FEW, CPU)


def test_a_number_of_pairs_leaves_the_steps_to_the_time(tmp_path):
    adapted = run(tmp_path, AdaptSettings(pairs=20, batch=4, longest=4, checks=2, minutes=0.001))
    assert adapted.steps == 50


def test_no_more_pairs_are_watched_and_reported_than_can_be_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("stmg.training.pairs.MAX_PAIRS", 16)
    watched = []
    adapted = run(tmp_path, replace(FEW, pairs=1000), watched.append)
    assert adapted.pairs == 16
    assert [(each.done, each.total) for each in watched if each.phase == "watching"] == [(10, 16), (20, 16)]


def test_it_learns_to_correct_what_motion_leaves(tmp_path):
    adapted = train_corrector(
        VideoSegmenter(by_darkness, motion="none"),
        videos(),
        tmp_path,
        AdaptSettings(steps=150, pairs=100, batch=8, longest=6, checks=6),
        CPU,
    )
    assert adapted.check.helps
    assert adapted.check.carried.corrected < 0.8 * adapted.check.carried.uncorrected
    assert adapted.check.between.corrected < adapted.check.between.uncorrected
