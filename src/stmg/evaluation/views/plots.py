"""Plots of results, as PNG files in memory."""

from __future__ import annotations

from stmg.evaluation.results import BenchmarkResult, EvaluationResult, Result, TuneResult
from stmg.evaluation.views.benchmark_plots import benchmark_plots
from stmg.evaluation.views.drawing import Plot
from stmg.evaluation.views.evaluation_plots import evaluation_plots
from stmg.evaluation.views.tune_plots import tune_plots


def draw_plots(result: Result) -> list[Plot]:
    """Everything that can be drawn from a result."""
    if isinstance(result, EvaluationResult):
        return evaluation_plots(result)
    if isinstance(result, BenchmarkResult):
        return [plot for run in result.sizes for plot in benchmark_plots(run)]
    if isinstance(result, TuneResult):
        return tune_plots(result)
    return []
