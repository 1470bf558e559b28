"""Motion that fits the network: finer flow lets anchors lie further apart, which pays for a network that takes long."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from stmg.streaming.motion import DisMotion, MotionEstimator, make_view
from stmg.streaming.runtime import Runtime
from stmg.video.frames import Frame

# How many times the flow of the coarsest level the network must cost. At about equal loss one frame in 7, 8.5, 10.5 and
# 12 is computed with the levels, whose flow costs 1, 4.1, 14 and 30 offline, measured before `dis` had closer patches
# there; so the second is worth it for a network of cost T if T/8.5 + 4.1 < T/7 + 1, and so on.
WORTH = {"dis": 0.0, "dis-medium": 125.0, "dis-fine": 430.0, "dis-finest": 1400.0}
REPEATS, SECONDS = 3, 0.2  # how often something is timed, and after how long no more


def fit_motion(runtime: Runtime, frame: Frame) -> MotionEstimator:
    """The level of optical flow that is worth it for what the network costs here, on a frame like this."""
    coarse = DisMotion()
    view = make_view(frame, coarse.view_width)
    shifted = make_view(Frame(np.roll(frame.image, 3, axis=1)), coarse.view_width)
    flow = _measure(lambda: coarse.estimate(shifted, view))
    network = _measure(lambda: runtime.labels(runtime.full(runtime.prepare(frame.image)).logits, frame.size))
    return DisMotion(choose_level(network / flow))


def choose_level(ratio: float) -> str:
    """The finest level that a network is worth which costs `ratio` times the coarsest level's flow."""
    return [name for name, least in WORTH.items() if ratio >= least][-1]


def _measure(work: Callable[[], object]) -> float:
    """Seconds of processor time, over all cores; by the clock where that is longer, as on a GPU."""
    work()  # the first time is not like the others
    times: list[float] = []
    while len(times) < REPEATS and sum(times) < SECONDS:
        clock, processor = time.perf_counter(), time.process_time()
        work()
        times.append(max(time.perf_counter() - clock, time.process_time() - processor))
    return min(times)
