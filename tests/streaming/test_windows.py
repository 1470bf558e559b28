"""Windows: labels of a frame between two anchors, alone or together with all others."""

from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

from stmg.runtimes.callable import CallableRuntime
from stmg.segmenter import VideoSegmenter
from stmg.streaming.anchors import compute_anchor
from stmg.streaming.motion import DisMotion
from stmg.streaming.schedulers import FixedPeriod, Level
from stmg.streaming.tracker import Tracker
from stmg.streaming.windows import MAX_UNCORRECTED, WindowBlender, WindowFrame
from stmg.video.frames import Frame
from zoo import Painter, colors, panning


def make_window(images, corrector):
    """Frames of which the first and the last are anchors."""
    tracker, tracked, frames = Tracker(DisMotion()), None, []
    for number, image in enumerate(images):
        tracked, anchor = tracker.track(Frame(image), tracked), None
        if number in (0, len(images) - 1):
            anchor = Future()
            anchor.set_result(compute_anchor(CallableRuntime(colors), Frame(image), corrector))
        frames.append(WindowFrame(Frame(image), number, 0.0, tracked, anchor=anchor))
    return WindowBlender(DisMotion(), corrector, frames[0], frames[1:])


@pytest.mark.parametrize("corrector", [None, Painter()])
def test_a_frame_shows_the_same_alone_as_with_all_others(corrector):
    blender = make_window(panning(2 * MAX_UNCORRECTED + 4), corrector)
    with ThreadPoolExecutor(2) as pool:
        together = [task.result().labels for task in blender.submit(pool)]
    for at, labels in enumerate(together, start=1):
        assert np.array_equal(blender.blend(at).labels, labels), at


@pytest.mark.parametrize(("period", "corrects"), [(3, False), (MAX_UNCORRECTED, True)])
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
