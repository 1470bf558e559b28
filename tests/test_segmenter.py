import gc
import resource
import threading
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from stmg.acceleration.accelerate import accelerate
from stmg.frames import Frame
from stmg.masking import Masking
from stmg.motion import DisMotion
from stmg.networks import build
from stmg.runtimes.labels import labels_of
from stmg.runtimes.torch import TorchRuntime
from stmg.scheduler import DriftBudget, FixedPeriod, Level
from stmg.segmenter import VideoSegmenter
from zoo import colours, panning, texture

SIZE = (96, 128)
EXAMPLE = torch.zeros(1, 3, *SIZE)


@pytest.fixture(scope="module")
def trained_like(model):
    """A runtime with a mask generator, which decides something although it was never trained."""
    torch.manual_seed(1)
    return TorchRuntime(accelerate(model, EXAMPLE, mask_generator=True), device="cpu", optimise=False)


def resident():
    """Bytes of memory in use now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def same(one, two):
    return one.level == two.level and np.array_equal(one.labels, two.labels)


def test_always_key_is_the_untouched_network_bit_for_bit(model, plain):
    frames = panning(3, SIZE)
    for frame, result in zip(frames, VideoSegmenter(plain, scheduler="always-key").stream(frames), strict=True):
        with torch.no_grad():
            logits = model(plain.prepare(frame).clone())[0].numpy()
        assert np.array_equal(result.labels, labels_of(logits, SIZE))
        assert (result.level, result.kept_blocks) == (Level.KEY, 5)


def test_always_key_looks_for_neither_motion_nor_change(trained_like, monkeypatch):
    """The base network must not be slowed down by what it does not use."""
    segmenter = VideoSegmenter(trained_like, scheduler="always-key")
    monkeypatch.setattr(segmenter, "motion", None)
    results = list(map(segmenter.step, panning(3, SIZE)))
    assert [result.reason for result in results] == ["first frame", "always-key", "always-key"]
    assert results[1].changed is None


@pytest.mark.parametrize("kind", ["plain", "trained_like", "black box"])
@pytest.mark.parametrize("scheduler", ["drift", "paper", "per-frame", FixedPeriod(3, Level.CARRY)])
def test_a_stream_equals_its_frames_one_by_one(request, kind, scheduler):
    network = colours if kind == "black box" else request.getfixturevalue(kind)
    frames = panning(8, SIZE)
    one, two = (VideoSegmenter(network, scheduler=scheduler) for _ in range(2))
    streamed = list(one.stream(frames))
    state = None
    for number, (frame, expected) in enumerate(zip(frames, streamed, strict=True)):
        result, state = two.advance(frame, state, number)
        assert same(result, expected)
        assert same(one.another().step(frame), streamed[0]) or number > 0


def test_two_streams_never_share_state(trained_like):
    left, right = panning(10, SIZE, seed=1), panning(10, SIZE, step=5, seed=2)
    first = VideoSegmenter(trained_like, scheduler="paper")
    second = first.another()
    apart = [list(first.stream(left)), list(second.stream(right))]
    first.reset()
    second.reset()
    mixed = [(first.step(a), second.step(b)) for a, b in zip(left, right, strict=True)]
    assert all(same(a, x) and same(b, y) for (a, b), x, y in zip(mixed, *apart, strict=True))


def test_streams_run_in_threads_over_one_set_of_weights(trained_like):
    videos = [panning(8, SIZE, seed=seed) for seed in range(3)]
    expected = [list(VideoSegmenter(trained_like, scheduler="paper").stream(video)) for video in videos]
    results = {}

    def run(number):
        results[number] = list(VideoSegmenter(trained_like, scheduler="paper").stream(videos[number]))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(same(a, b) for number in range(3) for a, b in zip(results[number], expected[number], strict=True))


def test_carried_labels_follow_the_motion():
    """A pan over coloured stripes: labels moved along flow agree with those computed, labels left in place do not."""
    frames = panning(6, SIZE, step=1, seed=3)
    truth = [frame.argmax(2) for frame in frames]
    agreement = {}
    for motion in ("dis", "none"):
        segmenter = VideoSegmenter(colours, scheduler=FixedPeriod(6, Level.CARRY), motion=motion)
        results = list(segmenter.stream(frames))
        assert [result.level.value for result in results] == ["key"] + ["carry"] * 5
        agreement[motion] = (results[-1].labels == truth[-1]).mean()
    assert agreement["dis"] > 0.95 > 0.8 > agreement["none"]


def test_a_still_video_is_computed_once_until_the_longest_run(plain):
    frames = panning(1, SIZE) * 12
    results = list(VideoSegmenter(plain, scheduler=DriftBudget(longest=8)).stream(frames))
    assert [n for n, result in enumerate(results) if result.level is Level.KEY] == [0, 8]
    assert all(np.array_equal(result.labels, results[0].labels) for result in results)
    assert results[1].distortion == 0


def test_a_key_frame_that_is_foreseen_looks_for_no_motion(monkeypatch):
    looked = []
    between = DisMotion.between
    monkeypatch.setattr(DisMotion, "between", lambda *views: looked.append(1) or between(*views))
    brighter = [frame.astype(int) + 12 * (number % 5) ** 2 for number, frame in enumerate(panning(12, SIZE))]
    frames = [np.clip(frame, 0, 255).astype(np.uint8) for frame in brighter]
    runs = {}
    for fusion in (0.0, 0.5):
        looked.clear()
        results = list(VideoSegmenter(colours, scheduler=DriftBudget(0.3), fusion=fusion).stream(frames))
        runs[fusion] = [result.level for result in results], len(looked)
    unfused, fused = runs[0.0], runs[0.5]
    assert unfused[0] == fused[0]
    assert unfused[1] < fused[1] == len(frames) - 1


def test_drift_adds_up_and_a_key_frame_pays_it_off():
    brighter = [frame.astype(int) + 12 * (number % 5) ** 2 for number, frame in enumerate(panning(12, SIZE))]
    frames = [np.clip(frame, 0, 255).astype(np.uint8) for frame in brighter]
    results = list(VideoSegmenter(colours, scheduler=DriftBudget(key_above=0.3)).stream(frames))
    for before, now in pairwise(results):
        if before.level is Level.CARRY and now.level is Level.CARRY:
            assert now.drift >= before.drift * 0.9
        assert (now.drift > 0.3) == (now.level is Level.KEY) or now.reason == "cut"
    assert {result.level for result in results} == {Level.KEY, Level.CARRY}


def test_a_partial_frame_that_refreshes_everything_leaves_no_debt(plain):
    scheduler = DriftBudget(key_above=9, partial_above=0.0)
    fresh = VideoSegmenter(plain, scheduler=scheduler, masking=Masking(spatial="fresh"))
    stale = VideoSegmenter(plain, scheduler=scheduler, masking=Masking(spatial=0.0))
    frames = panning(6, SIZE, step=7)
    refreshed, kept = list(fresh.stream(frames)), list(stale.stream(frames))
    assert refreshed[-1].level is Level.PARTIAL
    assert refreshed[-1].drift == pytest.approx(refreshed[-1].distortion)
    assert kept[-1].drift > kept[1].drift


def test_all_fresh_and_all_kept_is_the_whole_network(plain):
    frames = panning(4, SIZE)
    whole = VideoSegmenter(plain, scheduler="always-key")
    partial = VideoSegmenter(plain, scheduler="per-frame", masking=Masking(pruning="none"))
    for one, two in zip(whole.stream(frames), partial.stream(frames), strict=True):
        assert np.array_equal(one.labels, two.labels)


def test_a_mask_of_zero_in_the_papers_mode_returns_what_was(plain):
    frames = panning(5, SIZE, step=1)
    segmenter = VideoSegmenter(plain, scheduler=FixedPeriod(9), motion="none", masking=Masking(spatial=0.0))
    results = list(segmenter.stream(frames))
    assert all(result.level is Level.PARTIAL for result in results[1:])
    assert all(np.array_equal(result.labels, results[0].labels) for result in results)


def test_partial_frames_at_a_smaller_scale_cost_less_and_keep_the_size(plain):
    frames = panning(2, SIZE)
    results = list(VideoSegmenter(plain, scheduler="paper", partial_scale=0.5).stream(frames))
    assert results[1].level is Level.PARTIAL
    assert results[1].labels.shape == SIZE
    assert results[1].macs < 0.4 * results[0].macs


def test_a_key_frame_averages_its_scores_with_the_moved_ones_where_nothing_changed():
    scores = iter([2.0, -1.0] * 2)  # of one class, above 0 where it is
    still = texture(*SIZE)

    def labels(fusion):
        network = lambda image: np.full((1, 4, 6), next(scores), np.float32)  # noqa: E731
        segmenter = VideoSegmenter(network, scheduler=FixedPeriod(1), fusion=fusion)
        return [segmenter.step(still).labels.min() for _ in range(2)]

    assert labels(0.5) == [1, 1]  # (2 - 1) / 2 is above 0
    assert labels(0.0) == [1, 0]


def test_nothing_is_fused_in_the_papers_mode_nor_where_every_frame_is_computed(plain):
    assert VideoSegmenter(plain, motion="none").fusion == 0
    assert VideoSegmenter(plain, scheduler="always-key").fusion == 0
    assert VideoSegmenter(plain).another().fusion == 0.5
    with pytest.raises(ValueError, match="fusion"):
        VideoSegmenter(plain, fusion=1)


def test_a_size_change_makes_a_key_frame(plain):
    segmenter = VideoSegmenter(plain)
    results = list(segmenter.stream([*panning(3, SIZE), *panning(3, (64, 96))]))
    assert [result.reason for result in results] == ["first frame", "drift", "drift", "size change", "drift", "drift"]
    assert results[3].labels.shape == (64, 96)


def test_a_cut_makes_a_key_frame(plain):
    frames = [*panning(3, SIZE, seed=1), *panning(3, SIZE, seed=2)]
    results = list(VideoSegmenter(plain).stream(frames))
    assert results[3].reason == "cut"
    assert [result.level for result in results[4:]] == [Level.CARRY, Level.CARRY]


def test_a_gap_in_time_makes_a_key_frame(plain):
    times = [0.0, 0.1, 0.2, 3.0, 3.1, 1.0]
    frames = [Frame(image, None, time) for image, time in zip(panning(6, SIZE), times, strict=True)]
    reasons = [result.reason for result in VideoSegmenter(plain).stream(frames)]
    assert reasons == ["first frame", "drift", "drift", "gap", "drift", "gap"]


def test_pruned_blocks_show_in_the_result_and_in_its_cost(trained_like):
    results = list(
        VideoSegmenter(trained_like, scheduler="paper", masking=Masking(pruning=0.4)).stream(panning(2, SIZE))
    )
    assert results[0].kept_blocks == 5
    assert results[1].kept_blocks == 3
    assert results[1].macs < results[0].macs


def test_the_mask_generator_is_paid_for_on_every_frame_where_frames_may_be_partial(plain, trained_like):
    frames = panning(2, SIZE)
    carried, refreshed = FixedPeriod(2, Level.CARRY), DriftBudget(key_above=9, partial_above=9)
    without = [r.macs for r in VideoSegmenter(plain, scheduler=refreshed).stream(frames)]
    with_it = [r.macs for r in VideoSegmenter(trained_like, scheduler=refreshed).stream(frames)]
    assert without[1] == 0 < with_it[1]
    assert with_it[0] - without[0] == with_it[1]
    idle = [r.macs for r in VideoSegmenter(trained_like, scheduler=carried).stream(frames)]
    assert idle == without


def test_a_caller_may_write_on_what_it_gets(plain):
    frames = panning(1, SIZE) * 3
    segmenter = VideoSegmenter(plain, motion="none")
    first = segmenter.step(frames[0]).labels
    expected = first.copy()
    first[:] = 9
    assert np.array_equal(segmenter.step(frames[1]).labels, expected)


def test_bad_settings_are_refused(plain):
    with pytest.raises(ValueError, match="no scheduler"):
        VideoSegmenter(plain, scheduler="whenever")
    with pytest.raises(ValueError, match="no motion"):
        VideoSegmenter(plain, motion="raft")
    with pytest.raises(ValueError, match="partial_scale"):
        VideoSegmenter(plain, partial_scale=0)
    with pytest.raises(TypeError, match="callable"):
        VideoSegmenter(7)
    with pytest.raises(ValueError, match="no precision"):
        TorchRuntime(build("small", 3), precision="int4")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_two_thousand_frames_in_flat_memory(trained_like):
    video = panning(40, (192, 256), step=1)
    segmenter = VideoSegmenter(trained_like, scheduler=DriftBudget(0.15, 0.055, longest=9))
    levels = set()
    for number in range(400):
        levels.add(segmenter.step(video[number % 40]).level)
    gc.collect()
    before = resident()
    for number in range(1600):
        levels.add(segmenter.step(video[number % 40]).level)
    gc.collect()
    assert resident() - before < 16e6  # bytes; one kept label map a frame would be 79 million
    assert levels >= {Level.KEY, Level.CARRY}


def test_a_texture_is_not_a_cut_against_itself_in_other_light(plain):
    frame = texture(*SIZE)
    darker = (frame * 0.9).astype(np.uint8)
    results = list(VideoSegmenter(plain).stream([frame, darker]))
    assert results[1].reason == "drift"
