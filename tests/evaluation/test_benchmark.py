"""The summary table: a model, its base network, baselines, other networks and runtimes over the same frames."""

from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace

import cv2
import pytest

import stmg
from stmg import VideoSegmenter
from stmg.errors import SettingsError
from stmg.evaluation import benchmark as module
from stmg.evaluation.benchmark import benchmark
from stmg.evaluation.inputs import read_clip
from stmg.evaluation.rows import Latency, Live
from stmg.evaluation.streams import COPY_STRIDES, WARP_STRIDES
from stmg.evaluation.tables import result_tables
from stmg.evaluation.way import BASE, OFFLINE, ONLINE, Way
from stmg.models.spec import ModelSpec
from stmg.outputs.videos import write_h264
from stmg.streaming.schedulers import FixedPeriod, Level
from stmg.video.frames import Frame
from zoo import panning

SIZE = (48, 64)


@pytest.fixture(scope="module")
def run(benchmark_result):
    (only,) = benchmark_result.sizes
    return only


def is_ratio(gain, fps_range, base_range):
    """Whether a gain may be that of some repeat, but for the rounding of all of them."""
    (low, high), (slower, faster) = fps_range, base_range
    return (1 - 1e-3) * low / faster - 1e-3 <= gain <= (1 + 1e-3) * high / slower + 1e-3


def test_every_way_has_a_row(run):
    ways = {row.way for row in run.rows}
    assert {BASE, OFFLINE, ONLINE, Way(kind="paper"), Way(kind="half-resolution")} < ways
    assert {Way(kind="copied-labels", stride=stride) for stride in COPY_STRIDES} < ways
    assert {Way(kind="warped-logits", stride=stride) for stride in WARP_STRIDES} < ways
    for kind, budgets in (("online", {None, 0.15, 0.6, 1.2}), ("offline", {None, 0.3, 1.2, 2.4})):
        assert {way.budget for way in ways if way.kind == kind and way.runtime is None} == budgets
    assert {way.model for way in ways if way.kind == "other-model"} > {"ddrnet23-narrow"}
    exports = [way for way in ways if way.runtime is not None]
    assert {(way.kind, way.runtime, way.bits) for way in exports} == {
        (kind, "onnxruntime", 32) for kind in ("base", "online", "offline")
    }
    assert {way.export for way in exports} == {None, "again"}  # two exports alike are told apart


def test_the_model_itself_comes_first_and_gains_nothing(run):
    assert run.rows[0].way == BASE
    assert run.rows[0].timing.gain == 1
    assert run.row(ONLINE).timing.gain != 1


def test_a_gain_is_relative_to_the_base_on_the_same_runtime(run):
    for row in run.rows:
        reference = run.row(row.way.reference)
        assert reference.way.runtime == row.way.runtime
        if row.way.kind == "offline":
            continue  # relative to whole passes of the base
        assert is_ratio(row.timing.gain, row.timing.fps_range, reference.timing.fps_range)
    for base in (row for row in run.rows if row.way.kind == "base"):
        assert base.timing.gain == 1


def test_accuracy_is_measured_where_it_means_something(run):
    unscored = [row.way.name for row in run.rows if row.miou is None]
    assert unscored == ["ddrnet23-narrow on every frame"]  # which has no weights
    base = run.row(BASE)
    assert run.row(Way(kind="base", runtime="onnxruntime", bits=32)).miou == pytest.approx(base.miou, abs=0.5)
    (same,) = (row for row in run.rows if row.way.kind == "other-model" and row.miou is not None)
    assert same.miou == base.miou  # the other model has the same weights


def test_offline_is_timed_over_whole_passes_beside_the_base(run):
    passes = {row.way: row for row in run.passes}
    export = Way(kind="base", runtime="onnxruntime", bits=32)
    assert {BASE, ONLINE, OFFLINE, export, replace(export, kind="offline")} < set(passes)
    assert {way.kind for way in passes} == {"base", "online", "offline"}
    assert passes[BASE].gain == passes[export].gain == 1
    for way, row in passes.items():
        assert is_ratio(row.gain, row.timing.fps_range, passes[way.reference].timing.fps_range)
        if way.kind == "offline":
            assert run.row(way).timing.gain == row.gain
    offline = run.row(OFFLINE).timing
    assert (offline.slowest_frame, offline.carry_overhead) == (None, None)  # its frames wait for later ones
    assert run.row(OFFLINE).cost.macs < run.row(BASE).cost.macs


