"""Tune: replays give the labels of real runs, the goal decides the choice, and other frames check it."""

from __future__ import annotations

import re
from dataclasses import replace

import cv2
import numpy as np
import pytest
import torch
from rich.console import Console

import stmg
from stmg.data.camvid import CLASS_NAMES
from stmg.errors import SettingsError, VideoError
from stmg.evaluation import tune as module
from stmg.evaluation.fronts import list_front
from stmg.evaluation.inputs import Clip, Subject, open_model, read_clip
from stmg.evaluation.results import Goal
from stmg.evaluation.rows import Latency, Row, Timing
from stmg.evaluation.storage import read_result, write_result
from stmg.evaluation.tables import tune_tables
from stmg.evaluation.trials import Segment, Trials, compute_candidate
from stmg.evaluation.tune import (
    choose,
    describe,
    describe_miss,
    list_ways,
    make_smaller,
    settings_of,
    split_clip,
    tune,
)
from stmg.evaluation.way import Way
from stmg.gating.accelerate import accelerate
from stmg.models.card import Card
from stmg.models.spec import ModelSpec, read_settings, write_settings
from stmg.models.torch_models import load_network
from stmg.networks import build
from stmg.outputs.videos import write_h264
from stmg.segmenter import VideoSegmenter
from stmg.streaming.schedulers import DriftBudget
from stmg.streaming.settings import Settings, make_settings
from stmg.video.frames import Frame
from zoo import panning

