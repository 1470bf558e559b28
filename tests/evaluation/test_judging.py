"""From figures to tables, pictures and pages, on streets too small to take long."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from stmg import VideoSegmenter
from stmg.data.streets import RenderedVideo
from stmg.evaluation import figures
from stmg.evaluation.ablation import MASKS, ablate, count_rows
from stmg.evaluation.evaluate import evaluate, paired
from stmg.evaluation.memory import peak_memory
from stmg.evaluation.profile import profile
from stmg.evaluation.report import page, read_runs
from stmg.evaluation.speed import Times, race
from stmg.evaluation.stream import stream_figures
from stmg.evaluation.tables import Sheet, number, relative
from stmg.scheduler import AlwaysKey, DriftBudget, FixedPeriod, Level
from stmg.state import Cost
from zoo import masked_runtime, streets

SIZE = (48, 64)
PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def dataset():
    return streets(6, SIZE)


@pytest.fixture(scope="module")
def runtime():
    return masked_runtime(SIZE)


@pytest.fixture(scope="module")
def frames(dataset):
    video = dataset.videos("val")[0]
    return [video.image(place, SIZE) for place in range(len(video))]


def test_the_base_agrees_with_itself_and_a_stream_is_judged_as_a_stream(dataset, runtime):
    segmenter = VideoSegmenter(runtime, scheduler=FixedPeriod(3, Level.CARRY))
    found = evaluate(segmenter, dataset, "val", SIZE)
    base, ours = (judge.told(dataset.class_names) for judge in (found.base, found.ours))
    assert base["agreement_pixels"] == 100
    assert ours["agreement_pixels"] < 100
    assert [row["distance"] for row in ours["by_distance"]] == [0, 1, 2]
    assert ours["levels"] == {"key": pytest.approx(33.33), "partial": 0, "carry": pytest.approx(66.67)}
    alone = stream_figures(segmenter, dataset, "val", SIZE)
    assert ours["miou"] == pytest.approx(alone.mean_iou, abs=1e-3)
    assert base["macs"] == runtime.cost(SIZE, Level.KEY, (), 1.0, masked=False).macs
    assert base["macs_without_head"] < base["macs"]
    assert ours["macs"] == pytest.approx(base["macs"] / 3, abs=1)
    assert len(found.frames) == 12
    assert json.dumps(ours, allow_nan=False)


def test_without_labels_there_is_agreement_and_no_accuracy(dataset, runtime):
    class Bare(RenderedVideo):
        labelled = ()

        def truth(self, place, size=None):
            return None

    videos = (Bare(3, 4, SIZE, every_label=True),)
    segmenter = VideoSegmenter(runtime, scheduler=FixedPeriod(2, Level.CARRY))
    told = evaluate(segmenter, replace(dataset, splits={"val": videos}), "val", SIZE).ours.told(dataset.class_names)
    assert told["miou"] is None
    assert told["boundary_iou"] is None
    assert 0 < told["agreement_pixels"] <= 100


def test_the_papers_protocol_sees_every_labelled_frame_after_the_one_before(dataset, runtime):
    base, ours = paired(VideoSegmenter(runtime), dataset, "val", SIZE)
    assert (base.levels, ours.levels) == ({Level.KEY: 10}, {Level.PARTIAL: 10})
    box = VideoSegmenter(lambda image: image.astype(np.float32).transpose(2, 0, 1))
    assert paired(box, dataset, "val", SIZE)[1].levels == {Level.CARRY: 10}


def test_a_race_times_every_frame_of_every_contender(runtime, frames):
    heard = []
    contenders = {
        "base": VideoSegmenter(runtime, scheduler=AlwaysKey()),
        "stmg": VideoSegmenter(runtime, scheduler=FixedPeriod(3, Level.CARRY)),
    }
    times = race(contenders, frames, 2, lambda name, repeat, place, result: heard.append((name, repeat, place)))
    assert len(heard) == len(set(heard)) == 2 * 2 * len(frames)
    told = times["stmg"].told(times["base"])
    assert told["levels"]["carry"]["share"] == pytest.approx(66.67)
    assert told["max_ms"] >= told["p95_ms"] >= told["p50_ms"] > 0
    assert times["base"].told(times["base"])["gain"] == 1


def test_gains_are_of_the_same_repeat():
    base = Times([[10.0, 10.0], [20.0, 20.0]], [Level.KEY] * 2, [Cost(8, 2, 1)] * 2)
    ours = Times([[5.0, 5.0], [10.0, 10.0]], [Level.KEY, Level.CARRY], [Cost(8, 2, 1), Cost()])
    told = ours.told(base, extra_ms=5.0)
    assert (told["gain"], told["gain_spread"]) == (2, [2, 2])
    assert told["fps"] == pytest.approx(150)
    assert told["fps_with_decoding_and_drawing"] == pytest.approx((1000 / 10 + 1000 / 15) / 2, abs=0.01)
    assert (told["macs"], told["macs_without_head"]) == (4, 3)
    assert (told["overhead"], base.told(base)["overhead"]) == (0.5, None)
    disturbed = Times([[10.0, 99.0], [50.0, 11.0]], base.levels, base.costs)
    assert disturbed.told(base)["slowest_against_base"] == 1.1
    assert replace(ours, costs=[None, Cost()]).told(base)["macs"] is None


@pytest.mark.slow
def test_memory_is_that_of_another_process(frames):
    assert peak_memory(partial(VideoSegmenter, np.asarray), []) > 10_000_000


def test_ablations_fill_the_papers_tables(dataset, runtime):
    make = partial(VideoSegmenter, runtime)
    found = ablate(make, {"another": make}, dataset, "val", SIZE, seeds=2)
    rows = {row["name"]: row for rows in found["tables"].values() for row in rows}
    assert len(found["tables"]) == 5
    assert sum(map(len, found["tables"].values())) == count_rows(make(), 1)
    assert rows["random block pruning"]["seeds"] == 2
    assert rows["random block pruning"]["deviation"] is not None
    assert rows["base network"]["miou"] == found["base"]["miou"]
    masks = {row["name"]: row for row in found["tables"][MASKS]}
    ours = masks["spatial-temporal masking"]
    assert masks["uniform blending (m_sp = 0.5)"]["macs"] == ours["macs"]  # at equal cost
    assert json.dumps(found, allow_nan=False)


def test_without_a_mask_generator_only_what_needs_none_is_ablated():
    segmenter = VideoSegmenter(lambda image: image.astype(np.float32).transpose(2, 0, 1))
    assert count_rows(segmenter, 0) == 7


def test_a_still_video_repeats_and_noise_does_not(runtime):
    random = np.random.default_rng(0)
    still = [random.integers(0, 255, (*SIZE, 3), np.uint8)] * 8
    noise = [random.integers(0, 255, (*SIZE, 3), np.uint8) for _ in range(8)]
    segmenter = VideoSegmenter(runtime, scheduler=DriftBudget())
    calm, wild = (profile([frame.copy() for frame in frames], segmenter, 11) for frames in (still, noise))
    assert max(calm.distortion[1:]) < 0.01 < 0.3 < np.median(wild.distortion[1:])
    best = calm.chosen(0.01)
    assert best is not None
    assert (best.key_share, best.changed) == (1 / 8, 0)
    assert wild.chances[0].key_share == 1
    assert "smaller network" in wild.verdict(0.0)
    with pytest.raises(ValueError, match="two frames"):
        profile(still[:1], segmenter, 11)


def test_tables_tell_the_same_everywhere():
    sheet = Sheet("a <title>", ("", "mIoU"), note="a note")
    sheet.add("base", number(70.123))
    sheet.add("none", number(None))
    assert "| base | 70.12 |" in sheet.markdown()
    assert "<td>70.12</td>" in sheet.html()
    assert "a &lt;title&gt;" in sheet.html()
    assert relative(69.0, 70.0) == "-1.43 %"
    assert relative(None, 70.0) == "-"


def test_the_front_is_what_nothing_beats_in_both():
    points = {"slow": (70.0, 10.0), "fast": (60.0, 30.0), "beaten": (59.0, 20.0), "middle": (65.0, 20.0)}
    assert figures.front_of(points) == ["slow", "middle", "fast"]
    assert figures.pareto(points).startswith(PNG)


def test_pruning_against_distortion_tells_its_correlation():
    frames_ = [{"level": "partial", "distortion": d, "kept": d} for d in (0.1, 0.2, 0.4)]
    picture, correlation = figures.pruning_against_distortion(frames_)
    assert picture.startswith(PNG)
    assert correlation == pytest.approx(-1)
    assert figures.pruning_against_distortion(frames_[:2]) is None


def test_a_report_refuses_what_is_no_result(tmp_path):
    with pytest.raises(ValueError, match="holds no result"):
        read_runs([tmp_path])
    (tmp_path / "evaluation.json").write_text("{")
    with pytest.raises(ValueError, match="damaged"):
        read_runs([tmp_path])
    (tmp_path / "evaluation.json").write_text("{}")
    with pytest.raises(ValueError, match="no result"):
        read_runs([tmp_path])
    assert "<h1>" in page([])
