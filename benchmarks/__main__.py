"""Run the benchmarks behind BENCHMARKS.md, and write the tables and figures of all documents from their results.

python -m benchmarks --data CAMVID [--only SUBSTRING] [--again] [--trial]
python -m benchmarks --list            # which results there are, and how old each is
python -m benchmarks --write           # writes the results into the documents, measures nothing
python -m benchmarks --figures slim/   # the figures that a document can name

A run is skipped if it has a complete result of the same command at a commit since which the measured code has not
changed. Ctrl-C keeps what is done.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.documents import write_documents
from benchmarks.figures import list_figures
from benchmarks.history import ROOT, current_commit, stamp_file, why_outdated
from benchmarks.run import CAMVID, RESULTS, Run, read_stored
from benchmarks.runs import RUNS, TRIAL
from stmg.evaluation.results import Result

WORK = ROOT / "out" / "benchmarks"
INTERRUPTED = 130  # exit code after Ctrl-C


def why_measure(run: Run, folder: Path = RESULTS) -> str:
    """Why a run should be measured again; empty if its result is current."""
    result = read_stored(run, folder)
    if result is None:
        return "no result yet"
    if isinstance(result, Result) and result.interrupted:
        return "interrupted"
    if result.command != run.command_line:
        return "measured by another command"
    return why_outdated(result.machine.stmg, run.paths)


def choose_runs(options: argparse.Namespace, folder: Path = RESULTS) -> list[Run]:
    """The runs to execute. Prints which are skipped and why, and how old the results of the others are."""
    chosen = []
    for run in RUNS:
        if options.only not in run.name:
            continue
        reason = why_measure(run, folder)
        if run.needs:
            print(f"{run.name} is skipped: it needs {run.needs}")
        elif run.needs_data and options.data is None:
            print(f"{run.name} is skipped: it needs CamVid, --data FOLDER")
        elif not (reason or options.again or options.trial):
            print(f"{run.name} is skipped: its result is of this code; --again measures again")
        else:
            print(f"{run.name}: {reason or 'of this code'}")
            chosen.append(run)
    return chosen


def execute(run: Run, work: Path, folder: Path, exported: set[tuple[str, ...]], *, trial: bool) -> bool:
    """Execute the commands of a run in `work`, which has the data, and copy its result to `folder`.

    exported: exports made by earlier runs, which are not repeated; this run's are added.
    Returns False if a command fails.
    """
    out = work / "results" / run.name
    target = f"results/{run.name}/{run.program}.json" if run.program else f"results/{run.name}"
    short = _shorter(run.program or run.command[0], trial)
    stmg, commit = (sys.executable, "-m", "stmg"), current_commit(run.paths)
    start = (sys.executable, "-m", f"benchmarks.{run.program}") if run.program else stmg
    shutil.rmtree(out, ignore_errors=True)
    exports = [(*each, *_shorter(each[0], trial)) for each in run.exports if each not in exported]
    for words in (*((*stmg, *each) for each in exports), (*start, *run.command, *short, "--out", target)):
        print(f"$ {' '.join(words[2:])}", flush=True)
        if subprocess.run(words, cwd=work, env=_environment()).returncode:
            return False
    exported.update(run.exports)
    (result,) = out.glob("*.json")
    path = folder / run.file
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(result, path)
    if commit is not None:
        stamp_file(path, commit if commit == current_commit(run.paths) else replace(commit, dirty=True))
    return True


def link_data(data: Path | None, work: Path) -> None:
    """Link the dataset into the working folder, so that commands are the same on every machine."""
    work.mkdir(parents=True, exist_ok=True)
    link = work / CAMVID
    link.unlink(missing_ok=True)
    if data is not None:
        link.symlink_to(data.resolve(), target_is_directory=True)


def execute_all(runs: list[Run], work: Path, folder: Path, *, trial: bool) -> list[Run]:
    """Execute runs one after the other and print how long the rest will take; returns those that failed."""
    failed: list[Run] = []
    exported: set[tuple[str, ...]] = set()
    expected = spent = 0.0
    for number, run in enumerate(runs, 1):
        pace = spent / expected if expected else 1.0
        left = pace * sum(each.minutes for each in runs[number - 1 :])
        about = "a trial" if trial else f"about {pace * run.minutes:.0f} min, {left:.0f} min for all that is left"
        print(f"\n{number}/{len(runs)} {run.name}: {about}", flush=True)
        begun = time.monotonic()
        if not execute(run, work, folder, exported, trial=trial):
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
    parser.add_argument("--again", action="store_true", help="also runs whose result is of this code")
    parser.add_argument("--trial", action="store_true", help="a few frames each, to see that it works; keeps nothing")
    parser.add_argument("--list", action="store_true", help="which results there are, and how old each is")
    parser.add_argument("--write", action="store_true", help="write the results into the documents, measure nothing")
    parser.add_argument("--figures", metavar="PREFIX", help="the figures whose name begins like this")
    options = parser.parse_args()
    if options.figures is not None:
        print("\n".join(list_figures(options.figures)))
        return 0
    if options.write:
        _write()
        return 0
    if options.data is not None and not options.data.is_dir():
        parser.error(f"--data is the folder of CamVid; {options.data} is no folder")
    if not any(options.only in run.name for run in RUNS):
        parser.error(f"--only is part of one of {', '.join(run.name for run in RUNS)}; got {options.only!r}")
    if options.list:
        for run in RUNS:
            if options.only in run.name:
                print(f"{run.name:<42} {why_measure(run) or 'of this code'}")
        return 0
    runs = choose_runs(options)
    work = WORK / "trial" if options.trial else WORK
    link_data(options.data, work)
    try:
        failed = execute_all(runs, work, work / "kept" if options.trial else RESULTS, trial=options.trial)
    except KeyboardInterrupt:
        print("\ninterrupted; what is done is kept")
        return INTERRUPTED
    finally:
        if not options.trial:
            _write()
    if failed:
        print(f"\nfailed: {', '.join(run.name for run in failed)}")
    return 1 if failed else 0


def _shorter(what: str, trial: bool) -> list[str]:
    """Options that make a verb of stmg or a program short enough for a trial."""
    return shlex.split(TRIAL.get(what, "")) if trial else []


def _write() -> None:
    for path in write_documents():
        print(f"written: {path.relative_to(ROOT)}")


def _environment() -> dict[str, str]:
    """The environment of commands, in which the package `benchmarks` can be imported from any folder."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT))))}


if __name__ == "__main__":
    sys.exit(main())
