"""Report: RELIABILITY.md shows exactly the reports of the programs."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from reliability.report import PAGE, Check, Report, fill, read_report

FIGURES = Report(
    "fuzz", "make", "2026-01-02", "a machine", 90.0, (Check("video", "9 worked", True), Check("all", "1", False))
)


def test_the_page_holds_the_report_of_the_last_full_runs():
    page = PAGE.read_text(encoding="utf-8")
    assert fill(page) == page


def test_report_are_read_as_they_were_written_and_put_between_the_marks(tmp_path):
    (tmp_path / "fuzz.json").write_text(json.dumps(asdict(FIGURES)))
    assert read_report("fuzz", tmp_path) == FIGURES
    assert read_report("soak", tmp_path) is None
    page = fill(PAGE.read_text(encoding="utf-8"), tmp_path)
    assert "| video | 9 worked | yes |\n| all | 1 | **no** |\n<!-- end of fuzz -->" in page
    assert page.count("No full run yet.") == 2
    assert not FIGURES.holds


def test_a_page_without_its_marks_is_refused():
    with pytest.raises(AssertionError, match="lacks"):
        fill("# Reliability")
