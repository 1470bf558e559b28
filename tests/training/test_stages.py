"""The stages: evaluation, pictures and checkpoints."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import stmg
from stmg.errors import ModelError, SettingsError
from stmg.evaluation.accuracy import ConfusionMatrix
from stmg.gating.outputs import find_logits
from stmg.models.torch_models import load_network
from stmg.runtimes.torch import TorchRuntime
from stmg.segmenter import VideoSegmenter
from stmg.streaming.schedulers import FixedPeriod
from stmg.training.base import BaseStage
from stmg.training.recipe import Loss, Optimizer, Stmg
from stmg.training.stage import make_clips
from stmg.training.stmg import PERIOD, StmgStage
from stmg.training.trainer import train
from trainings import CPU, SIZE, run, same_weights, stop_at, street, tiny_recipe
from zoo import streets

DEVICE = torch.device("cpu")
NUM_FRAMES = 6 * PERIOD


@pytest.fixture(scope="module")
def dataset():
    return streets(NUM_FRAMES, SIZE)


def second_stage(dataset, val="val", **settings):
    recipe = tiny_recipe(
        stage="stmg",
        data=street(train="val", val=val, length=2),
        loss=Loss(class_weights="none"),
        stmg=Stmg(base="small-streets", **settings),
    )
    return StmgStage(recipe, dataset, make_clips(recipe, dataset, 1))


def test_the_second_stage_is_evaluated_as_a_stream_of_key_and_partial_frames(dataset):
    stage = second_stage(dataset, partial_scales=(0.5, 1.0))
    network = stage.training.network.eval()
    figures = stage.evaluate(network, DEVICE)
    runtime = TorchRuntime(network, device="cpu")
    segmenter = VideoSegmenter(runtime, scheduler=FixedPeriod(PERIOD), motion="dis", partial_scale=0.5)
    counts, kept = ConfusionMatrix(11), []
    for video in dataset.videos("val"):
        segmenter.reset()
        for index in range(NUM_FRAMES):
            result = segmenter.step(video.image(index))
            counts.add(result.labels, video.truth(index))
            kept += [np.mean(result.keep)] if index % PERIOD else []
    assert figures["score"] == figures["miou"] == pytest.approx(100 * counts.mean_iou())
    assert figures["keep_ratio"] == pytest.approx(100 * np.mean(kept))
    assert 0 < figures["macs"] < 100
    assert sum(name.startswith("iou ") for name in figures) == 11


def test_the_second_stage_draws_image_mask_labels_and_truth_of_partial_frames(dataset):
    stage = second_stage(dataset)
    picture = stage.draw(stage.training.network.eval(), DEVICE)
    height, width = SIZE
    assert picture.shape == (3 * height, 4 * width, 3)
    video = dataset.videos("val")[0]
    for row in range(3):
        image = video.image(PERIOD - 1 + 2 * PERIOD * row)
        columns = np.hsplit(picture[row * height : (row + 1) * height], 4)
        assert np.array_equal(columns[0], image)
        assert not any(np.array_equal(column, image) for column in columns[1:])


def test_without_moving_video_the_second_stage_has_nothing_to_evaluate(dataset):
    stills = tuple(replace(video, rate=None) for video in dataset.videos("val"))
    for stage in (
        second_stage(replace(dataset, splits={"val": stills})),
        second_stage(dataset, val=""),
    ):
        network = stage.training.network.eval()
        assert stage.evaluate(network, DEVICE) == {}
        assert stage.draw(network, DEVICE) is None


def test_the_second_stages_card_says_how_it_was_trained(dataset):
    stage = second_stage(dataset, align=False, partial_scales=(0.75, 1.0), constant_mask=0.8)
    _, card = stage.finish(stage.training.network)
    assert (card.motion, card.scheduler, card.partial_scale) == ("none", {"name": "paper"}, 0.75)
    assert (card.constant_mask, card.size, card.network) == (0.8, SIZE, "small")
    stage = second_stage(dataset)
    _, card = stage.finish(stage.training.network)
    assert (card.motion, card.scheduler["name"]) == ("dis", "drift")


def test_the_second_stage_goes_on_exactly_too(tmp_path):
    run(tiny_recipe(steps=2), tmp_path / "base")
    stage = Stmg(base=str(tmp_path / "base" / "last"))
    recipe = tiny_recipe(stage="stmg", data=street(length=2), stmg=stage)
    run(recipe, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(recipe, out=tmp_path / "part", machines=CPU, on_step=stop_at(3))
    run(recipe, tmp_path / "part")
    assert same_weights(tmp_path / "whole", tmp_path / "part")
    assert stmg.load(tmp_path / "part" / "last").runtime.has_mask_generator


def test_a_second_stage_over_a_second_stage_starts_where_it_ended(tmp_path):
    run(tiny_recipe(steps=2), tmp_path / "base")
    for name, base in (("first", "base"), ("again", "first")):
        recipe = tiny_recipe(
            stage="stmg",
            steps=2,
            ema_decay=0.0,
            data=street(length=2),
            stmg=Stmg(base=str(tmp_path / base / "last")),
            optimizer=Optimizer(learning_rate=1e-9 if name == "again" else 1e-2),
        )
        run(recipe, tmp_path / name)
    base, first, again = (load_network(tmp_path / name / "last")[0] for name in ("base", "first", "again"))
    for name, value in first.named_parameters():
        torch.testing.assert_close(again.get_parameter(name), value, rtol=0, atol=1e-6)
    assert any(not torch.equal(base.network.get_parameter(n), p) for n, p in again.second.named_parameters())


def test_the_second_stage_needs_a_base_of_the_same_classes(tmp_path, dataset):
    with pytest.raises(SettingsError, match=r"give its checkpoint: stmg\.base"):
        run(tiny_recipe(stage="stmg", data=street(length=2)), tmp_path)
    fewer = replace(dataset, class_names=dataset.class_names[:3], palette=dataset.palette[:3])
    with pytest.raises(ModelError, match="small-streets has 11 classes, streets has 3"):
        second_stage(fewer)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_class_weights_are_undone_in_what_is_saved(dataset, share):
    recipe = tiny_recipe(data=street(train="val"), loss=Loss(class_weights="root", undo_class_weights=share))
    stage = BaseStage(recipe, dataset, make_clips(recipe, dataset, 1))
    trained = stage.training.network.eval()
    saved, card = stage.finish(trained)
    image = torch.rand(1, 3, *SIZE)
    with torch.no_grad():
        lowered = find_logits(trained(image)) - find_logits(saved.eval()(image))
    expected = share * stage.training.class_weights.log().view(1, -1, 1, 1)
    assert torch.allclose(lowered, expected.expand_as(lowered), atol=1e-4)
    assert (card.num_classes, card.notes["data"]) == (11, "streets, split val")
