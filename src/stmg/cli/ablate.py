"""stmg ablate: the effect of each part, in the paper's layout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from stmg.cli.interruption import INTERRUPTED
from stmg.cli.options import FRAME_SIZE, Data, Limit, Model, Options, Out, Split, make_spec, settings
from stmg.cli.progress import progress_bar
from stmg.cli.results import AsJson, publish
from stmg.errors import SettingsError


def ablate(
    model: Model,
    data: Data,
    also: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=MODEL",
            help="Another checkpoint to compare, such as 'one weight set=runs/one/last'. Repeat for several.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Number of seeds for random rows.")] = 3,
    split: Split = "val",
    limit: Limit = None,
    out: Out = Path("out/ablate"),
    as_json: AsJson = False,
    *,
    options: Annotated[Options, settings("size", "device", "threads", "network", size=FRAME_SIZE)],
) -> None:
    """Measure what each part is worth: the rows of the paper's ablations, and stmg's own."""
    from stmg.evaluation.ablate import ablate as run
    from stmg.models.card import CARD

    console = Console(stderr=as_json)
    spec = make_spec(model, options)
    others = {}
    for text in also or []:
        name, equals, other = text.partition("=")
        if not equals:
            raise SettingsError(f"--also is NAME=MODEL, such as 'one weight set=runs/one/last'; got {text!r}")
        unused = ("size",) if (Path(other) / CARD).is_file() else ("size", "network")
        others[name] = make_spec(other, {key: value for key, value in options.items() if key not in unused})
    try:
        with progress_bar(console) as progress:
            task = progress.add_task("ablations", total=None, status="reading")
            result = run(
                spec,
                data,
                others=others,
                seeds=seeds,
                split=split,
                limit=limit,
                on_row=lambda row, done, total: progress.update(task, completed=done, total=total, status=row.strip()),
            )
    except KeyboardInterrupt:  # before the first row
        raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(publish(result, out, console, as_json))
