"""Options that the verbs share, and the `ModelSpec` they add up to. Imports nothing heavy: `stmg --help` reads it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stmg.errors import SettingsError

if TYPE_CHECKING:
    from stmg.checkpoints.resolve import ModelSpec
    from stmg.streaming.schedulers import Scheduler as SchedulerPolicy

RUN, MEASURE, TRAIN = "Run", "Measure", "Train"  # panels of `stmg --help`
MODEL_PANEL, STREAM_PANEL = "Model", "Streaming"  # panels of a verb's help

MODEL_HELP = (
    "A shipped name (lite0-camvid), checkpoint folder, exported folder, .onnx or .xml file, Hub id, "
    "or file.py:function that returns a network."
)
DATA_HELP = "CamVid, Cityscapes, a folder with a dataset.yaml, a video or folder of videos, or street:0-9 (rendered)."

Model = Annotated[str, typer.Argument(help=MODEL_HELP, show_default=False)]
Data = Annotated[str, typer.Argument(help=DATA_HELP, show_default=False)]
Split = Annotated[str, typer.Option(help="Split of the dataset.")]
Size = Annotated[
    str | None, typer.Option(metavar="HEIGHTxWIDTH", help="Frame size, such as 360x480. Default: the model's own.")
]
Limit = Annotated[int | None, typer.Option(min=1, metavar="N", help="Stop after N frames of each video.")]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Output folder.")]

Weights = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Weights (.pth or .safetensors) for a bare network such as ddrnet23-slim, or for file.py:function.",
        rich_help_panel=MODEL_PANEL,
    ),
]
Runtime = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="torch, onnxruntime or openvino. Default: what the model is saved for.",
        rich_help_panel=MODEL_PANEL,
    ),
]
Device = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="cpu, cuda, cuda:1 or mps. Default: a GPU if there is one."),
]
Precision = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="fp32, bf16 or fp16. Default: fp32.", rich_help_panel=MODEL_PANEL),
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Number of CPU threads. Default: all cores."),
]
Normalize = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Input range of a graph file or a network of your own: imagenet, none (0 to 1), half (-1 to 1), "
        "bytes (0 to 255), or MEAN/STD per channel, such as 0.5,0.5,0.5/0.2,0.2,0.2. Default: imagenet.",
        rich_help_panel=MODEL_PANEL,
    ),
]
Compile = Annotated[
    bool,
    typer.Option(
        "--compile",
        help="Compile the network with torch.compile; the first frame takes a minute or so.",
        rich_help_panel=MODEL_PANEL,
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="When the network runs: drift, paper, fixed, per-frame or always-key; with settings: "
        "fixed:period=3,between=carry. Default: the model's own.",
        rich_help_panel=STREAM_PANEL,
    ),
]
Motion = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Optical flow: dis, codec (the video's motion vectors) or none. Default: the model's own.",
        rich_help_panel=STREAM_PANEL,
    ),
]
Fusion = Annotated[
    float | None,
    typer.Option(
        metavar="WEIGHT",
        help="Weight of the previous logits, warped, in a key frame: 0 (off) to 0.9. Default: the model's own.",
        rich_help_panel=STREAM_PANEL,
    ),
]


def make_spec(
    model: str,
    *,
    weights: Path | None = None,
    device: str | None = None,
    precision: str | None = None,
    runtime: str | None = None,
    threads: int | None = None,
    normalization: str | None = None,
    compile: bool = False,
    scheduler: str | None = None,
    motion: str | None = None,
    fusion: float | None = None,
    size: str | None = None,
    untrained: bool = False,
) -> ModelSpec:
    """The `ModelSpec` of options as they are typed."""
    from stmg.checkpoints.resolve import ModelSpec
    from stmg.runtimes.normalization import parse_normalization

    streaming = {"scheduler": parse_scheduler(scheduler), "motion": motion, "fusion": fusion}
    return ModelSpec(
        name=model,
        weights=weights,
        runtime=runtime,
        device=device,
        precision=precision,
        threads=threads,
        normalization=None if normalization is None else parse_normalization(normalization),
        compile=compile,
        size=parse_size(size),
        untrained=untrained,
        streaming={name: value for name, value in streaming.items() if value is not None},
    )


def parse_size(text: str | None) -> tuple[int, int] | None:
    """(height, width) from text such as 360x480."""
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise SettingsError(f"a size is HEIGHTxWIDTH, such as 360x480; got {text!r}")
    return int(parts[0]), int(parts[1])


def parse_scheduler(text: str | None) -> SchedulerPolicy | None:
    """A scheduler from its name, or from name and settings: `fixed:period=3,between=carry`."""
    if text is None:
        return None
    from stmg.streaming.schedulers import make_scheduler

    name, _, rest = text.partition(":")
    options: dict[str, float | int | str] = {}
    for item in filter(None, rest.split(",")):
        key, _, value = item.partition("=")
        options[key] = _parse_value(key, value, text)
    return make_scheduler(name, **options)


def _parse_value(key: str, value: str, text: str) -> int | float | str:
    if key == "between":  # the one setting that is a name
        return value
    for convert in (int, float):
        try:
            return convert(value)
        except ValueError:
            continue
    raise SettingsError(f"--scheduler {text}: {key or 'a setting'} takes a number, as in {key or 'period'}=3")
