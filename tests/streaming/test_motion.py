"""Motion: what is estimated, when it is trusted, and what it leaves unexplained."""

import numpy as np
import pytest

from stmg.errors import SettingsError
from stmg.evaluation.live import DelayedExecutor
from stmg.runtimes.callable import CallableRuntime
from stmg.segmenter import VideoSegmenter
from stmg.streaming.cost import Cost
from stmg.streaming.motion import (
    DIS_LEVELS,
    MIN_STEPS_TO_REFINE,
    DisMotion,
    MotionEstimator,
    NoMotion,
    flow_shape,
    make_motion_estimator,
    make_view,
    map_shape,
    measure_change,
)
from stmg.streaming.schedulers import FixedPeriod, Level
from stmg.video.frames import Frame
from zoo import colors, panning, texture


def views(frames):
    return [make_view(Frame(frame, index)) for index, frame in enumerate(frames)]


def test_a_flow_says_where_a_cell_was():
    """The camera pans right by 3 of 128 pixels, so what is seen now was 3 pixels further right before."""
    before, now = views(panning(2, (96, 128), step=3))
    flow = DisMotion().estimate(before, now)
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
    plain = motion.estimate(before, now)
    motion.refine(np.full_like(plain, 0.1), before, later)
    assert np.array_equal(motion.estimate(before, now), plain)


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
    motion, frames = Refining(), panning(MIN_STEPS_TO_REFINE + 3, (96, 128), step=2)
    every = FixedPeriod(MIN_STEPS_TO_REFINE + 2, Level.CARRY)
    segmenter = VideoSegmenter(colors, motion=motion, scheduler=every)
    results = list(segmenter.stream(frames, mode=mode))
    assert len(motion.seen) == times
    computed = {id(view.gray) for view, _ in motion.seen}
    assert len(computed) == (1 if mode == "online" else 2)
    assert np.array_equal(results[MIN_STEPS_TO_REFINE].labels, results[0].labels) is (mode == "online")


def test_in_realtime_the_flow_to_what_is_shown_is_refined():
    motion, frames = Refining(), panning(12, (96, 128), step=2)
    executor = DelayedExecutor(intervals=4)
    segmenter = VideoSegmenter(colors, motion=motion)
    results = segmenter.stream(_ticking(frames, executor), mode="realtime", executor=executor)
    ages = [result.anchor_distance for result in results]
    assert len(motion.seen) == sum(age >= MIN_STEPS_TO_REFINE for age in ages) > 0


def _ticking(frames, executor):
    for frame in frames:
        executor.tick()
        yield frame


def test_an_estimator_need_not_refine():
    class Plain(MotionEstimator):
        def estimate(self, before, now):
            return DisMotion().for_offline().estimate(before, now)

    frames, every = panning(8, (96, 128), step=2), FixedPeriod(7, Level.CARRY)
    plain, dis = (
        [r.labels for r in VideoSegmenter(colors, motion=motion, scheduler=every).stream(frames, mode="offline")]
        for motion in (Plain(), "dis")
    )
    assert all(np.array_equal(one, two) for one, two in zip(plain, dis, strict=True))


def test_no_motion_is_no_flow():
    assert NoMotion().estimate(*views(panning(2))) is None


def test_motion_explains_a_pan_and_not_a_new_object():
    frames = panning(2, (96, 128), step=3)
    frames[1] = frames[1].copy()
    frames[1][30:60, 40:80] = texture(30, 40, seed=9)
    before, now = views(frames)
    flow = DisMotion().estimate(before, now)
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
    assert DisMotion().estimate(before, now).shape == (*flow_shape(now), 2)


def test_names_are_checked():
    assert isinstance(make_motion_estimator("none"), NoMotion)
    with pytest.raises(SettingsError, match="no motion estimator is called 'raft'; there are dis, dis-medium, "):
        make_motion_estimator("raft")


def test_the_codecs_motion_is_refused_with_what_to_use_instead():
    with pytest.raises(SettingsError, match="motion codec has been removed: use dis"):
        VideoSegmenter(colors, motion="codec")


@pytest.mark.parametrize(
    ("gmacs", "level"),
    [(None, "dis"), (9.9, "dis"), (10, "dis-medium"), (34, "dis-medium"), (35, "dis-fine"), (115, "dis-finest")],
)
def test_auto_is_the_level_that_pays_for_the_networks_operations(gmacs, level):
    counted = lambda: None if gmacs is None else int(gmacs * 1e9)  # noqa: E731
    assert make_motion_estimator("auto").for_network(counted).name == level
    fixed = DisMotion("dis-fine")
    assert fixed.for_network(counted) is fixed


def test_a_segmenter_has_chosen_its_motion_before_the_first_frame():
    class Counted(CallableRuntime):
        num_classes = 3

        def cost(self, size, level, keep, scale, masked):
            return Cost(size[0] * size[1] * 200_000)

    assert VideoSegmenter(Counted(colors), motion="auto").settings.motion.name == "dis-medium"
    assert VideoSegmenter(Counted(colors), motion="auto", model_size=(720, 960)).settings.motion.name == "dis-finest"
    assert VideoSegmenter(colors, motion="auto").settings.motion.name == "dis"
