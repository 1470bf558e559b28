"""stmg benchmark: speed and cost of a model in each mode beside its base network and baselines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from stmg.cli.interruption import INTERRUPTED
from stmg.cli.options import MODEL, STREAM, Model, Options, Out, make_spec, settings
from stmg.cli.progress import progress_bar
from stmg.cli.results import AsJson, publish

if TYPE_CHECKING:
    from rich.progress import TaskID

    from stmg.evaluation.benchmark import BenchmarkProgress


def benchmark(
    model: Model,
    source: Annotated[
        str,
        typer.Argument(help="A dataset, street:0-0, a video file, or a folder of images.", show_default=False),
    ],
    size: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HEIGHTxWIDTH",
            help="Frame size, such as 360x480. Repeat for several. Default: that at which segment computes the source.",
        ),
    ] = None,
    frames: Annotated[int, typer.Option(min=2, metavar="N", help="Number of frames.")] = 100,
    repeats: Annotated[int, typer.Option(min=1, metavar="N", help="Passes over the frames, for their spread.")] = 3,
    rate: Annotated[
        float | None,
        typer.Option(
            metavar="FPS",
            help="FPS at which realtime gets its frames. Default: the source's own, 15 if unknown.",
        ),
    ] = None,
    baselines: Annotated[
        bool,
        typer.Option(
            "--baselines",
            help="Also copied labels, warped logits and half resolution, and streams at half, twice and four times "
            "their drift budget.",
        ),
    ] = False,
    smaller: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL", help="Another model to run on every frame, such as a smaller network. Repeat for several."
        ),
    ] = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIR",
            help="An export of the same model for another runtime or as INT8, in the same modes. Repeat for several.",
        ),
    ] = None,
    out: Out = Path("out/benchmark"),
    as_json: AsJson = False,
    *,
    options: Annotated[
        Options,
        settings(
            STREAM, "settings", MODEL, without=["size"], mode="offline, online or realtime alone. Default: all of them."
        ),
    ],
) -> None:
    """Measure the speed of a model beside the network on every frame: FPS, latency, MACs, memory.

    All run in turns over the same frames, offline in turns of whole passes; realtime gets its frames at their own rate.
    A bare network such as ddrnet39 may be timed without weights. If the source has labels, mIoU is measured too.
    """
    from stmg.evaluation.benchmark import benchmark as run
    from stmg.streaming.values import read_size

    console = Console(stderr=as_json)
    spec = make_spec(model, options, several_modes=True)
    sizes = [read_size("--size", text) for text in size or []]
    tasks: dict[tuple[int, int], TaskID] = {}
    try:
        with progress_bar(console) as progress:

            def show(state: BenchmarkProgress) -> None:
                if state.size not in tasks:
                    tasks[state.size] = progress.add_task(f"{state.size[0]}x{state.size[1]}", status="")
                task = tasks[state.size]
                progress.update(task, completed=state.done, total=state.total, status=state.way.name)

            result = run(
                spec,
                source,
                sizes=sizes,
                frames=frames,
                repeats=repeats,
                mode=options.get("mode"),
                rate=rate,
                baselines=baselines,
                smaller=smaller or (),
                beside=beside or (),
                on_frame=show,
            )
    except KeyboardInterrupt:  # before the first size was done
        raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(publish(result, out, console, as_json))
