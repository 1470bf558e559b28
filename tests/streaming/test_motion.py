"""Motion: estimated where it is, trusted where it explains the change, and what it leaves unexplained."""

from itertools import pairwise

import av
import numpy as np
import pytest

from stmg.errors import SettingsError
from stmg.evaluation.measuring.delayed import DelayedExecutor
from stmg.segmenter import VideoSegmenter
from stmg.streaming.continuity import MANY_STEPS
from stmg.streaming.flow import compose
from stmg.streaming.motion import (
    DIS_LEVELS,
    CodecMotion,
    DisMotion,
    NoMotion,
    flow_shape,
    make_motion_estimator,
    make_view,
    map_shape,
    measure_change,
)
from stmg.streaming.schedulers import FixedPeriod, Level
from stmg.video.frames import CodecVectors, Frame
from stmg.video.sources import open_video
from zoo import colors, panning, texture


def views(frames):
    return [make_view(Frame(frame, index)) for index, frame in enumerate(frames)]


def test_a_flow_says_where_a_cell_was():
    """The camera pans right by 3 of 128 pixels, so what is seen now was 3 pixels further right before."""
    before, now = views(panning(2, (96, 128), step=3))
    flow = DisMotion().estimate(before, now).flow
    assert np.median(flow[..., 0]) == pytest.approx(3 / 128, rel=0.1)
    assert abs(np.median(flow[..., 1])) < 0.2 / 96


REFINING = [name for name, level in DIS_LEVELS.items() if level.refines]


def wide_views(motion, frames):
    return [make_view(Frame(frame), motion.view_width) for frame in frames]


@pytest.mark.parametrize("level", REFINING)
def test_refining_undoes_errors_of_the_steps(level):
    """A pan over four frames, composed of steps that are each half a pixel wrong."""
    motion = DisMotion(level)
    frames = panning(5, (96, 128), step=2)
    before, *_, now = wide_views(motion, frames)
    truth = np.zeros((*flow_shape(now), 2), np.float32)
    truth[..., 0] = 8 / 128
    wrong = truth + np.float32(4 * 0.5 / 128)
    refined = motion.refine(wrong, before, now)
    inside = np.s_[4:-4, 4:-8]
    assert np.abs(refined - truth)[inside].mean() < 0.3 * np.abs(wrong - truth)[inside].mean()


@pytest.mark.parametrize("level", REFINING)
def test_refining_keeps_a_flow_that_is_right(level):
    motion = DisMotion(level)
    before, *_, now = wide_views(motion, panning(3, (96, 128), step=2))
    truth = np.zeros((*flow_shape(now), 2), np.float32)
    truth[..., 0] = 4 / 128
    assert np.array_equal(motion.refine(truth, before, now)[:, :-4], truth[:, :-4])


def test_a_search_does_not_remember_where_another_one_started():
    motion = DisMotion("dis-fine")
    before, now, later = wide_views(motion, panning(3, (96, 128), step=3))
    plain = motion.estimate(before, now).flow
    motion.refine(np.full_like(plain, 0.1), before, later)
    assert np.array_equal(motion.estimate(before, now).flow, plain)


def test_the_coarsest_level_takes_flows_as_they_are_composed():
    before, now = views(panning(2, (96, 128), step=3))
    flow = np.zeros((*flow_shape(now), 2), np.float32)
    assert DisMotion().refine(flow, before, now) is flow


