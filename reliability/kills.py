"""kill -9 at random moments: what `segment` wrote can be used, and `train` resumes exactly."""

from __future__ import annotations

import math
import shutil
import time
from functools import partial
from pathlib import Path
from random import Random

from reliability.outputs import MAX_LOST, RATE, VIDEO_SIZE, read_outputs, segment_command, train_command, weights_of
from reliability.processes import start_stmg
from reliability.report import ROOT, Check, Progress

SECONDS = 40  # of the video that is segmented
FRAMES_IN_FLIGHT = 3  # decoded, drawn or encoded at the moment of the kill
LATE = 0.5  # seconds that a paced stream may lag behind the clock on a busy machine
STEPS = 160
EARLY_EVERY = 5  # every fifth kill comes while the run starts or resumes
STATE = "state.pt"
MODES = ("offline", "online", "realtime")
RECIPE = ROOT / "recipes" / "small-streets.yaml"


def kill_segment(kills: int, model: Path, folder: Path, random: Random) -> list[Check]:
    """Kill `segment` in every mode. Realtime is paced, so the clock tells how many frames should have been written."""
    from reliability.media import write_video

    video = write_video(folder / "video.mp4", SECONDS * RATE, VIDEO_SIZE, RATE)
    durations = {mode: _measure(video, model, folder / mode, mode) for mode in MODES[:2]} | {"realtime": 0.2 * SECONDS}
    problems, recorded, lost, behind, early, done = list[str](), 0, 0.0, 0.0, 0, 0
    progress = Progress("kill of segment", kills)
    while done < kills:
        mode, out = MODES[done % len(MODES)], folder / str(done)
        shutil.rmtree(out, ignore_errors=True)
        options = ("--pace",) if mode == "realtime" else ()
        run = start_stmg(segment_command(video, model, out, mode, *options), folder / "log")
        records, end = out / "records.jsonl", time.monotonic() + random.uniform(0, durations[mode])
        run.wait(end - time.monotonic(), partial(_has_record, records))
        first = time.monotonic() if _has_record(records) else None
        if run.wait(end - time.monotonic()) is not None:
            continue  # it finished before the kill
        run.kill()
        killed = time.monotonic()
        outputs = read_outputs(out)
        early += int(outputs.records == 0)
        recorded += outputs.records
        lost = max(lost, outputs.lost)
        if mode == "realtime" and first is not None:
            behind = max(behind, killed - first - outputs.played)
        if outputs.problem:  # keep the outputs for a look at them
            problems.append(f"{out}: {outputs.problem}")
        else:
            shutil.rmtree(out, ignore_errors=True)
        done += 1
        progress.advance(f"{len(problems)} problems, at most {lost:.2f} s lost")
    name, most = f"kill -9 of segment, {kills} times", MAX_LOST + FRAMES_IN_FLIGHT / RATE
    text = f"{recorded} frames recorded, {early} times before the first; {len(problems)} outputs damaged"
    return [
        Check(f"{name}: overlays playable, records whole", "; ".join([text, *problems[:3]]), not problems),
        Check(f"{name}: at most {MAX_LOST:g} s and the frames in flight lost", f"at most {lost:.2f} s", lost <= most),
        Check(f"{name}: the same by the clock, in realtime", f"at most {behind:.2f} s", behind <= most + LATE),
    ]


def _measure(video: Path, model: Path, out: Path, mode: str) -> float:
    """Duration of a run that is not killed, in seconds."""
    ending = start_stmg(segment_command(video, model, out, mode), out.with_name("log")).finish()
    assert ending.code == 0, ending.error
    assert read_outputs(out).shown == SECONDS * RATE
    return ending.seconds


def _has_record(records: Path) -> bool:
    return records.is_file() and records.stat().st_size > 0


def kill_train(kills: int, folder: Path, random: Random) -> list[Check]:
    """Kill `train` repeatedly, resume each time, and compare the final weights.

    Some kills come while the run starts or resumes, the others after it has saved.
    """
    whole = folder / "whole"
    run = start_stmg(train_command(RECIPE, whole, STEPS), folder / "log")
    begun = time.monotonic()
    run.wait(until=partial(_has_saved, whole, None))
    starting = time.monotonic() - begun
    ending = run.finish()
    assert ending.code == 0, ending.error
    expected, problems, number = weights_of(whole), list[str](), 0
    finished = saved = resumed = done = 0
    progress = Progress("kill of train", kills)
    while done < kills or (folder / str(number)).exists():
        out = folder / str(number)
        before, last_save = read_step(out), _saved_at(out)
        run = start_stmg(train_command(RECIPE, out, STEPS), folder / "log")
        early = done % EARLY_EVERY == EARLY_EVERY - 1
        if not early:
            run.wait(until=partial(_has_saved, out, last_save))
            if (reached := read_step(out)) < before:
                problems.append(f"run {number}: started over, {reached} was saved after {before}")
        moment = random.uniform(0, starting if early else ending.seconds - starting)
        result = run.wait(moment if done < kills else math.inf)
        if result is None:
            run.kill()
        after = read_step(out)
        resumed += after > before > 0
        if result is None:
            done, saved = done + 1, saved + (after > before)
            progress.advance(f"{finished} runs finished, {len(problems)} problems")
            continue
        if result.code or weights_of(out) != expected:
            problems.append(f"run {number}: code {result.code}, {(result.error_lines or ['other weights'])[-1]}")
        finished += 1
        shutil.rmtree(out)
        number += 1
    name, text = f"kill -9 of train, {kills} times", f"{finished} runs finished, {len(problems)} problems"
    spread = f"{saved} kills after a save, {resumed} times resumed beyond the first step"
    return [
        Check(f"{name}: resumed weights identical", "; ".join([text, *problems[:3]]), finished > 0 and not problems),
        Check(f"{name}: most of them where there is something to lose", spread, min(saved, resumed) > kills / 2),
    ]


def read_step(run: Path) -> int:
    """The step that a training run would resume from; 0 if nothing was saved."""
    import torch

    path = run / STATE
    return int(torch.load(path, weights_only=True)["progress"]["step"]) if path.is_file() else 0


def _saved_at(run: Path) -> int | None:
    path = run / STATE
    return path.stat().st_mtime_ns if path.is_file() else None


def _has_saved(run: Path, before: int | None) -> bool:
    return _saved_at(run) != before
