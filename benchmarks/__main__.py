"""Carry out the runs behind BENCHMARKS.md, one after the other, and write its tables.

python -m benchmarks --data CAMVID [--only SUBSTRING] [--again] [--trial]

A run whose result is there, from this version and by the same command, is left out. Ctrl-C keeps what is done.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

from benchmarks.runs import CAMVID, RUNS, TRIAL, Run
from benchmarks.tables import RESULTS, ROOT, read_kept, write_pages

WORK = ROOT / "out" / "benchmarks"
INTERRUPTED = 130  # exit code after Ctrl-C


def is_current(run: Run, folder: Path = RESULTS) -> bool:
    """Whether the result of a run is there, whole, from this version and by the same command."""
    result = read_kept(run, folder)
    if result is None or result.interrupted:
        return False
    return result.command == run.typed and result.machine.stmg == version("stmg")


def choose_runs(options: argparse.Namespace, folder: Path = RESULTS) -> list[Run]:
    """The runs to carry out; says which are left out, and why."""
    chosen = []
    for run in RUNS:
        if options.only not in run.name:
            continue
        if run.needs_data and options.data is None:
            print(f"{run.name} is skipped: it needs CamVid, --data FOLDER")
        elif not (options.again or options.trial) and is_current(run, folder):
            print(f"{run.name} is skipped: its result is there; --again measures again")
        else:
            chosen.append(run)
    return chosen


def carry_out(run: Run, work: Path, folder: Path, *, trial: bool) -> bool:
    """Carry out the commands of a run in a folder that has the data, and keep its result in another one."""
    command = (*run.command, *(TRIAL[run.command[0]] if trial else ()), "--out", f"results/{run.name}")
    for each in (*run.exports, command):
        print(f"$ stmg {' '.join(each)}", flush=True)
        if subprocess.run([sys.executable, "-m", "stmg", *each], cwd=work).returncode:
            return False
    (result,) = (work / "results" / run.name).glob("*.json")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(result, folder / f"{run.name}.json")
    return True


def link_data(data: Path | None, work: Path) -> None:
    """Have the folder of the dataset in the working folder, so that commands are the same on every machine."""
    work.mkdir(parents=True, exist_ok=True)
    link = work / CAMVID
    link.unlink(missing_ok=True)
    if data is not None:
        link.symlink_to(data.resolve(), target_is_directory=True)


def carry_out_all(runs: list[Run], work: Path, folder: Path, *, trial: bool) -> list[Run]:
    """One after the other, with how long the rest will take; those that failed."""
    failed: list[Run] = []
    expected = spent = 0.0
    for number, run in enumerate(runs, 1):
        pace = spent / expected if expected else 1.0
        left = pace * sum(each.minutes for each in runs[number - 1 :])
        about = "a trial" if trial else f"about {pace * run.minutes:.0f} min, {left:.0f} min for all that is left"
        print(f"\n{number}/{len(runs)} {run.name}: {about}", flush=True)
        begun = time.monotonic()
        if not carry_out(run, work, folder, trial=trial):
            failed.append(run)
            continue
        took = (time.monotonic() - begun) / 60
        expected, spent = expected + run.minutes, spent + took
        print(f"{run.name}: {took:.1f} min", flush=True)
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="the folder of CamVid; without it runs that need it are skipped")
    parser.add_argument("--only", default="", metavar="SUBSTRING", help="only runs whose name has this in it")
    parser.add_argument("--again", action="store_true", help="also runs whose result is there")
    parser.add_argument(
        "--trial", action="store_true", help="a few frames each, to see that it works; no table changes"
    )
    options = parser.parse_args()
    if options.data is not None and not options.data.is_dir():
        parser.error(f"--data is the folder of CamVid; {options.data} is no folder")
    if not any(options.only in run.name for run in RUNS):
        parser.error(f"--only is part of one of {', '.join(run.name for run in RUNS)}; got {options.only!r}")
    runs = choose_runs(options)
    work = WORK / "trial" if options.trial else WORK
    link_data(options.data, work)
    try:
        failed = carry_out_all(runs, work, work / "kept" if options.trial else RESULTS, trial=options.trial)
    except KeyboardInterrupt:
        print("\ninterrupted; what is done is kept")
        return INTERRUPTED
    finally:
        if not options.trial:
            write_pages()
    if failed:
        print(f"\nfailed: {', '.join(run.name for run in failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
