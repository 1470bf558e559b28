"""Plots are drawn from fields, and ways that belong together form one line."""

from dataclasses import replace

import pytest

from stmg.evaluation import plots
from stmg.evaluation.fronts import correlation, group_ways, pareto_front, pruning_points
from stmg.evaluation.rows import FrameRecord
from stmg.evaluation.way import BASE, ONLINE, Way
from stmg.streaming.schedulers import Level

PNG = b"\x89PNG"


def test_the_front_is_what_nothing_beats_in_both():
    points = {"slow": (70.0, 10.0), "fast": (60.0, 30.0), "beaten": (59.0, 20.0), "middle": (65.0, 20.0)}
    assert pareto_front(points) == ["slow", "middle", "fast"]


def test_ways_that_differ_in_stride_or_budget_alone_are_one_line_from_slow_to_fast():
    copied = [Way(kind="copied-labels", stride=stride) for stride in (2, 3, 5)]
    budgets = [replace(ONLINE, budget=budget) for budget in (0.15, 0.6)]
    points = {
        copied[2]: (58.0, 90.0),
        ONLINE: (67.0, 60.0),
        copied[0]: (65.0, 40.0),
        BASE: (68.0, 20.0),
        budgets[1]: (64.0, 80.0),
        copied[1]: (63.0, 61.0),
        budgets[0]: (67.5, 45.0),
        Way(kind="other-model", model="a"): (60.0, 99.0),
        Way(kind="other-model", model="b"): (61.0, 98.0),
    }
    groups = group_ways(points)
    assert [BASE] in groups
    assert [budgets[0], ONLINE, budgets[1]] in groups
    assert copied in groups
    assert len(groups) == 5  # two other models are two lines


def drawn_texts(monkeypatch, rows):
    """Everything written into the picture of accuracy against speed."""
    texts = []
    to_png = plots.to_png

    def spy(figure):
        for axes in figure.axes:
            texts.extend(text.get_text() for text in axes.texts)
            texts.extend(text.get_text() for text in axes.get_legend().get_texts() if axes.get_legend())
            break  # the paper's points stand in the second
        return to_png(figure)

    monkeypatch.setattr(plots, "to_png", spy)
    assert plots.plot_pareto(rows).startswith(PNG)
    return texts


def test_accuracy_against_speed_names_strides_budgets_and_runtimes(monkeypatch, benchmark_result):
    (run,) = benchmark_result.sizes
    texts = drawn_texts(monkeypatch, [row for row in run.rows if row.miou is not None])
    assert {"2", "3", "5", "10", "0.15", "0.6", "1.2", "as shipped"} <= set(texts)
    assert {"onnxruntime", "onnxruntime (again)"} <= set(texts)
    for line in ("base on every frame", "online", "offline", "paper's mode", "last labels copied", "logits warped"):
        assert texts.count(line) == 1


def test_every_result_is_drawn(benchmark_result):
    drawn = plots.draw_plots(benchmark_result)
    assert [plot.file for plot in drawn] == ["pareto-48x64.png", "gain-48x64.png", "latency-48x64.png"]
    assert all(plot.png.startswith(PNG) for plot in drawn)


def test_pruning_against_distortion_has_its_correlation():
    frames = [FrameRecord(Level.PARTIAL, share, 0.0, share, 1.0) for share in (0.1, 0.2, 0.4)]
    frames.append(FrameRecord(Level.PARTIAL, None, 0.0, 0.5, 1.0))
    frames.append(FrameRecord(Level.KEY, 0.9, 0.0, 1.0, 1.0))
    assert correlation(pruning_points(frames)) == pytest.approx(-1)
    assert plots.plot_pruning(frames).startswith(PNG)
    assert plots.plot_pruning(frames[:2]) is None
