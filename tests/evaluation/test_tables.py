"""Tables: the same numbers in all formats, readable in a terminal of 80 columns."""

import pytest
from rich.console import Console

from stmg import VideoSegmenter
from stmg.evaluation.ablate import ablate
from stmg.evaluation.evaluate import evaluate
from stmg.evaluation.tables import result_tables
from stmg.evaluation.text_table import TextTable, change, number
from stmg.evaluation.way import BASE, Way
from stmg.streaming.schedulers import FixedPeriod

SIZE = (48, 64)


@pytest.fixture(scope="module")
def results(dataset, runtime, frames, benchmark_result):
    segmenter = VideoSegmenter(runtime, scheduler=FixedPeriod(3))
    return [
        evaluate(segmenter, dataset, size=SIZE, limit=4, paper_protocol=True),
        benchmark_result,
        ablate(segmenter, dataset, size=SIZE, seeds=2, limit=3, others={"one weight set": segmenter}),
        evaluate(VideoSegmenter(runtime), dataset, size=SIZE, limit=4, mode="realtime"),
    ]


def test_a_table_says_the_same_everywhere():
    table = TextTable("a <title>", ("", "mIoU"), note="a note")
    table.add("base", number(70.123))
    table.add("none", number(None))
    assert "| base | 70.12 |" in table.markdown()
    assert "<td>70.12</td>" in table.html()
    assert "a &lt;title&gt;" in table.html()
    assert change(69.0, 70.0) == "-1.43 %"
    assert change(None, 70.0) == "-"


def test_no_figure_is_wrapped_or_cut_at_80_columns(results):
    console = Console(record=True, width=80)
    for result in results:
        for table in result_tables(result):
            console.print(table.rich())
            text = console.export_text()
            assert max(map(len, text.splitlines())) <= 80
            assert "…" not in text
            for row in table.rows:
                figures = [cell for cell in row[1:] if cell]
                # They stand side by side on one line, in order, whatever a long name does.
                joined = [" ".join(line.split()) for line in text.splitlines()]
                assert any(" ".join(" ".join(figures).split()) in line for line in joined), (row, text)


def test_every_way_has_its_line_in_the_main_table(benchmark_result):
    main = result_tables(benchmark_result)[0]
    (run,) = benchmark_result.sizes
    assert main.headings == ("", "mIoU", "change", "MACs", "FPS", "gain", "to model", "p95 ms")
    assert [row[0] for row in main.rows] == [row.way.name for row in run.rows]
    cells = dict(zip(main.headings, main.rows[0], strict=True))
    base = run.row(BASE)
    assert cells["mIoU"] == f"{base.miou:.2f}"
    assert (cells["change"], cells["MACs"], cells["gain"]) == ("+0.00 %", "100.0 %", "1.00x")
    copied = run.rows.index(run.row(Way(kind="copied-labels", stride=3)))
    assert main.rows[copied][3] == "33.3 %"


def test_a_result_that_was_interrupted_says_so(results):
    from dataclasses import replace

    for result in results[:3]:
        assert "interrupted" not in result_tables(result)[0].title
        assert "interrupted" in result_tables(replace(result, interrupted=True))[0].title
