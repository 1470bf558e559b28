"""The tables of any result."""

from __future__ import annotations

from stmg.evaluation.results import AblationResult, BenchmarkResult, EvaluationResult, Result, TuneResult
from stmg.evaluation.views.benchmark_tables import benchmark_tables
from stmg.evaluation.views.evaluation_tables import evaluation_tables
from stmg.evaluation.views.text_table import TextTable, change, macs_share, mark_interrupted, number, ratio, size_text
from stmg.evaluation.views.tune_tables import tune_tables


def result_tables(result: Result) -> list[TextTable]:
    """The tables of any result."""
    if isinstance(result, EvaluationResult):
        return evaluation_tables(result)
    if isinstance(result, BenchmarkResult):
        return [table for run in result.sizes for table in benchmark_tables(result, run)]
    if isinstance(result, AblationResult):
        return ablation_tables(result)
    assert isinstance(result, TuneResult)
    return tune_tables(result)


def ablation_tables(result: AblationResult) -> list[TextTable]:
    """In the paper's layout."""
    where = f"{result.model} on {result.data} {result.split}, {size_text(result.size)}, {result.frames} frames"
    note = f"{result.settings}; {result.runtime}; ± is the standard deviation over {result.seeds} seeds"
    if result.base.cost is not None:
        note += f"; MACs are relative to the base network's {result.base.cost.macs / 1e9:.2f} G"
    note += "; key: key frames; blocks: those that ran on partial frames"
    tables = []
    for group in result.tables:
        headings: tuple[str, ...] = ("", "mIoU", "change", "MACs", "params", "key", "blocks")
        timed = any(row.fps is not None for row in group.rows)
        headings += ("FPS", "gain") if timed else ()
        table = TextTable(f"{group.title}: {where}{mark_interrupted(result)}", headings)
        for row in group.rows:
            table.add(
                row.name,
                number(row.miou) + ("" if row.miou_std is None else f" ± {row.miou_std:.2f}"),
                change(row.miou, result.base.miou),
                macs_share(row.cost, result.base.cost),
                number(None if row.cost is None else row.cost.params / 1e6, unit=" M"),
                number(row.key_share, 0, " %"),
                number(row.kept_blocks, 0, " %"),
                *((number(row.fps, 1), ratio(row.gain)) if timed else ()),
            )
        tables.append(table)
    if tables:
        tables[-1].note = note  # once for all of them
    return tables
