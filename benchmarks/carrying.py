"""Time of a carried frame on one core: finding and refining motion, warping and blending, for each level of motion.

python -m benchmarks.carrying ddrnet23-slim-camvid CAMVID
"""

from __future__ import annotations

import time
from collections.abc import Callable

import cv2
import numpy as np
import torch

import stmg
from benchmarks.measurement import finish, make_parser
from stmg.data.catalogue import open_dataset
from stmg.streaming.anchors import carry_segmentation, compute_anchor
from stmg.streaming.blending import BlendInput, Side, blend_labels
from stmg.streaming.flow import Flow, compose, invert
from stmg.streaming.motion import DIS_LEVELS, DisMotion, make_view, refine_flow
from stmg.streaming.tracker import estimate_step
from stmg.video.frames import Frame, Image
from stmg.video.labels import Labels

SIZES = ((360, 480), (720, 960), (1080, 1440))
DISTANCE, REPEATS = 4, 15


def milliseconds(work: Callable[..., object], *arguments: object) -> float:
    """Median time of a call in milliseconds."""
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        work(*arguments)
        times.append(time.perf_counter() - started)
    return 1000 * float(np.median(times))


def main() -> None:
    parser = make_parser("carrying", __doc__)
    parser.add_argument("model")
    parser.add_argument("data")
    arguments = parser.parse_args()
    runtime = stmg.load(arguments.model).runtime
    video = open_dataset(arguments.data).videos("val")[0]
    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    rows = {}
    for size in SIZES:
        frames = [Frame(video.image(index, size)) for index in range(2 * DISTANCE + 1)]
        left, right = (compute_anchor(runtime, frames[at]) for at in (0, -1))
        network = milliseconds(compute_anchor, runtime, frames[0])
        for name in DIS_LEVELS:
            motion = DisMotion(name).for_offline()
            views = [make_view(frame, motion.view_width) for frame in frames]
            steps = [estimate_step(motion, views[at], views[at + 1]).flow for at in range(2 * DISTANCE)]
            back: Flow | None = None
            for flow in steps[:DISTANCE]:
                back = compose(back, flow)
            ahead: Flow | None = None
            for flow in reversed(steps[DISTANCE:]):
                ahead = compose(ahead, invert(flow))
            ends, middle = (views[0], views[-1]), views[DISTANCE]
            composed = back
            back, ahead = (
                refine_flow(motion, flow, end, middle, DISTANCE) for flow, end in zip((back, ahead), ends, strict=True)
            )
            sides = Side(left, back, DISTANCE), Side(right, ahead, DISTANCE)
            unlike = float((carry_segmentation(left, back).labels != carry_segmentation(right, ahead).labels).mean())
            view = milliseconds(make_view, frames[0], motion.view_width)
            found = view + milliseconds(estimate_step, motion, views[0], views[1])
            refined = milliseconds(refine_flow, motion, composed, ends[0], middle, DISTANCE)

            def mix(left: Side = sides[0], right: Side = sides[1], image: Image = frames[DISTANCE].image) -> Labels:
                return blend_labels(BlendInput(left, right, image))

            rows[f"{size[0]}x{size[1]} {name}"] = {
                "find": found,
                "refine": refined,
                "carry": milliseconds(carry_segmentation, left, back),
                "blend": milliseconds(mix),
                "disagree": 100 * unlike,
                "network": network,
            }
    columns = {key: (f"{key}, ms", "{:.1f}") for key in ("find", "refine", "carry", "blend", "network")}
    title = f"{arguments.model} on one core, anchors {DISTANCE} frames away on both sides"
    finish("carrying", arguments.out, title, {**columns, "disagree": ("sides disagree", "{:.1f} %")}, rows)


if __name__ == "__main__":
    main()
