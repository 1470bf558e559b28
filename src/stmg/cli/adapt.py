"""stmg adapt: train a corrector for a model on your own video without labels."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from stmg.cli.interruption import INTERRUPTED
from stmg.cli.options import FRAME_SIZE, MODEL, OF_CHECKPOINTS, Model, Options, format_options, make_spec, settings
from stmg.cli.progress import progress_bar

if TYPE_CHECKING:
    from stmg.training.corrector_run import PhaseReport


def adapt(
    model: Model,
    on: Annotated[
        list[str],
        typer.Option(
            "--on",
            metavar="VIDEO",
            help="Video, folder of videos or images, or dataset to adapt to. Repeat for several.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for the model with its corrector.")
    ] = Path("out/adapted"),
    cost: Annotated[
        str, typer.Option(metavar="SHARE", help="Maximum MACs of the corrector, as a share of the network's.")
    ] = "5%",
    minutes: Annotated[float, typer.Option(min=0.1, metavar="N", help="About how long it may take.")] = 15.0,
    longest: Annotated[
        int, typer.Option(min=2, metavar="FRAMES", help="Most frames over which labels are carried in training.")
    ] = 8,
    stills: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            metavar="SHARE",
            help="Share of the training clips that are made from single frames, with simulated motion.",
        ),
    ] = 0.5,
    steps: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Training steps. Default: by --minutes.")
    ] = None,
    pairs: Annotated[
        int | None, typer.Option(min=16, metavar="N", help="Pairs of frames to train on. Default: by --minutes.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Random seed.")] = 0,
    *,
    options: Annotated[Options, settings("size", "motion", MODEL, size=FRAME_SIZE)],
) -> None:
    """Train a corrector for a model on your own video, without labels.

    The network is the teacher: the corrector learns to correct warped labels. The end of each video, or of five videos
    and more whole ones, is held out; if the corrector is no help there, the model stays as it was.

    With --corrector it goes on from that one, at its size; else it starts from ImageNet.

    Ctrl-C keeps what is done, and the same command goes on from there.
    """
    from stmg.models.names import is_graph_file
    from stmg.streaming.values import read_share
    from stmg.training.adapt import RUN
    from stmg.training.adapt import adapt as run
    from stmg.training.corrector_run import AdaptSettings

    console = Console()
    spec = make_spec(model, options)
    adapt_settings = AdaptSettings(
        cost=read_share("--cost", cost),
        minutes=minutes,
        longest=longest,
        still_share=stills,
        steps=steps,
        pairs=pairs,
        seed=seed,
    )
    try:
        with progress_bar(console) as progress:
            task = progress.add_task("", total=None, status="")

            def show(report: PhaseReport) -> None:
                status = escape(report.status)
                progress.update(
                    task, description=report.phase, completed=report.done, total=report.total, status=status
                )

            adapted = run(spec, on, out, adapt_settings, on_progress=show)
    except KeyboardInterrupt:
        console.print(f"[yellow]interrupted; the same command goes on from what {escape(str(out / RUN))} holds[/]")
        raise typer.Exit(INTERRUPTED) from None
    check = adapted.check
    console.print(
        f"{escape(model)} at {adapted.size[0]}x{adapted.size[1]}, motion {adapted.motion}: {adapted.steps} steps on "
        f"{adapted.pairs} pairs in {adapted.seconds / 60:.1f} min; the corrector takes {adapted.macs / 1e9:.2f} GMACs "
        f"per frame{'' if adapted.share is None else f', {adapted.share:.1%} of the network'}"
    )
    if adapted.share is None:
        console.print("[yellow]the network's MACs are not known: --cost could not be honored[/]")
    elif adapted.share > adapt_settings.cost:
        console.print(f"[yellow]more than --cost {adapt_settings.cost:.1%}: there is no smaller corrector[/]")
    if not check.clips:
        console.print("[yellow]it could not be checked: the frames held out are cut too often[/]")
    else:
        console.print(f"on {check.clips} clips held out, labels differ from the network's")
        for what, change in (("carried from one frame", check.carried), ("between two frames", check.between)):
            console.print(
                f"  {what + ':':24}on {change.uncorrected:.2%} of the pixels with motion alone, "
                f"on {change.corrected:.2%} corrected"
            )
    if not check.helps:
        console.print(f"[yellow]{'the corrector is no help there; ' * bool(check.clips)}the model stays as it was[/]")
        return
    if not check.between.is_less:
        console.print("[yellow]between two computed frames it is no help: offline mode does without[/]")
    folder = shlex.quote(str(out))
    if adapted.has_model:  # the folder of a graph file stores how to open it
        use = folder + ("" if is_graph_file(model) else format_options(options, OF_CHECKPOINTS))
    else:
        without = {name: value for name, value in options.items() if name != "corrector"}
        use = f"{shlex.quote(model)}{format_options(without)} --corrector {folder}"
    if "motion" in options:  # otherwise the model's own is used
        use += f" --motion {shlex.quote(options['motion'])}"
    console.print(f"to use it: stmg segment VIDEO --model {escape(use)}", soft_wrap=True)
