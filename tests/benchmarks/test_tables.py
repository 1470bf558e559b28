"""Tables: BENCHMARKS.md and its pages show the results, and name the runs without one."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from benchmarks.documents import DOCUMENTS, fill
from benchmarks.run import RESULTS, Run, read_stored
from benchmarks.runs import RUNS, RUNTIMES, on_runtime
from benchmarks.tables import page_tables, summary
from documents import ROOT, relative
from stmg.evaluation.machine import Machine
from stmg.evaluation.results import BenchmarkResult, SizeBenchmark
from stmg.evaluation.rows import Latency, Live, Row, Timing
from stmg.evaluation.storage import to_json
from stmg.evaluation.way import BASE, OFFLINE, ONLINE, Way

INT8 = replace(OFFLINE, runtime="openvino", bits=8)
REALTIME = Way(kind="realtime")
RUN = Run(
    name="net",
    page="net",
    command=("benchmark", "exports/net/onnx", "CAMVID"),
    minutes=2,
    network="net",
    runtime="ONNX Runtime",
    rows=tuple(on_runtime(method, "ONNX Runtime") for method in (BASE, ONLINE, OFFLINE, REALTIME, INT8)),
)
OTHER = replace(RUN, name="net-pytorch", runtime="PyTorch", rows=(BASE, ONLINE, REALTIME))


def make_row(way: Way, miou: float, gain: float, **more) -> Row:
    timing = Timing(
        fps=10 * gain,
        fps_range=(10 * gain, 10 * gain),
        gain=gain,
        gain_range=(gain, gain),
        expected_gain=None,
        gain_reached=None,
        carry_overhead=None,
        slowest_frame=None,
        end_to_end_fps=9.0,
        latency=Latency(12.34, 50.0, 99.96),
        levels=(),
    )
    return Row(way=way, miou=miou, timing=timing, **more)


def make_result() -> BenchmarkResult:
    machine = Machine(
        processor="a processor",
        cores=2,
        threads=2,
        opencv_threads=2,
        gpu=None,
        system="Linux",
        python="3.11.0",
        stmg="0.1.0",
        packages={},
    )
    rows = (
        make_row(BASE, 80.0, 1.0, peak_memory=200_000_000),
        make_row(OFFLINE, 79.0, 4.0),
        make_row(INT8, 78.0, 3.0, model_gain=5.5, model_gain_range=(5.0, 6.0)),
    )
    live = Live(
        rate=15.0, latency=Latency(4.0, 5.0, 6.0), mean_age=1.0, p95_age=2.0, network_runs=9, dropped=0, stale=0
    )
    at_size = SizeBenchmark(
        size=(36, 48),
        frames=10,
        frames_per_turn=5,
        settings="",
        runtime="",
        read_ms=None,
        draw_ms=1.0,
        rows=rows,
        realtime=(Row(way=REALTIME, miou=72.0, frames=10, live=live),),
    )
    return BenchmarkResult(
        command=RUN.command_line, machine=machine, model="net", source="CAMVID", repeats=1, warning="", sizes=(at_size,)
    )


@pytest.fixture
def folder(tmp_path):
    """A folder with the result of one of two runs."""
    (tmp_path / "net.json").write_text(to_json(make_result()))
    return tmp_path


def make_lines(folder, runs=(RUN, OTHER)) -> list[list[str]]:
    """The cells of the summary's rows."""
    text = summary(folder, runs)
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in text.splitlines() if line.startswith("| net")]


def test_a_row_has_the_figures_of_the_result_on_the_runtime_that_the_model_had(folder):
    lines = make_lines(folder)
    name = ["net", "base on every frame", "ONNX Runtime"]
    assert [*name, "80.00", "", "10.0", "1.00×", "12.3", "100.0", "200", "a processor", "1"] in lines
    offline = ["net", "offline", "ONNX Runtime", "79.00", "-1.25 %", "40.0", "4.00×", "12.3", "100.0", ""]
    assert [*offline, "a processor", "1"] in lines
    int8 = next(line for line in lines if line[2] == "OpenVINO INT8")
    assert int8[6] == "3.00× (5.50× of FP32)"
    assert [
        "net",
        "realtime",
        "ONNX Runtime",
        "72.00",
        "-10.00 %",
        "",
        "",
        "4.0",
        "6.0",
        "",
        "a processor",
        "1",
    ] in lines


def test_a_run_without_a_result_is_named_and_one_with_it_shows_only_what_it_has(folder):
    assert {line[2] for line in make_lines(folder)[1:]} == {"ONNX Runtime", "OpenVINO INT8"}
    assert "Not run yet: net-pytorch." in summary(folder, (RUN, OTHER))
    (folder / "net.json").unlink()
    assert make_lines(folder)[1:] == []


def test_a_page_names_the_runs_that_it_lacks(folder):
    text = page_tables("net", folder, (RUN, OTHER))
    assert f"`{RUN.command_line}` ([raw](../results/net.json))" in text
    assert "| offline | 79.00 |" in text
    assert "| realtime | 72.00 |" in text  # whichever tables come before it
    assert text.endswith("Not run yet: net-pytorch.")


def test_tables_go_between_their_marks_and_nothing_else_changes(folder):
    page = "before\n<!-- table: minutes -->\nold\n<!-- end -->\nbetween\n<!-- table: summary -->\n<!-- end -->\nafter\n"
    once = fill(page, folder)
    assert once.startswith("before\n<!-- table: minutes -->\n\n")
    assert once.endswith("\n<!-- end -->\nafter\n")
    assert "old" not in once
    assert "about" in once.partition("between")[0]
    assert "| network |" in once.partition("between")[2]
    assert fill(once, folder) == once


@pytest.mark.parametrize("page", [path for path in DOCUMENTS if "docs" not in path.parts], ids=relative)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert targets
    for target in targets:
        assert (page.parent / target).exists(), target


def test_every_result_belongs_to_a_run_and_can_be_read():
    names = {run.name for run in RUNS}
    assert len(names) == len(RUNS)
    for path in RESULTS.rglob("*.json"):
        assert path.stem in names
        assert str(path.relative_to(RESULTS)) == next(run.file for run in RUNS if run.name == path.stem)
        assert not re.search(r'"[^"]*/(work|home|root|tmp|Users)/', path.read_text()), path.name
    assert all(read_stored(run) for run in RUNS if (RESULTS / run.file).exists())


def test_every_page_is_shown_and_every_row_has_a_runtime():
    pages = {path.stem for path in (ROOT / "benchmarks" / "pages").glob("*.md")}
    for run in RUNS:
        assert run.page in {*pages, ""}
        assert {row.reference for row in run.rows} <= set(RUNTIMES.values())
