"""Fuzz: mutated inputs of every kind, each read by stmg in a process of its own.

Every run must work, or refuse the input in one line with the right exit code: no traceback, no hang, no signal, no
more memory than a valid input needs, and no file read outside the given folder. Failures are kept, each with the
command that repeats it. Cases are the same for the same seed.

    python -m reliability.fuzz [--cases 1040] [--seed 0] [--jobs 2] [--only KIND] [--case N]
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
import time
from collections import Counter
from enum import StrEnum
from pathlib import Path

from reliability.processes import POLL, Ending, Limits, Run, preload, start_stmg
from reliability.report import OUT, Check, Progress, finish
from reliability.targets import TARGETS, Case, make_case

CASES = 1040
LIMITS = Limits(seconds=60.0, memory=2 << 30)
LIBRARIES = ("libpng ", "Corrupt JPEG", "Premature end of JPEG")  # print lines of their own to standard error


class Outcome(StrEnum):
    """Outcome of a run with a mutated input."""

    WORKED = "worked"
    REFUSED = "refused in one line"
    TRACEBACK = "traceback"
    HANG = "hang"
    SIGNAL = "ended by a signal"
    MEMORY = "too much memory"
    ESCAPED = "read a file outside its folder"
    UNCLEAR = "several lines, or the wrong exit code"


GOOD = (Outcome.WORKED, Outcome.REFUSED)


def classify(case: Case, ending: Ending) -> Outcome:
    """The outcome of a case, from how its process ended."""
    lines = [line for line in ending.error_lines if not line.startswith(LIBRARIES)]
    if ending.stopped == "memory" or any(line.startswith("error: out of memory") for line in lines):
        return Outcome.MEMORY
    if ending.stopped == "time":
        return Outcome.HANG
    if ending.code < 0:
        return Outcome.SIGNAL
    if ending.has_traceback:
        return Outcome.TRACEBACK
    if ending.code == 0:
        return Outcome.ESCAPED if case.escapes else Outcome.WORKED
    listed = ending.code == 1 and not lines  # `data check` lists what it found on standard output
    one_line = len(lines) == 1 and lines[0].startswith("error: ") and ending.code == 2
    return Outcome.REFUSED if ending.code in case.codes and (listed or one_line) else Outcome.UNCLEAR


class Fuzzer:
    """Runs cases, several at a time, and keeps those that fail."""

    def __init__(self, seed: int, folder: Path, limits: Limits = LIMITS) -> None:
        self.seed, self.folder, self.limits = seed, folder, limits
        self.samples = folder / "samples"
        self.outcomes: Counter[tuple[str, Outcome]] = Counter()
        self.failures: list[str] = []
        self.slowest = 0.0
        for name in ("samples", "cases", "failures"):
            shutil.rmtree(folder / name, ignore_errors=True)

    def write_samples(self) -> None:
        """Write the unmutated inputs, in processes of their own: exporting starts threads."""
        from reliability import samples

        def begin() -> None:
            samples.write_inputs(self.samples)
            samples.write_checkpoint(self.samples / "checkpoint")

        def exports() -> None:
            samples.write_exports(self.samples)

        def results() -> None:
            samples.write_results(self.samples)

        for together in ((begin,), (exports, results)):
            runs = [Run(write, self.folder / "log" / write.__name__, Limits(seconds=300)) for write in together]
            for ending in [run.finish() for run in runs]:
                if ending.code or ending.stopped:
                    sys.exit(f"the samples could not be written:\n{ending.error}")

    def run(self, numbers: list[int], jobs: int, only: str | None = None) -> None:
        waiting, running = numbers[::-1], dict[Run, tuple[int, Case]]()
        progress = Progress("case", len(numbers))
        while waiting or running:
            while waiting and len(running) < jobs:
                number = waiting.pop()
                running.update([self._start(number, only)])
            for run, (number, case) in list(running.items()):
                ending = run.poll()
                if ending is not None:
                    del running[run]
                    self._finish(number, case, ending)
                    progress.advance(f"{len(self.failures)} failures")
            time.sleep(POLL)

    def _start(self, number: int, only: str | None) -> tuple[Run, tuple[int, Case]]:
        folder = self.folder / "cases" / str(number)
        folder.mkdir(parents=True)
        case = make_case(number, self.seed, self.samples, folder, only)
        cache = {"XDG_CACHE_HOME": str(folder / "cache")}
        run = start_stmg(case.arguments, folder, self.limits, before=lambda: os.chdir(folder), environment=cache)
        return run, (number, case)

    def _finish(self, number: int, case: Case, ending: Ending) -> None:
        outcome = classify(case, ending)
        self.outcomes[case.name, outcome] += 1
        self.slowest = max(self.slowest, ending.seconds)
        folder = self.folder / "cases" / str(number)
        if outcome in GOOD:
            shutil.rmtree(folder)
            return
        last = (ending.error_lines or [""])[-2 if ending.has_traceback else -1][:150]
        self.failures.append(f"{number} {case.name}: {outcome} (code {ending.code}); {case.text[:150]}; {last}")
        print(self.failures[-1], flush=True)
        command = shlex.join([sys.executable, "-m", "stmg", *case.arguments])
        (folder / "repeat.sh").write_text(f'# {case.text!r}: {outcome}\ncd "$(dirname "$0")" && {command}\n')
        (self.folder / "failures").mkdir(exist_ok=True)
        shutil.move(folder, self.folder / "failures" / f"{number}-{case.name}-{outcome.name.lower()}")

    def checks(self) -> list[Check]:
        """The outcomes of each kind of input, and that no case failed."""
        checks = []
        for name in TARGETS:
            counts = {outcome: self.outcomes[name, outcome] for outcome in Outcome if self.outcomes[name, outcome]}
            if counts:
                text = ", ".join(f"{number} {outcome}" for outcome, number in counts.items())
                checks.append(Check(name, text, all(outcome in GOOD for outcome in counts)))
        total = self.outcomes.total()
        text = f"{total} cases, {len(self.failures)} failures; the slowest took {self.slowest:.1f} s"
        return [*checks, Check("all", text, not self.failures)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--only", choices=TARGETS, help="one kind of input")
    parser.add_argument("--case", type=int, help="one case of the seed, which is kept if it fails")
    parser.add_argument("--out", type=Path, default=OUT / "fuzz")
    arguments = parser.parse_args()
    begun = time.monotonic()
    preload()
    fuzzer = Fuzzer(arguments.seed, arguments.out.resolve())
    fuzzer.write_samples()
    numbers = list(range(-len(TARGETS), arguments.cases)) if arguments.case is None else [arguments.case]
    fuzzer.run(numbers, arguments.jobs, arguments.only)
    if fuzzer.failures:
        print(f"what failed is in {fuzzer.folder / 'failures'}, each with repeat.sh")
    full = arguments.cases >= CASES and arguments.case is None and arguments.only is None
    sys.exit(finish("fuzz", fuzzer.checks(), begun, full=full))


if __name__ == "__main__":
    main()