def test_an_export_is_held_against_its_own_base_and_the_models(run):
    for row in run.rows:
        assert (row.model_gain is None) == (row.way.runtime is None)
        if row.model_gain is None:
            continue
        assert row.model_gain == pytest.approx(sum(row.model_gain_range) / 2, abs=1e-3)  # the median of two repeats
        if row.way.kind == "offline":
            continue  # relative to whole passes of the base
        assert row.model_gain_range[0] <= row.model_gain_range[1]
        for gain in row.model_gain_range:
            assert is_ratio(gain, row.timing.fps_range, run.row(BASE).timing.fps_range)


def test_realtime_answers_a_source_at_its_rate(run):
    rows = {row.way: row for row in run.realtime}
    assert Way(kind="realtime") in rows
    assert Way(kind="realtime", runtime="onnxruntime", bits=32) in rows
    for row in rows.values():
        live = row.live
        assert (live.rate, row.frames) == (60, 6)
        assert 1 <= live.network_runs <= row.frames - live.dropped
        assert live.latency.max_ms >= live.latency.p95_ms >= live.latency.p50_ms > 0
        assert 0 <= live.mean_age <= live.p95_age <= row.frames
        assert row.miou > 0


@pytest.mark.parametrize("mode", ["online", "offline", "realtime"])
def test_one_mode_alone(monkeypatch, mode):
    monkeypatch.setattr(module, "peak_memory", lambda make_segmenter, frames, mode: 1)
    spec = ModelSpec("small", {"device": "cpu", "size": SIZE})
    (run,) = benchmark(spec, "street:0-0", frames=3, repeats=1, mode=mode).sizes
    assert [row.way.kind for row in run.rows] == (["base"] if mode == "realtime" else ["base", mode])
    assert len(run.passes) == (2 if mode == "offline" else 0)
    assert len(run.realtime) == (1 if mode == "realtime" else 0)
    assert all(row.live.rate == 15 for row in run.realtime)  # the streets' own


def test_realtime_is_scored_on_every_frame_of_each_video(monkeypatch, dataset):
    clip = read_clip("street:0-0", SIZE, 1)._replace(dataset=dataset, starts={0, 6})
    videos = [(video, index) for video in dataset.videos("val") for index in range(6)][:8]
    clip = clip._replace(
        frames=[Frame(video.image(index, SIZE)) for video, index in videos],
        truths=[video.truth(index, SIZE) for video, index in videos],
    )
    played = []

    def show_truths(segmenter, videos, rate, on_frame):
        played.extend(len(video) for video in videos)
        result = VideoSegmenter(segmenter.runtime).step(clip.frames[0])
        for truth in clip.truths:
            on_frame(replace(result, labels=truth))
        return Live(rate=rate, latency=Latency(1, 1, 1), mean_age=0, p95_age=0, network_runs=1, dropped=3, stale=0)

    monkeypatch.setattr(module, "read_clip", lambda *given: clip)
    monkeypatch.setattr("stmg.evaluation.measure.run_live", show_truths)
    monkeypatch.setattr(module, "peak_memory", lambda make_segmenter, frames, mode: 1)
    spec = ModelSpec("small-streets", {"device": "cpu", "size": SIZE})
    (run,) = benchmark(spec, "street:0-0", repeats=1, mode="realtime").sizes
    assert played == [6, 2]
    assert (run.realtime[0].miou, run.realtime[0].live.dropped) == (100, 3)


def test_a_crash_of_the_memory_probe_is_a_dash_and_a_note(monkeypatch):
    def crash(make_segmenter, frames, mode):
        raise BrokenProcessPool("A process was terminated abruptly\nwhile it ran")

    monkeypatch.setattr(module, "peak_memory", crash)
    spec = ModelSpec("small", {"device": "cpu", "size": SIZE})
    result = benchmark(spec, "street:0-0", frames=2, repeats=1, mode="online")
    (run,) = result.sizes
    assert [row.peak_memory for row in run.rows] == [None, None]
    assert run.notes == tuple(
        f"the memory of {name} could not be measured (BrokenProcessPool: A process was terminated abruptly)"
        for name in ("base on every frame", "online")
    )
    assert run.notes[0] in result_tables(result)[0].note


def test_a_stream_whose_scheduler_is_chosen_says_so_in_its_row(monkeypatch):
    monkeypatch.setattr(module, "peak_memory", lambda make_segmenter, frames, mode: 1)
    chosen = {"scheduler": FixedPeriod(2, Level.CARRY), "motion": "none"}
    spec = ModelSpec("small", {"device": "cpu", "size": SIZE, **chosen})
    (run,) = benchmark(spec, "street:0-0", frames=2, repeats=1, mode="online").sizes
    assert [row.name for row in run.rows] == [
        "base on every frame",
        "online, fixed (period 2, between carry), motion none",
    ]
    assert run.row(ONLINE).settings == "scheduler fixed (period 2, between carry), motion none, fusion 0"


