"""The progress bar, as it is read on a terminal of 80 columns."""

import io

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
