"""Tables of `tune`: the trade-off of a video, and what was promised beside what was measured."""

from __future__ import annotations

from stmg.evaluation.results import Goal, TuneOutcome, TuneResult
from stmg.evaluation.views.text_table import TextTable, number, ratio, size_text


def tune_tables(result: TuneResult) -> list[TextTable]:
    """The trade-off, and the choice with its check."""
    labeled = any(outcome.loss is not None for outcome in result.outcomes)
    headings = ("network runs", "pixels changed", *(("mIoU loss",) if labeled else ()), "FPS", "gain", "p95 ms")
    title = f"{result.source} with {result.model}, {size_text(result.size)}, {result.frames} frames"
    own = f"the network's own labels change by {number(100 * result.flicker, 2, ' %')} from frame to frame"
    note = f"budget/longest of a setting; those that another of their kind beats in both are left out; {own}"
    verdict = f"{describe_goal(result.goal)}: {result.verdict}"
    table = TextTable(title, ("", *headings), note=note if result.best else f"{note}\n{verdict}")
    for outcome in list_front(result):
        mark = " <" if outcome == result.best else ""
        model = "" if outcome.setting.model == result.model else f"{outcome.setting.model}: "
        table.add(f"{model}{outcome.setting}{mark}", *_cells(outcome, labeled))
    if result.best is None:
        return [table]
    promise = TextTable("promised and checked", ("", *headings), note=verdict)
    promise.add(f"estimated on {result.frames} frames", *_cells(result.best, labeled))
    if result.check is not None:
        promise.add(f"measured on {result.checked_frames} others", *_cells(result.check, labeled))
    return [table, promise]


def list_front(result: TuneResult) -> list[TuneOutcome]:
    """The choice, every frame, and of each model and mode what no other beats in both speed and change."""

    def is_beaten(one: TuneOutcome) -> bool:
        return any(
            (other.setting.model, other.setting.mode) == (one.setting.model, one.setting.mode)
            and other.fps >= one.fps
            and other.changed <= one.changed
            and (other.fps, other.changed) != (one.fps, one.changed)
            for other in result.outcomes
        )

    return [outcome for outcome in result.outcomes if outcome == result.best or not is_beaten(outcome)]


def describe_goal(goal: Goal) -> str:
    """The goal in words."""
    parts = []
    if goal.max_loss is not None:
        parts.append(f"at most {goal.max_loss:g} % of mIoU lost")
    if goal.max_change is not None:
        parts.append(f"at most {100 * goal.max_change:g} % of the pixels changed")
    if goal.target_fps is not None:
        parts.append(f"at least {goal.target_fps:g} FPS")
    if goal.max_latency_ms is not None:
        parts.append(f"at most {goal.max_latency_ms:g} ms")
    return f"goal: {', '.join(parts)}"


def _cells(outcome: TuneOutcome, labeled: bool) -> tuple[str, ...]:
    return (
        number(100 * outcome.key_share, 0, " %"),
        number(100 * outcome.changed, 2, " %"),
        *((number(outcome.loss, 2, " %"),) if labeled else ()),
        number(outcome.fps, 1),
        ratio(outcome.gain),
        number(outcome.latency_ms, 1),
    )
