"""stmg profile: before any training, how much of a video repeats and what that is worth on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from stmg.cli.options import (
    MODEL_HELP,
    Device,
    Normalize,
    Out,
    Precision,
    Runtime,
    Size,
    Threads,
    Weights,
    make_spec,
)
from stmg.cli.progress import INTERRUPTED, progress_bar
from stmg.cli.results import publish


def profile(
    source: Annotated[
        str,
        typer.Argument(help="Video file, folder or pattern of images, camera:0 or rtsp://...", show_default=False),
    ],
    model: Annotated[str, typer.Option("--model", "-m", metavar="NAME", help=MODEL_HELP)] = "lite0-camvid",
    size: Size = None,
    frames: Annotated[int, typer.Option(min=2, metavar="N", help="Number of frames to look at.")] = 150,
    changed: Annotated[
        float,
        typer.Option(
            min=0,
            max=100,
            metavar="PERCENT",
            help="Labels that may differ from the network's on every frame; 2.5 cost 1 % of mIoU on CamVid.",
        ),
    ] = 2.5,
    out: Out = Path("out/profile"),
    weights: Weights = None,
    runtime: Runtime = None,
    device: Device = None,
    precision: Precision = None,
    threads: Threads = None,
    normalize: Normalize = None,
) -> None:
    """Estimate the speedup on a video of your own, before any training: how much of it repeats, and is it worth it."""
    from stmg.evaluation.inputs import hide_credentials
    from stmg.evaluation.profile import profile as run

    console = Console()
    spec = make_spec(
        model,
        weights=weights,
        device=device,
        precision=precision,
        runtime=runtime,
        threads=threads,
        normalization=normalize,
        size=size,
    )
    try:
        with progress_bar(console) as progress:
            task = progress.add_task("network on every frame", total=None, status="")
            result = run(
                source,
                spec,
                frames=frames,
                max_changed=changed / 100,
                on_frame=lambda done, total: progress.update(task, completed=done, total=total),
            )
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    code = publish(result, out, console)
    if result.best is not None and result.best.gain > 1:
        options = f"--size {result.size[0]}x{result.size[1]} --scheduler drift:key_above={result.best.budget:g}"
        command = f"stmg segment {hide_credentials(source)} --model {model} {options}"
        console.print(f"to use it: {escape(command)}", soft_wrap=True)
    raise typer.Exit(code)
