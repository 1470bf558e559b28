"""stmg export: write a model as graphs for ONNX Runtime or OpenVINO, compared with PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from stmg.cli.options import Options, Out, make_spec, settings

MODEL_HELP = (
    "A shipped name (lite0-camvid), folder, Hub id, torchvision:NETWORK, smp:FOLDER, network (ddrnet39), or "
    "nets.py:function that returns a network."
)


def export(
    model: Annotated[str, typer.Argument(help=MODEL_HELP, show_default=False)],
    to: Annotated[str, typer.Option(metavar="FORMAT", help="onnx or openvino.")] = "onnx",
    partial: Annotated[
        str | None,
        typer.Option(
            metavar="VIDEO",
            help="Export partial frames too, for the paper's mode; their blocks are chosen on this video or folder of "
            "images. Default: whole frames only.",
        ),
    ] = None,
    int8: Annotated[
        str | None,
        typer.Option(
            metavar="VIDEO", help="Export in INT8, calibrated on this video or folder of images. Default: FP32."
        ),
    ] = None,
    check: Annotated[
        str | None,
        typer.Option(
            metavar="VIDEO",
            help="Compare with PyTorch on frames of this video. Default: those of --int8 or --partial, else noise.",
        ),
    ] = None,
    out: Out = Path("out/export"),
    *,
    options: Annotated[
        Options,
        settings(
            *("size", "threads", "weights", "network", "normalize", "output", "activation", "threshold", "corrector"),
            size="Frame size. Default: the model's own, 360x480 if none.",
        ),
    ],
) -> None:
    """Export a model to ONNX or OpenVINO, and compare it with PyTorch.

    The folder runs without PyTorch, at one frame size: stmg segment VIDEO --model DIR.
    """
    from stmg.models.export import export as export_model
    from stmg.models.names import is_network
    from stmg.runtimes.manifest import read_manifest

    console = Console()
    spec = make_spec(model, options)
    with console.status(f"exporting {escape(model)} to {escape(to)}"):
        difference = export_model(spec, out, to, size=spec.settings.size, partial=partial, int8=int8, check=check)
    files = sorted(path.name for path in out.iterdir() if path.is_file())
    console.print(f"[bold]{escape(str(out))}[/]: {escape(', '.join(files))}")
    manifest = read_manifest(out)
    if manifest.blocks is not None:
        console.print(f"partial frames run {sum(manifest.blocks)} of {len(manifest.blocks)} blocks")
    elif manifest.card.get("mask_generator"):
        console.print("[yellow]whole frames only: --partial VIDEO exports partial frames too, for the paper's mode[/]")
    console.print(
        f"largest difference from PyTorch: logits {difference.logits:.1e} of the "
        f"largest, features {difference.features:.1e}, masks {difference.masks:.1e}, labels on "
        f"{difference.labels:.3%} of the pixels"
    )
    if int8 is not None:
        console.print("[yellow]INT8 costs accuracy: measure it with stmg evaluate[/]")
    if "weights" not in options and is_network(model):
        console.print(f"[yellow]{escape(model)} has no weights: its labels mean nothing[/]")
    console.print(f"next: stmg segment VIDEO --model {escape(str(out))}", soft_wrap=True)
