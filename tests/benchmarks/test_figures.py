"""Figures: every measured number in the documents comes from a result."""

from __future__ import annotations

import re

import pytest

from benchmarks import figures
from benchmarks.documents import DOCUMENTS, fill, unexplained_numbers
from benchmarks.figures import MARK, NoResultError, figure, figure_names, format_number, full_name, write_figures
from benchmarks.measurement import Measurement, read_measurement, typed_command, write_measurement
from benchmarks.runs import RUNS
from documents import relative
from stmg.evaluation.machine import Machine

NOT_MEASURED = {
    "README.md": ["less than about 10 ms a frame"],
    "docs/concepts/anchors.md": ["10, 35 and 115 GMACs"],
    "docs/limits.md": ["less than about 10 ms a frame"],
    "docs/how-to/adapt.md": ["For a light network 5 %"],
    "docs/how-to/camera.md": ["it answers 95 % of the fr"],
    "docs/how-to/tune.md": ["95 % of the fr"],
    "benchmarks/pages/streets.md": ["the demo's 30 FPS", "loses. At 30 FPS", "and at 15 FPS"],
    "benchmarks/pages/parts.md": ["one stream of 15 FPS"],
}
"""Numbers with a unit that are rules of thumb, options or rates of a video, with the words around them."""


@pytest.fixture
def numbers(monkeypatch):
    """Results with two numbers."""
    monkeypatch.setattr(figures, "read_numbers", lambda name: {"offline": {"gain": 4.438, "change": -0.8014}})


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_a_document_holds_what_the_results_say(path):
    text = path.read_text(encoding="utf-8")
    assert fill(text, beside=path.parent) == text, "make figures"


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_every_figure_exists(path):
    text = path.read_text(encoding="utf-8")
    names = figure_names(text)
    assert len(names) == len(MARK.findall(text)), "a mark that no number stands before"
    for name in names:
        try:
            figure(name)
        except NoResultError:
            assert any(run.name == full_name(name.split("/")[0]) for run in RUNS)


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_no_measured_number_is_typed_by_hand(path):
    allowed = NOT_MEASURED.get(relative(path), [])
    left = [
        each for each in unexplained_numbers(path.read_text(encoding="utf-8")) if not any(a in each for a in allowed)
    ]
    assert left == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_no_mark_shows_on_the_page(path):
    """A comment at the beginning of a line ends a paragraph, and one in code is shown."""
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"^ {0,3}(?:[-*] +)?<!--=", text, re.MULTILINE)
    for code in re.findall(r"^```.*?^```|`[^`\n]*`", text, re.MULTILINE | re.DOTALL):
        assert "<!--=" not in code


def test_a_figure_keeps_its_decimals_its_unit_and_its_sign(numbers):
    page = "4.1×<!--=slim/offline/gain--> and **-0.5 %<!--=slim/offline/change-->**, 4<!--=slim/offline/gain--> times"
    assert write_figures(page) == (
        "4.4×<!--=slim/offline/gain--> and **-0.8 %<!--=slim/offline/change-->**, 4<!--=slim/offline/gain--> times"
    )
    assert write_figures(write_figures(page)) == write_figures(page)


@pytest.mark.parametrize(
    ("value", "sign", "like", "text"),
    [
        (0.624, "+", "0.6", "+0.6"),
        (-0.624, "−", "0.61", "−0.62"),
        (-0.624, "", "0.6", "−0.6"),  # what was a loss is a gain now: it shows
        (-0.001, "", "0.0", "0.0"),
        (1234.5, "", "1,000", "1,234"),
    ],
)
def test_numbers_look_as_before(value, sign, like, text):
    assert format_number(value, sign, like) == text


def test_a_name_that_means_nothing_is_explained(numbers):
    for name, message in (
        ("slim/offline", "RESULT/ROW/NUMBER"),
        ("slim/online/gain", "no row 'online'; it has offline"),
        ("slim/offline/fps", "no 'fps'; it has gain, change"),
    ):
        with pytest.raises(KeyError, match=message):
            figure(name)


def test_a_figure_whose_run_has_no_result_stays(monkeypatch):
    def fail(name):
        raise NoResultError(name)

    monkeypatch.setattr(figures, "read_numbers", fail)
    assert write_figures("4.1×<!--=slim/offline/gain-->") == "4.1×<!--=slim/offline/gain-->"


def test_a_run_that_does_not_exist_is_an_error():
    with pytest.raises(KeyError, match="there is no run 'nothing'"):
        figure("nothing/offline/gain")


def test_numbers_that_look_measured_are_found():
    page = (
        "It gains 4.4× and has 68.00.\n\n| row | paper |\n|---|---|\n| 3 ms | 5 ms |\n\n`--max-change 2%`, 360x480, 2.0"
    )
    assert len(unexplained_numbers(page)) == 3
    assert unexplained_numbers("4.4×<!--=slim/offline/gain--> <!-- table: x -->| 5 ms |<!-- end -->") == []


def test_a_measurement_is_read_back_as_it_was(tmp_path):
    machine = Machine(
        processor="p", cores=2, threads=2, opencv_threads=2, gpu=None, system="s", python="3", stmg="0", packages={}
    )
    measurement = Measurement(
        command="python -m benchmarks.x",
        machine=machine,
        title="what it is",
        columns={"ms": ("ms", "{:.1f}"), "gain": ("gain", "{:.2f}x"), "kept": ("kept", "{:.0f}")},
        rows={"one": {"ms": 1.26, "gain": None}, "two": {"ms": 2.0, "gain": 3.0}},
    )
    write_measurement(measurement, tmp_path / "x.json")
    assert read_measurement(tmp_path / "x.json") == measurement
    assert "|  | ms | gain |" in measurement.table().markdown()
    assert "| one | 1.3 | - |\n| two | 2.0 | 3.00x |" in measurement.table().markdown()


def test_a_command_is_kept_without_where_the_result_goes():
    assert typed_command("speed", ["pytorch", "--out", "a.json", "--repeats", "2"]) == (
        "python -m benchmarks.speed pytorch --repeats 2"
    )
