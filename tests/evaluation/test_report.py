"""The report is one self-contained page."""

from dataclasses import replace

import pytest

from stmg import VideoSegmenter
from stmg.evaluation.evaluate import evaluate
from stmg.evaluation.report import render_html, render_markdown, summarize
from stmg.streaming.schedulers import FixedPeriod, Level

SIZE = (48, 64)


@pytest.fixture(scope="module")
def evaluation(dataset, runtime):
    return evaluate(VideoSegmenter(runtime, scheduler=FixedPeriod(3, Level.CARRY)), dataset, size=SIZE, name="<mine>")


def test_the_page_holds_tables_and_pictures_and_fetches_nothing(evaluation, benchmark_result):
    page = render_html([evaluation, benchmark_result])
    assert page.count("data:image/png;base64") == len(evaluation.pictures) + 2 + 3
    assert "http" not in page
    assert "&lt;mine&gt;" in page
    assert "<mine>" not in page
    assert "last labels copied, every 3" in page


def test_a_picture_that_is_gone_is_left_out(evaluation):
    gone = tuple(replace(picture, png=b"") for picture in evaluation.pictures)
    page = render_html([replace(evaluation, pictures=gone)])
    assert page.count("data:image/png;base64") == 2


def test_each_mode_of_each_result_is_a_line_of_the_summary(evaluation, benchmark_result):
    lines = summarize([evaluation, benchmark_result])
    assert len(lines) == 2 + 3
    for line, mode in zip(lines, evaluation.modes, strict=False):
        assert mode.name in line
        assert f"mIoU {mode.miou:.2f} instead of {evaluation.base.miou:.2f}" in line
    assert "at 33.3 % of the MACs" in lines[0]
    assert "FPS instead of" in lines[2]
    assert "ms at p95" in lines[4]
    assert "<h1>" in render_html([])


def test_markdown_has_the_command_and_the_tables(evaluation):
    text = render_markdown([replace(evaluation, command="stmg evaluate mine")])
    assert text.startswith("`stmg evaluate mine` (")
    assert "| mIoU |" in text
