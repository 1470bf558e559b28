"""Faults: kill -9 at random moments, a full disk, clocks that jump.

python -m reliability.faults [--kills 50] [--moments 20] [--seed 0]
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from pathlib import Path
from random import Random

from reliability.clock import jump_time_of_day, jump_timestamps
from reliability.disk import fill_disk
from reliability.kills import kill_segment, kill_train
from reliability.processes import Run, preload
from reliability.report import OUT, Check, finish

KILLS, MOMENTS = 50, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=KILLS, help="of segment, and again of train")
    parser.add_argument("--moments", type=int, default=MOMENTS, help="at which the disk is full")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT / "faults")
    arguments = parser.parse_args()
    begun = time.monotonic()
    preload()
    out, random = arguments.out.resolve(), Random(arguments.seed)
    shutil.rmtree(out, ignore_errors=True)
    for name in ("segment", "train", "disk", "timestamps", "time"):
        (out / name).mkdir(parents=True)
    os.environ["XDG_CACHE_HOME"] = str(out / "cache")
    model = write_model(out)
    checks: list[Check] = [
        *kill_segment(arguments.kills, model, out / "segment", random),
        *kill_train(arguments.kills, out / "train", random),
        *fill_disk(arguments.moments, model, out / "disk", random),
        *jump_timestamps(model, out / "timestamps"),
        *jump_time_of_day(model, out / "time"),
    ]
    full = arguments.kills >= KILLS and arguments.moments >= MOMENTS
    sys.exit(finish("faults", checks, begun, full=full))


def write_model(folder: Path) -> Path:
    """A small network that was never trained, written by a process of its own, which may start threads."""

    def write() -> None:
        from reliability.samples import write_checkpoint

        write_checkpoint(folder / "model")

    ending = Run(write, folder / "log").finish()
    if ending.code:
        sys.exit(f"the model could not be written:\n{ending.error}")
    return folder / "model"


if __name__ == "__main__":
    main()
