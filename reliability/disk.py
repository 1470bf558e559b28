"""A full disk: the error is one line, and what was written before stays usable."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

from reliability.kills import FRAMES_IN_FLIGHT, RECIPE
from reliability.outputs import MAX_LOST, RATE, VIDEO_SIZE, read_outputs, segment_command, train_command, weights_of
from reliability.processes import Ending, start_stmg
from reliability.report import Check, Progress

SECONDS = 16  # of the video that is segmented
STEPS = 8
PAGE = 4096  # a tmpfs grows by whole pages
SAVED = ("--save", "overlay", "--save", "records", "--save", "labels", "--save", "timeline")


class SmallDisk:
    """A folder of limited size: a tmpfs where this process may mount one, else a limit on the size of each file.

    Call `restrict` in the process that writes; it sets that limit where nothing can be mounted.
    """

    def __init__(self, folder: Path, size: int) -> None:
        self.folder, self.size = folder, max(PAGE, size)
        folder.mkdir(parents=True)
        self.mounted = sys.platform == "linux" and os.getuid() == 0 and self._mount(f"size={self.size}")

    def restrict(self) -> None:
        if not self.mounted:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.size,) * 2)

    def make_room(self) -> None:
        """Make the disk large enough for everything."""
        self.size = 1 << 30
        if self.mounted:
            self._mount(f"remount,size={self.size}")

    def remove(self) -> None:
        if self.mounted:
            subprocess.run(["umount", str(self.folder)], check=True)
        shutil.rmtree(self.folder)

    def _mount(self, options: str) -> bool:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder)]
        return subprocess.run(command, capture_output=True).returncode == 0


def fill_disk(moments: int, model: Path, folder: Path, random: Random) -> list[Check]:
    """Run `segment` and `train` on disks of different sizes, full at the first byte or at nearly the last."""
    from reliability.media import write_video

    video = write_video(folder / "video.mp4", SECONDS * RATE, VIDEO_SIZE, RATE)
    whole, trained = folder / "whole", folder / "trained"

    def segment(out: Path) -> list[str]:
        return segment_command(video, model, out, "offline", *SAVED)

    for command in (segment(whole), train_command(RECIPE, trained, STEPS)):
        ending = start_stmg(command, folder / "log").finish()
        assert ending.code == 0, ending.error
    sizes = {"segment": _size_of(whole), "train": _size_of(trained)}
    expected, problems = weights_of(trained), list[str]()
    progress = Progress("full disk", moments)
    mounted = False
    for number in range(moments):
        verb = "train" if number % 3 == 2 else "segment"
        disk = SmallDisk(folder / f"disk{number}", round(random.uniform(0, 0.95) * sizes[verb]))
        mounted, out = disk.mounted, disk.folder / "out"
        command = segment(out) if verb == "segment" else train_command(RECIPE, out, STEPS)
        ending = start_stmg(command, folder / "log", before=disk.restrict).finish()
        problem = _find_problem(ending)
        if verb == "segment":
            outputs = read_outputs(out)
            problem = problem or outputs.problem or _find_loss(outputs.lost)
        elif not problem:
            disk.make_room()
            problem = _resume(command, folder / "log", out, expected)
        if problem:
            problems.append(f"{verb}, {disk.size} bytes: {problem}")
            print(problems[-1], flush=True)
        disk.remove()
        progress.advance(f"{len(problems)} problems")
    how = "a tmpfs" if mounted else "a limit on the size of files"
    name = f"full disk at {moments} moments: one line, what was written stays usable, training resumes exactly"
    return [Check(name, "; ".join([f"{how}, {len(problems)} problems", *problems[:3]]), not problems)]


def _find_problem(ending: Ending) -> str:
    """Problem with the exit of a run that could not write; empty if there is none."""
    if ending.code != 1:
        return f"code {ending.code}"
    lines = ending.error_lines
    return "" if len(lines) == 1 and lines[0].startswith("error: ") else f"{len(lines)} lines: {lines[-1:]}"


def _find_loss(lost: float) -> str:
    return f"{lost:.2f} s lost" if lost > MAX_LOST + FRAMES_IN_FLIGHT / RATE else ""


def _resume(command: list[str], log: Path, out: Path, expected: bytes) -> str:
    ending = start_stmg(command, log).finish()
    if ending.code:
        return f"not resumed: {ending.error_lines[-1:]}"
    return "" if weights_of(out) == expected else "other weights after resuming"


def _size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
