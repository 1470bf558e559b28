"""stmg evaluate: accuracy of a model as a stream in each mode, beside its base network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from stmg.cli.interruption import INTERRUPTED
from stmg.cli.options import FRAME_SIZE, MODEL, STREAM, Data, Limit, Model, Options, Out, Split, make_spec, settings
from stmg.cli.progress import progress_bar
from stmg.cli.results import AsJson, publish
from stmg.errors import SettingsError


def evaluate(
    model: Model,
    data: Data,
    split: Split = "val",
    limit: Limit = None,
    network_intervals: Annotated[
        str | None,
        typer.Option(
            metavar="N,N",
            help="Of realtime: how many frame intervals the network takes, evaluated with exactly that delay. "
            "Default: 1,2,4.",
        ),
    ] = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="Also the paper's protocol: each labeled frame given the one before.")
    ] = False,
    out: Out = Path("out/evaluate"),
    as_json: AsJson = False,
    *,
    options: Annotated[
        Options,
        settings(
            STREAM,
            "settings",
            MODEL,
            size=FRAME_SIZE,
            mode="offline, online or realtime alone. Default: online and offline, side by side.",
        ),
    ],
) -> None:
    """Measure the accuracy of a model as a stream, beside the network on every frame.

    mIoU, boundary IoU, temporal consistency, MACs, and accuracy by distance from the computed frame, of each mode. On
    videos without labels: how far the labels agree with those of the network on every frame.
    """
    from stmg.data.catalogue import open_dataset
    from stmg.evaluation.evaluate import evaluate as run
    from stmg.evaluation.inputs import videos_of

    console = Console(stderr=as_json)
    spec, mode = make_spec(model, options, several_modes=True), options.get("mode")
    dataset = open_dataset(data)
    frames = sum(min(len(video), limit or len(video)) for video in videos_of(dataset, split))
    try:
        with progress_bar(console) as progress:
            task = progress.add_task("base network and " + (mode or "stmg"), total=frames, status="")
            result = run(
                spec,
                dataset,
                split=split,
                limit=limit,
                mode=mode,
                network_intervals=_parse_intervals(network_intervals),
                paper_protocol=paper,
                on_frame=lambda frame: progress.update(task, advance=1, status=str(frame.level)),
            )
    except KeyboardInterrupt:  # before the first frame
        raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(publish(result, out, console, as_json))


def _parse_intervals(text: str | None) -> list[int] | None:
    """Parse numbers of frame intervals such as 1,2,4."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise SettingsError(f"--network-intervals must be whole numbers from 1, such as 1,2,4; got {text!r}")
    return [int(part) for part in parts]