SIZE = (48, 64)
ANY = """
import numpy as np

def build():
    return lambda image: np.ascontiguousarray(image.transpose(2, 0, 1), np.float32)
"""
PICKY = """
import numpy as np

def build():
    def network(image):
        assert image.shape[0] % 64 == image.shape[1] % 64 == 0
        return np.ascontiguousarray(image.transpose(2, 0, 1), np.float32)
    return network
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "model"
    torch.manual_seed(0)
    network = accelerate(build("small", 11), torch.zeros(1, 3, *SIZE))
    stmg.save(network, folder, Card("small", 11, SIZE, class_names=CLASS_NAMES))
    return str(folder)


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    """Frames without labels, as images."""
    folder = tmp_path_factory.mktemp("frames")
    for number, frame in enumerate(panning(12, SIZE)):
        cv2.imwrite(str(folder / f"{number:02}.png"), frame[:, :, ::-1])
    return folder


@pytest.fixture
def few_settings(monkeypatch):
    monkeypatch.setattr(module, "ONLINE_BUDGETS", (0.1, 0.8))
    monkeypatch.setattr(module, "OFFLINE_BUDGETS", ((0.6, 4),))
    monkeypatch.setattr(module, "DIS_LEVELS", {"dis": None})


@pytest.mark.usefixtures("few_settings")
def test_it_measures_chooses_checks_and_writes_settings_that_load(model, video, tmp_path):
    reported = []
    result = tune(model, video, Goal(max_change=0.99), on_progress=reported.append)
    tried = [(row.way.kind, row.way.size) for row in result.outcomes]
    modes = ["base", "online", "online", "offline"]
    smaller = make_smaller(SIZE)
    assert tried == [*((mode, None) for mode in modes), *((mode, smaller) for mode in modes)]
    assert (result.frames, result.checked_frames, result.model) == (6, 6, model)
    base = result.outcomes[0]
    assert (base.changed, base.network_share, base.gain, base.loss) == (0.0, 100, 1.0, None)
    assert result.best == max(result.outcomes, key=lambda row: row.fps)
    assert result.check is not None
    assert result.check.way == result.best.way
    assert reported[-1].done == reported[-1].total == 8
    settings = settings_of(result)
    write_settings(settings, tmp_path / "settings.yaml")
    saved = read_settings(tmp_path / "settings.yaml")
    assert saved.get("size") == result.best.way.size  # the model's own is left to the model
    make_settings(saved)
    assert settings["notes"]["promised"]["changed"] == result.best.changed


@pytest.mark.usefixtures("few_settings")
def test_a_larger_video_is_measured_in_its_own_shape_as_it_would_be_segmented(model, tmp_path):
    for number, frame in enumerate(panning(8, (90, 160))):
        cv2.imwrite(str(tmp_path / f"{number:02}.png"), frame[:, :, ::-1])
    write_h264(tmp_path / "wide.mp4", panning(8, (90, 160)), fps=15, quality=16)
    goal, own = Goal(max_change=0.99), stmg.load(model).size_for((90, 160))
    assert tune(model, tmp_path / "wide.mp4", goal).size == own == (40, 72)
    assert tune(model, tmp_path / "*.png", goal).size == own
    assert tune(model, tmp_path / "wide.mp4", goal, size=SIZE).size == SIZE


@pytest.mark.usefixtures("few_settings")
def test_a_network_of_unknown_size_is_tuned_at_the_videos_own_and_its_settings_leave_that_so(tmp_path):
    write_h264(tmp_path / "large.mp4", panning(8, (384, 640)), fps=15, quality=16)
    (tmp_path / "nets.py").write_text(ANY)
    name = f"{tmp_path / 'nets.py'}:build"
    result = tune(name, tmp_path / "large.mp4", Goal(max_change=0.99))
    assert result.size == (384, 640)
    first = [row for row in result.outcomes if row.way.size is None]
    chosen = replace(result, best=first[1])
    assert "size" not in settings_of(chosen, ModelSpec(name))
    assert settings_of(chosen, ModelSpec(name, {"size": (96, 160)}))["size"] == (96, 160)  # which was given


@pytest.mark.usefixtures("few_settings")
def test_an_export_of_one_size_stands_beside_its_model_on_a_larger_video_of_another_shape(model, tmp_path):
    write_h264(tmp_path / "wide.mp4", panning(8, (90, 160)), fps=15, quality=16)
    stmg.export(model, tmp_path / "onnx", "onnx")
    result = tune(model, tmp_path / "wide.mp4", Goal(max_change=0.99), beside=[tmp_path / "onnx"])
    export = [row for row in result.outcomes if row.way.model is not None]
    assert result.size == (40, 72)
    assert {row.way.size for row in export} == {SIZE}  # as `segment` computes it
    chosen = replace(result, best=export[0])
    write_settings(settings_of(chosen, ModelSpec(model)), tmp_path / "settings.yaml")
    used = stmg.load(tmp_path / "onnx", settings=tmp_path / "settings.yaml")
    assert next(iter(used.stream(tmp_path / "wide.mp4"))).labels.shape == (90, 160)


@pytest.mark.usefixtures("few_settings")
def test_labels_count_where_there_are_some(model):
    result = tune(model, "street:0-0", Goal(max_loss=100), frames=8, size=SIZE)
    assert all(outcome.loss is not None for outcome in result.outcomes)
    assert result.outcomes[0].loss == 0
    assert "mIoU loss" in tune_tables(result)[0].headings


def test_a_loss_cannot_be_a_goal_without_labels(model, video):
    with pytest.raises(SettingsError, match=r"mIoU loss needs labels.* limit changed pixels instead"):
        tune(model, video, Goal(max_loss=1))


@pytest.mark.usefixtures("few_settings")
def test_an_export_may_take_the_place_of_its_model(model, video, tmp_path):
    stmg.export(model, tmp_path / "onnx", "onnx")
    result = tune(model, video, Goal(max_change=0.99), beside=[tmp_path / "onnx"])
    assert {row.way.model for row in result.outcomes} == {None, str(tmp_path / "onnx")}
    beside = next(row for row in result.outcomes if row.way.model is not None)
    assert beside.way.kind == "base"
    assert beside.changed < 0.01  # the same network


@pytest.mark.parametrize("mode", ["online", "offline"])
def test_a_replay_gives_the_labels_of_the_real_thing(model, video, mode):
    subject = open_model(model)
    clip = read_clip(str(video), subject.size, 12)
    candidate = compute_candidate(subject, clip, lambda done: None)
    trials = Trials(candidate, clip)
    scheduler = {"name": "drift", "key_above": 0.3, "longest": 4}
    settings = {"mode": mode, "scheduler": scheduler, "motion": "dis", "fusion": 0.0}
    way = Way(kind=mode, motion="dis", budget=0.3, longest=4, settings=settings)
    part = [Segment(0, 12)]
    estimated, measured = trials.estimate(candidate, way, part), trials.measure(candidate, way, part)
    assert (estimated.changed, estimated.network_share) == (measured.changed, measured.network_share)
    budget = DriftBudget(0.3, longest=4)
    segmenter = VideoSegmenter(subject.segmenter.runtime, settings=Settings(scheduler=budget, fusion=0))
    real = [result.labels for result in segmenter.stream(clip.frames, mode=mode)]
    changed = np.mean([np.mean(a != b) for a, b in zip(real, candidate.labels, strict=True)])
    assert estimated.changed == pytest.approx(changed, abs=1e-6)


def test_realtime_is_tried_at_the_rate_of_the_source_where_latency_matters(model, video):
    subject = open_model(model)
    clip = read_clip(str(video), subject.size, 12)._replace(rate=50.0)
    candidate = replace(compute_candidate(subject, clip, lambda done: None), times=[35.0] * 12)
    trials = Trials(candidate, clip)
    way = Way(kind="realtime", motion="dis", settings={"mode": "realtime", "motion": "dis"})
    estimated = trials.estimate(candidate, way, [Segment(0, 12)])
    assert estimated.fps <= 50
    assert estimated.network_share <= 100 * 7 / 12  # the first frame, and every second one from then on
    measured = trials.measure(candidate, way, [Segment(0, 12)])
    assert measured.fps == pytest.approx(50)
    assert measured.latency.p95_ms > 0


def test_what_is_tried_follows_from_the_goal():
    def modes(goal, rate):
        subject = Subject(None, "m", (8, 8))
        return {way.kind for way in list_ways(subject, subject, goal, rate, labeled=True)}

    assert modes(Goal(), 25.0) == {"base", "online", "offline"}
    assert modes(Goal(max_latency_ms=10), 25.0) == {"base", "online", "realtime"}
    assert modes(Goal(max_latency_ms=10), None) == {"base", "online"}


def test_each_video_is_split_in_halves():
    frames = [Frame(image) for image in panning(11, SIZE)]
    clip = Clip(frames, [None] * 11, {0, 6, 10}, None, None)
    assert split_clip(clip) == ([Segment(0, 3), Segment(6, 8), Segment(10, 11)], [Segment(3, 6), Segment(8, 10)])
    with pytest.raises(VideoError, match="at least four frames"):
        split_clip(Clip(frames[:3], [None] * 3, {0}, None, None))


def outcome(kind, fps, changed, latency=10.0, model=None, loss=None):
    way = Way(kind=kind, model=model, motion="dis", budget=0.3, longest=12)
    latencies = None if kind == "offline" else Latency(latency, latency, latency)
    timing = Timing(fps=fps, gain=fps / 10, latency=latencies)
    return Row(way=way, network_share=50.0, changed=changed, loss=loss, timing=timing)


BASE = outcome("base", 10, 0.0, 100.0)
TRIED = [BASE, outcome("online", 20, 0.01), outcome("offline", 40, 0.02), outcome("offline", 60, 0.05)]
INT8 = outcome("base", 38, 0.015, 26.0, "int8")


@pytest.mark.parametrize(
    ("goal", "fps"),
    [
        (Goal(max_change=0.02), 40),
        (Goal(max_change=0.001), 10),
        (Goal(target_fps=15), 20),  # speed alone is the goal: what changes least
        (Goal(target_fps=50), 60),
        (Goal(max_change=0.02, max_latency_ms=20), 20),
    ],
)
def test_the_choice_follows_from_the_goal(goal, fps):
    assert choose(TRIED, goal).fps == fps


def test_nothing_is_chosen_where_nothing_reaches_the_goal():
    assert choose(TRIED, Goal(target_fps=100)) is None
    assert choose(TRIED, Goal(max_loss=1)) is None  # nobody knows


@pytest.mark.parametrize(
    ("outcomes", "goal", "verdict"),
    [
        (
            TRIED,
            Goal(max_change=0.02),
            r"Use offline, budget 0.3/12, dis: 40.0 FPS \(4.0x\) with 2.0% of the pixels changed",
        ),
        (TRIED, Goal(target_fps=100), "Use a smaller network, or a smaller frame: no setting"),
        (TRIED, Goal(target_fps=9), "The network alone is enough: 10.0 FPS"),
        ([*TRIED, INT8], Goal(max_change=0.02), "int8 alone is enough"),
        ([*TRIED, INT8], Goal(target_fps=30), "int8 alone is enough"),
        (TRIED, Goal(max_change=0.001), "Use a smaller network, .* on almost every frame"),
    ],
)
def test_the_verdict_is_plain(outcomes, goal, verdict):
    assert re.match(verdict, describe(outcomes, choose(outcomes, goal), goal))


def test_a_choice_that_does_not_hold_on_other_frames_is_not_praised():
    goal = Goal(max_change=0.02)
    assert describe_miss(TRIED[2], goal) == describe_miss(None, goal) == ""
    missed = describe_miss(outcome("offline", 7, 0.066, loss=6.59), goal)
    assert "gave 7.0 FPS (0.7x) with 6.6% of the pixels changed and 6.6 % of the mIoU lost, which misses" in missed


def test_goals_in_words():
    goal = Goal(max_loss=0.5, max_change=0.02, target_fps=30, max_latency_ms=15)
    expected = "at most 0.5 % of mIoU lost, at most 2 % of the pixels changed, at least 30 FPS, at most 15 ms"
    assert str(goal) == expected


@pytest.mark.usefixtures("few_settings")
def test_the_table_leaves_out_what_another_of_its_kind_beats(model, video):
    result = tune(model, video)
    slow = outcome("offline", 30, 0.03)
    fast = outcome("offline", 40, 0.02)
    result = replace(result, outcomes=(result.outcomes[0], slow, fast), best=fast)
    assert list_front(result) == [result.outcomes[0], fast]


@pytest.mark.usefixtures("few_settings")
def test_what_is_read_is_what_was_written_and_its_tables_fit_80_columns(model, video, tmp_path):
    written = tune(model, video, Goal(target_fps=1e6), name="network")
    assert (written.best, written.check, settings_of(written)) == (None, None, None)
    assert read_result(write_result(written, tmp_path)) == written
    written = tune(model, video, Goal(max_change=0.9), name="network")
    assert read_result(write_result(written, tmp_path)) == written
    for table in tune_tables(written):
        console = Console(record=True, width=80)
        console.print(table.rich())
        assert all(len(line) <= 80 for line in console.export_text().splitlines())
        assert all(cell in table.markdown() for row in table.rows for cell in row)


def test_what_is_chosen_is_what_the_verdict_says():
    outcomes = [*TRIED, INT8]
    best = choose(outcomes, Goal(max_change=0.02))
    assert best is INT8


def test_a_model_of_the_papers_mode_and_one_that_takes_few_sizes_are_tuned_too(model, video, few_settings, tmp_path):
    network, card = load_network(model)
    stmg.save(network, tmp_path / "paper", replace(card, scheduler={"name": "paper"}))
    assert tune(str(tmp_path / "paper"), video, Goal(max_change=0.99)).best is not None
    (tmp_path / "nets.py").write_text(PICKY)
    result = tune(f"{tmp_path / 'nets.py'}:build", video, Goal(max_change=0.99), size=(64, 64))
    assert {row.way.size for row in result.outcomes} == {None}  # no smaller one: it takes multiples of 64