class Refining(DisMotion):
    """Remembers what it was to refine, and puts nothing where it was."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def refine(self, flow, before, now):
        self.seen.append((before, now))
        return np.zeros_like(flow)


@pytest.mark.parametrize(("mode", "times"), [("online", 3), ("offline", 4)])
def test_flows_over_many_frames_are_refined(mode, times):
    """Of five frames between two that are computed, those four and five away; online, that of the audit too."""
    motion, frames = Refining(), panning(MANY_STEPS + 3, (96, 128), step=2)
    every = FixedPeriod(MANY_STEPS + 2, Level.CARRY)
    segmenter = VideoSegmenter(colors, motion=motion, scheduler=every, offline=every)
    results = list(segmenter.stream(frames, mode=mode))
    assert len(motion.seen) == times
    computed = {id(view.gray) for view, _ in motion.seen}
    assert len(computed) == (1 if mode == "online" else 2)
    assert np.array_equal(results[MANY_STEPS].labels, results[0].labels) is (mode == "online")


def test_in_realtime_the_flow_to_what_is_shown_is_refined():
    motion, frames = Refining(), panning(12, (96, 128), step=2)
    executor = DelayedExecutor(intervals=4)
    segmenter = VideoSegmenter(colors, motion=motion)
    results = segmenter.stream(_ticking(frames, executor), mode="realtime", executor=executor)
    ages = [result.anchor_distance for result in results]
    assert len(motion.seen) == sum(age >= MANY_STEPS for age in ages) > 0


def _ticking(frames, executor):
    for frame in frames:
        executor.tick()
        yield frame


def test_an_estimator_need_not_refine():
    class Plain:
        name, needs_vectors, view_width, both_ways = "plain", False, 240, False

        def estimate(self, before, now):
            return DisMotion().for_offline().estimate(before, now)

    frames, every = panning(8, (96, 128), step=2), FixedPeriod(7, Level.CARRY)
    plain, dis = (
        [r.labels for r in VideoSegmenter(colors, motion=motion, offline=every).stream(frames, mode="offline")]
        for motion in (Plain(), "dis")
    )
    assert all(np.array_equal(one, two) for one, two in zip(plain, dis, strict=True))


def test_no_motion_is_no_flow():
    assert NoMotion().estimate(*views(panning(2))) == (None, "none")


def test_motion_explains_a_pan_and_not_a_new_object():
    frames = panning(2, (96, 128), step=3)
    frames[1] = frames[1].copy()
    frames[1][30:60, 40:80] = texture(30, 40, seed=9)
    before, now = views(frames)
    flow = DisMotion().estimate(before, now).flow
    left = measure_change(before, now, flow)
    assert left.shape == map_shape(now)
    assert left[8:14, 11:19].mean() > 5 * left[:, :8].mean()
    assert measure_change(before, now, None)[:, :8].mean() > left[:, :8].mean()
    assert measure_change(now, now, None).max() == 0


@pytest.mark.parametrize("size", [(20, 20), (1, 40), (8, 20000), (33, 500), (720, 960)])
def test_views_are_small_but_never_too_small_to_search(size):
    before, now = views(panning(2, size, step=1))
    assert min(now.gray.shape) >= 16
    assert now.gray.shape[1] <= 500
    assert now.size == size
    assert DisMotion().estimate(before, now).flow.shape == (*flow_shape(now), 2)


BLOCKS = np.dtype([(n, "i4") for n in ("source", "w", "h", "dst_x", "dst_y", "motion_x", "motion_y", "motion_scale")])


def coded(size, vector, reference=0, source=-1, covered=1.0):
    """Vectors of one direction on a grid of 16x16 blocks."""
    centers = [(x, y) for y in range(8, size[0], 16) for x in range(8, size[1], 16)]
    centers = centers[: round(len(centers) * covered)]
    rows = [(source, 16, 16, x, y, 4 * vector[0], 4 * vector[1], 4) for x, y in centers]
    return CodecVectors(np.array(rows, BLOCKS), "P", reference, size)


def test_codec_vectors_are_scaled_to_the_step():
    frames = panning(4, (96, 128), step=2)
    before = make_view(Frame(frames[2], 2))
    now = make_view(Frame(frames[3], 3, vectors=coded((96, 128), (6, 0), reference=0)))
    flow, source = CodecMotion().estimate(before, now)
    assert source == "codec"
    assert flow[..., 0] == pytest.approx(2 / 128, abs=1e-4)


@pytest.mark.parametrize(
    "vectors",
    [
        None,
        coded((96, 128), (2, 0), reference=None),
        coded((96, 128), (2, 0), source=1),
        coded((96, 128), (2, 0), covered=0.3),
        coded((96, 128), (-30, 9)),
    ],
    ids=["none", "no reference", "future only", "mostly intra", "wrong"],
)
def test_vectors_that_cannot_be_trusted_fall_back(vectors):
    frames = panning(2, (96, 128), step=2)
    before, now = make_view(Frame(frames[0], 0)), make_view(Frame(frames[1], 1, vectors=vectors))
    motion = CodecMotion().estimate(before, now)
    assert motion.source == "dis"
    assert np.median(motion.flow[..., 0]) == pytest.approx(2 / 128, rel=0.15)


@pytest.mark.parametrize("b_frames", [0, 2])
def test_a_coded_videos_own_vectors_follow_its_motion(tmp_path, b_frames):
    frames = panning(16, (128, 192), step=4)
    path = tmp_path / "pan.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=15, options={"bf": str(b_frames), "crf": "18", "refs": "1"})
        stream.width, stream.height, stream.pix_fmt = 192, 128, "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode(None))
    with open_video(path, motion_vectors=True) as source:
        seen = [make_view(frame) for frame in source]
    motions = [CodecMotion().estimate(a, b) for a, b in pairwise(seen)]
    from_codec = [motion.flow for motion in motions if motion.source == "codec"]
    assert len(from_codec) >= len(motions) / 2
    speeds = [float(np.median(flow[..., 0])) * 192 for flow in from_codec]
    assert np.median(speeds) == pytest.approx(4, abs=0.5)


def test_flows_of_both_sources_compose():
    """A stream may change between codec vectors and search at any frame."""
    frames = panning(3, (96, 128), step=2)
    one = make_view(Frame(frames[0], 0))
    two = make_view(Frame(frames[1], 1, vectors=coded((96, 128), (2, 0))))
    three = make_view(Frame(frames[2], 2))
    first, second = CodecMotion().estimate(one, two), CodecMotion().estimate(two, three)
    assert (first.source, second.source) == ("codec", "dis")
    path = compose(first.flow, second.flow)
    assert np.median(path[..., 0]) == pytest.approx(4 / 128, rel=0.1)


def test_names_are_checked():
    assert isinstance(make_motion_estimator("codec"), CodecMotion)
    with pytest.raises(SettingsError, match="no motion estimator is called 'raft'; there are dis, dis-medium, "):
        make_motion_estimator("raft")