def test_a_wide_video_is_measured_at_the_size_at_which_it_is_segmented(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "peak_memory", lambda make_segmenter, frames, mode: 1)
    write_h264(tmp_path / "wide.mp4", panning(4, (720, 1280)), fps=15, quality=16)
    own = stmg.load("small-streets").size_for((720, 1280))
    result = benchmark("small-streets", tmp_path / "wide.mp4", frames=2, repeats=1, mode="online")
    assert result.sizes[0].size == own == (312, 552)
    assert stmg.evaluate("small-streets", tmp_path / "wide.mp4", limit=1).size == own


def test_modes_and_rates_that_make_no_sense_are_refused():
    with pytest.raises(SettingsError, match="mode is one of offline, online, realtime; got 'fast'"):
        benchmark("small", "street:0-0", mode="fast")
    with pytest.raises(SettingsError, match="rate is for realtime"):
        benchmark("small", "street:0-0", mode="online", rate=30)


def test_strides_cost_what_they_should(run):
    whole = run.row(BASE).cost
    row = run.row(Way(kind="copied-labels", stride=3))
    every_third = row.timing
    assert row.cost.macs == pytest.approx(whole.macs / 3, abs=1)
    assert every_third.expected_gain == pytest.approx(3, rel=1e-3)
    assert [(each.level, each.share) for each in every_third.levels] == [
        (Level.KEY, pytest.approx(33.33)),
        (Level.CARRY, pytest.approx(66.67)),
    ]
    half = run.row(Way(kind="half-resolution")).cost
    assert half.macs < 0.35 * whole.macs


def test_memory_and_latencies_are_of_the_rows_that_have_them(run):
    measured = {row.way.kind for row in run.rows if row.peak_memory is not None}
    assert measured == {"base", "online", "offline", "paper"}
    assert [row.way for row in run.rows if row.latencies] == [BASE, ONLINE]
    assert all(len(row.latencies) == len(row.frame_levels) == 6 for row in run.rows if row.latencies)


def test_where_it_comes_from_is_stated(benchmark_result, run):
    assert (benchmark_result.source, benchmark_result.repeats, benchmark_result.command) == ("street:0-0", 2, "")
    assert (run.size, run.frames, run.read_ms) == (SIZE, 6, None)
    assert "PyTorch" in run.runtime


def test_a_folder_that_is_no_export_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="is no export; first: stmg export small-streets"):
        benchmark(ModelSpec("small-streets", {"size": SIZE}), "street:0-0", frames=2, repeats=1, beside=[tmp_path])


def test_an_interruption_leaves_the_sizes_that_are_done(monkeypatch):
    monkeypatch.setattr(module, "peak_memory", lambda make_segmenter, frames, mode: 1)
    spec = ModelSpec("small", {"device": "cpu"})

    def stop(progress):
        if progress.size == (32, 32):
            raise KeyboardInterrupt

    result = benchmark(spec, "street:0-0", sizes=[SIZE, (32, 32)], frames=2, repeats=1, on_frame=stop)
    assert result.interrupted
    assert [run.size for run in result.sizes] == [SIZE]
    with pytest.raises(KeyboardInterrupt):
        benchmark(spec, "street:0-0", sizes=[(32, 32)], frames=2, repeats=1, on_frame=stop)


def test_a_clip_goes_on_over_several_videos(monkeypatch, dataset):
    monkeypatch.setattr("stmg.evaluation.inputs.open_dataset", lambda source: dataset)
    clip = read_clip("street:0-0", SIZE, 8)
    assert len(clip.frames) == len(clip.truths) == 8
    assert clip.starts == {0, 6}
    assert clip.read_ms is None  # rendered, not read
    assert clip.dataset is dataset
    assert read_clip("street:0-0", SIZE, 6).starts == {0}


def test_frames_of_a_folder_of_images_have_no_truth(tmp_path, frames):
    for index, image in enumerate(frames):
        cv2.imwrite(str(tmp_path / f"{index}.png"), image)
    clip = read_clip(str(tmp_path), (24, 32), 2)
    assert [frame.size for frame in clip.frames] == [(24, 32)] * 2
    assert (clip.truths, clip.dataset) == ([None, None], None)
    assert clip.read_ms > 0
