"""Clocks that jump: the timestamps of a source, and the time of day."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from random import Random

from reliability.kills import MODES, RECIPE
from reliability.outputs import (
    RATE,
    VIDEO_SIZE,
    read_decisions,
    read_outputs,
    read_times,
    segment_command,
    train_command,
    weights_of,
)
from reliability.processes import start_stmg
from reliability.report import Check

BEGINS = (0.0, 3600.0, 10.0, 80_000.0, 5.0, 5.5, 40.0)  # seconds: the first timestamp of each part
PART = 2 * RATE  # frames
STEPS = 4


def jump_timestamps(model: Path, folder: Path) -> list[Check]:
    """Segment a source whose timestamps jump back and forth: every frame is recorded and shown, in order."""
    from reliability.media import write_video

    video = folder / "jumping.ts"
    parts = [write_video(folder / "part.ts", PART, VIDEO_SIZE, RATE, begin=begin).read_bytes() for begin in BEGINS]
    video.write_bytes(b"".join(parts))
    expected, checks = PART * len(BEGINS), []
    for mode in MODES:
        out = folder / mode
        ending = start_stmg(segment_command(video, model, out, mode), folder / "log").finish()
        outputs = read_outputs(out)
        problem = outputs.problem or (ending.error_lines or [""])[-1]
        text = f"{outputs.records} of {expected} frames recorded, {outputs.shown} shown"
        holds = ending.code == 0 and not problem and outputs.records == outputs.shown == expected
        steps = _longest_step(out / "records.jsonl") if holds else 0.0
        text = f"{text}, longest step {steps:.0f} s" if holds else f"{text}; {problem}"
        checks.append(Check(f"timestamps that jump, {mode}", text, holds))
    return checks


def jump_time_of_day(model: Path, folder: Path) -> list[Check]:
    """Segment and train while the time of day jumps by years on every call: decisions and weights stay the same."""
    from reliability.media import write_video

    video = write_video(folder / "video.mp4", 4 * RATE, VIDEO_SIZE, RATE)
    checks = []
    for mode in MODES[:2]:  # what realtime does depends on how fast the machine is
        steady, jumping = folder / f"{mode}-steady", folder / f"{mode}-jumping"
        for out, before in ((steady, None), (jumping, make_time_jump)):
            ending = start_stmg(segment_command(video, model, out, mode), folder / "log", before=before).finish()
            assert ending.code == 0, ending.error
        one, two = (read_decisions(out / "records.jsonl") for out in (steady, jumping))
        text = f"{len(two)} frames, {sum(a != b for a, b in zip(one, two, strict=False))} differ"
        checks.append(Check(f"time of day that jumps, segment, {mode}: records the same", text, one == two))
    runs = [folder / name for name in ("train-steady", "train-jumping")]
    for out, before in zip(runs, (None, make_time_jump), strict=True):
        ending = start_stmg(train_command(RECIPE, out, STEPS), folder / "log", before=before).finish()
        assert ending.code == 0, ending.error
    same = weights_of(runs[0]) == weights_of(runs[1])
    text = "identical" if same else "other weights"
    return [*checks, Check("time of day that jumps, train: weights the same", text, same)]


def make_time_jump() -> None:
    """Make the clock of this process return a time in another year on every call."""
    random, real = Random(0), time.time

    def jumping() -> float:
        return real() + random.uniform(-1e9, 1e9)

    time.time = jumping
    time.time_ns = lambda: int(1e9 * jumping())


def _longest_step(records: Path) -> float:
    times = read_times(records)
    return max(later - earlier for earlier, later in pairwise(times))
