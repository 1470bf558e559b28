"""stmg tune: choose settings for a model, a video and this machine by a goal."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from stmg.cli.interruption import INTERRUPTED
from stmg.cli.options import (
    ALL,
    FRAME_SIZE,
    MODEL,
    OF_EXPORTS,
    OF_GRAPHS,
    Model,
    Options,
    Out,
    format_options,
    make_spec,
    settings,
)
from stmg.cli.progress import progress_bar
from stmg.cli.results import AsJson, publish

if TYPE_CHECKING:
    from stmg.evaluation.tune import TuneProgress

SETTINGS = "settings.yaml"


def tune(
    model: Model,
    source: Annotated[
        str,
        typer.Argument(help="A video, a folder of images, or a dataset, whose labels are used.", show_default=False),
    ],
    max_loss: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE", help="Maximum loss of mIoU, such as 0.5%, relative to the network on every frame."
        ),
    ] = None,
    max_change: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Maximum share of the pixels whose label differs from that of the network on every frame, such as 2%. "
            "Default, if no goal is given: 2.5%, which cost less than 1 % of mIoU on CamVid.",
        ),
    ] = None,
    target_fps: Annotated[float | None, typer.Option(min=0.1, metavar="FPS", help="Minimum FPS.")] = None,
    max_latency: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            metavar="MS",
            help="Maximum latency in milliseconds (95th percentile). Tries realtime, and leaves offline out.",
        ),
    ] = None,
    beside: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="An export of the same model, such as one in INT8. Repeat for several."),
    ] = None,
    frames: Annotated[
        int, typer.Option(min=4, metavar="N", help="Number of frames: half to choose by, half to check on.")
    ] = 150,
    out: Out = Path("out/tune"),
    as_json: AsJson = False,
    *,
    options: Annotated[Options, settings("size", MODEL, size=FRAME_SIZE)],
) -> None:
    """Choose mode, budget and motion for a model on a video, by a goal of yours.

    Measures on this machine, chooses on one half of the video and checks on the other. Writes settings that
    `stmg segment --settings` and `stmg.load(settings=...)` take.
    """
    from stmg.data.catalogue import is_dataset
    from stmg.data.folder import is_video
    from stmg.evaluation.results import Goal
    from stmg.evaluation.tune import DEFAULT_GOAL, settings_of
    from stmg.evaluation.tune import tune as run
    from stmg.models.names import is_graph_file
    from stmg.models.spec import write_settings
    from stmg.streaming.values import read_share
    from stmg.video.addresses import hide_credentials

    console = Console(stderr=as_json)
    loss = None if max_loss is None else read_share("--max-loss", max_loss)
    goal = Goal(
        max_loss=None if loss is None else 100 * loss,
        max_change=None if max_change is None else read_share("--max-change", max_change),
        target_fps=target_fps,
        max_latency_ms=max_latency,
    )
    spec = make_spec(model, options)
    try:
        with progress_bar(console) as progress:
            task = progress.add_task("", total=None, status="")

            def show(at: TuneProgress) -> None:
                progress.update(task, description=escape(at.what), completed=at.done, total=at.total)

            chosen = DEFAULT_GOAL if goal == Goal() else goal
            result = run(spec, source, chosen, beside=beside or (), frames=frames, on_progress=show)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    code = publish(result, out, console, as_json)
    chosen_settings = settings_of(result, spec)
    if chosen_settings is not None and result.best is not None:
        write_settings(chosen_settings, out / SETTINGS)
        video = "VIDEO" if is_dataset(source) and not is_video(Path(source)) else shlex.quote(hide_credentials(source))
        way = result.best.way
        best = way.model or result.model
        names = ALL if way.model is None else OF_GRAPHS if is_graph_file(best) else OF_EXPORTS
        command = f"stmg segment {video} --model {shlex.quote(best)}{format_options(options, names)}"
        command += f" --settings {shlex.quote(str(out / SETTINGS))}"
        if way.mode == "realtime":
            command += " --pace"  # without it a file comes faster than any camera
        console.print(f"to use it: {escape(command)}", soft_wrap=True)
    raise typer.Exit(code)
