"""The progress bar on a terminal of 80 columns."""

import io
import time

import pytest
from rich.console import Console

from stmg.cli.progress import progress_bar


@pytest.mark.parametrize(("total", "shown"), [(240, " 3/240"), (None, "3/?")])
def test_a_bar_counts_to_its_total_or_says_that_it_is_unknown(total, shown):
    console = Console(file=io.StringIO(), width=80, force_terminal=True)
    with progress_bar(console) as progress:
        progress.update(progress.add_task("frames", total=total, status="12 FPS"), completed=3)
    text = console.file.getvalue()
    assert shown in text
    assert "12 FPS" in text
    assert "None" not in text


def test_where_there_is_no_terminal_progress_is_lines(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    console = Console(file=io.StringIO(), width=80)
    with progress_bar(console) as progress:
        task = progress.add_task("frames", total=240, status="")
        for index in range(240):
            progress.update(task, advance=1, status=f"frame [{index}]")
            now[0] += 0.25
            if index == 0:  # at once: who waits for a line sees that it has begun
                assert console.file.getvalue() == "frames 1/240 frame [0]\n"
    lines = console.file.getvalue().splitlines()
    assert lines[1] == "frames 41/240 frame [40], 0.8 min left"
    assert len(lines) == 6  # one every ten seconds, of sixty
    unknown = progress_bar(console)
    unknown.update(unknown.add_task("frames", total=None, status=""), completed=3)
    assert console.file.getvalue().endswith("frames 3\n")


def test_the_time_left_is_of_what_began_last(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    console = Console(file=io.StringIO(), width=80)
    progress = progress_bar(console)
    task = progress.add_task("", total=10, status="")
    for done in range(1, 11):
        progress.update(task, description="watching", completed=done)
        now[0] += 60
    for done in range(1, 4):
        progress.update(task, description="training", completed=done, total=20)
        now[0] += 30
    assert console.file.getvalue().splitlines()[-1] == "training 3/20, 5.7 min left"
