"""Options that verbs of the command line share, and what is made of what was typed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from stmg.card import IMAGENET_MEAN, IMAGENET_STD

Normalisation = tuple[tuple[float, ...], tuple[float, ...]]
NORMALISATIONS: dict[str, Normalisation] = {
    "imagenet": (IMAGENET_MEAN, IMAGENET_STD),
    "none": ((0.0,) * 3, (1.0,) * 3),
    "half": ((0.5,) * 3, (0.5,) * 3),
    "bytes": ((0.0,) * 3, (1 / 255,) * 3),
}

Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, mps; a GPU if there is one and none is given.")]
Threads = Annotated[int | None, typer.Option(help="CPU threads to use.")]
Precision = Annotated[str, typer.Option(help="fp32, bf16 or fp16.")]
Compile = Annotated[
    bool, typer.Option("--compile", help="Compile key frames with torch.compile; the first one waits for it.")
]
Weights = Annotated[Path | None, typer.Option(help=".pth or .safetensors for a bare network such as ddrnet23-slim.")]
Normalise = Annotated[
    str | None,
    typer.Option(
        help="What a graph file or a network of your own takes: imagenet, none (0 to 1), half (-1 to 1), bytes "
        "(0 to 255), or MEAN/STD of each channel: 0.5,0.5,0.5/0.2,0.2,0.2. ImageNet's if not given."
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(help="drift, paper, fixed, per-frame, always-key; with settings: fixed:period=3,between=carry."),
]
Runtime = Annotated[str | None, typer.Option(help="torch, onnxruntime or openvino; the model's own if not given.")]
Motion = Annotated[str | None, typer.Option(help="dis, codec or none.")]
Fusion = Annotated[
    float | None, typer.Option(help="What the scores before, moved, count for in key frames: 0 (nothing) to 0.9.")
]
Model = Annotated[str, typer.Argument(help="Shipped name, checkpoint or exported folder, Hub id, file.py:function.")]
Data = Annotated[
    str, typer.Argument(help="CamVid, Cityscapes, a folder with a dataset.yaml, videos without labels, or street:0-9.")
]
Split = Annotated[str, typer.Option(help="The split to judge on.")]
Size = Annotated[str | None, typer.Option(help="HEIGHTxWIDTH to work at; the model's own if not given.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Stop after this many frames of each video.")]


def size_of(text: str | None) -> tuple[int, int] | None:
    """(height, width) as it is typed, 360x480."""
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise ValueError(f"a size is HEIGHTxWIDTH, such as 360x480; got {text!r}")
    return int(parts[0]), int(parts[1])


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def settings_of(scheduler: str | None, motion: str | None, fusion: float | None) -> dict[str, Any]:
    """Those settings of a segmenter that were given."""
    asked = {"scheduler": scheduler_of(scheduler), "motion": motion, "fusion": fusion}
    return {name: value for name, value in asked.items() if value is not None}


def model_of(
    weights: Path | None,
    device: str | None,
    precision: str,
    runtime: str | None,
    threads: int | None,
    settings: dict[str, Any],
    normalise: str | None = None,
    compile: bool = False,
) -> dict[str, Any]:
    """How the model that is judged is made."""
    from stmg.commands.segmenters import use_threads

    use_threads(threads)
    made = {"weights": weights, "device": device, "precision": precision, "runtime": runtime, "threads": threads}
    return {**made, "normalise": normalisation_of(normalise), "compile": compile, **settings}


def normalisation_of(text: str | None) -> Normalisation | None:
    """Mean and deviation of RGB values from 0 to 1, as they are typed."""
    if text is None or text in NORMALISATIONS:
        return None if text is None else NORMALISATIONS[text]
    try:
        mean, std = (tuple(map(float, part.split(","))) for part in text.split("/"))
    except ValueError:
        mean, std = (), ()
    if (len(mean), len(std)) != (3, 3) or not all(std):
        known = ", ".join(NORMALISATIONS)
        raise ValueError(f"--normalise is {known}, or three means / three deviations above 0; got {text!r}")
    return mean, std


def scheduler_of(text: str | None) -> Any:
    """A scheduler as it is typed, fixed:period=3,between=carry."""
    if text is None:
        return None
    from stmg.scheduler import scheduler_named

    name, _, rest = text.partition(":")
    options: dict[str, Any] = {}
    for item in filter(None, rest.split(",")):
        key, _, value = item.partition("=")
        options[key] = _number(value)
    return scheduler_named(name, **options)
