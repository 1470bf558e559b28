"""Windows: what a frame between two anchors shows, alone or with all others."""

from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest

from stmg.runtimes.callable import CallableRuntime
from stmg.segmenter import VideoSegmenter
from stmg.streaming.anchors import compute_anchor
from stmg.streaming.motion import DisMotion, make_view
from stmg.streaming.schedulers import FixedPeriod, Level
from stmg.streaming.windows import STRIDE, Computing, Look, Window
from stmg.video.frames import Frame
from zoo import Painter, colors, panning


def computing(frame, corrector):
    future = Future()
    future.set_result(compute_anchor(CallableRuntime(colors), frame, corrector))
    return Computing("drift", future, make_view(frame))


def window(images, corrector):
    frames, motion = [Frame(image) for image in images], DisMotion()
    views = [make_view(frame) for frame in frames]
    looks = [
        Look(frame, at, now, 0.0, False, motion.estimate(before, now))
        for at, (frame, (before, now)) in enumerate(zip(frames[1:], pairwise(views), strict=True), start=1)
    ]
    return Window(motion, computing(frames[0], corrector), looks, computing(frames[-1], corrector))


@pytest.mark.parametrize("corrector", [None, Painter()])
def test_a_frame_shows_the_same_alone_as_with_all_others(corrector):
    whole = window(panning(2 * STRIDE + 4), corrector)
    with ThreadPoolExecutor(2) as pool:
        together = [task.result()[0].labels for task in whole.blend(corrector, pool)]
    for at, labels in enumerate(together, start=1):
        assert np.array_equal(whole.show(at, corrector).labels, labels), at


@pytest.mark.parametrize(("period", "corrects"), [(3, False), (STRIDE, True)])
def test_an_audit_is_of_what_the_stream_would_have_shown(period, corrects):
    """Two windows of three frames make one that is too short to be corrected."""
    frames, every = panning(3 * period + 1), FixedPeriod(period, Level.CARRY)

    def audits(corrector):
        results = VideoSegmenter(colors, corrector=corrector, scheduler=every, max_change=None).stream(
            frames, mode="offline"
        )
        return [result.audit.changed for result in results if result.audit is not None]

    plain, painted = audits(None), audits(Painter())
    assert plain
    assert (painted != plain) is corrects
