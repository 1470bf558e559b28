"""The plot of `tune`: what each setting changes against how fast it is."""

from __future__ import annotations

from stmg.evaluation.results import TuneResult
from stmg.evaluation.views.drawing import BASE_COLOR, MODE_COLORS, Plot, make_figure, to_png
from stmg.streaming.motion import DIS_LEVELS

MARKERS = dict(zip(DIS_LEVELS, "osDv", strict=True))


def tune_plots(result: TuneResult) -> list[Plot]:
    caption = "Pixels changed against speed, of every setting tried; a star is the choice, a cross what it measured."
    return [Plot("tradeoff.png", caption, plot_tradeoff(result))]


def plot_tradeoff(result: TuneResult) -> bytes:
    """Settings by mode (color), level of motion (marker) and model (filled: the first)."""
    figure, axes = make_figure((9, 5.2))
    labels = set()
    for outcome in result.outcomes:
        setting = outcome.setting
        color = MODE_COLORS.get(setting.mode, BASE_COLOR)
        label = f"{setting.mode}, {setting.motion}" if setting.motion else setting.mode
        first = setting.model == result.model
        axes.scatter(
            outcome.fps,
            100 * outcome.changed,
            marker=MARKERS.get(setting.motion or "", "P"),
            facecolor=color if first else "none",
            edgecolor=color,
            s=34,
            label=None if label in labels else label,
            zorder=3,
        )
        labels.add(label)
    if result.goal.max_change is not None:
        axes.axhline(100 * result.goal.max_change, color="#999999", linestyle="--", label="goal")
    if result.goal.target_fps is not None:
        axes.axvline(result.goal.target_fps, color="#999999", linestyle="--", label="goal")
    for final, marker, label in ((result.best, "*", "chosen"), (result.check, "x", "checked on other frames")):
        if final is not None:
            axes.scatter(final.fps, 100 * final.changed, marker=marker, color="black", s=130, label=label, zorder=4)
    axes.set(xlabel="FPS", ylabel="pixels changed (%)", ylim=(0, None), xlim=(0, None))
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return to_png(figure)
