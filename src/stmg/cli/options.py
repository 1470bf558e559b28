"""Options that the verbs share, and the `ModelSpec` they add up to. Imports nothing heavy: `stmg --help` reads it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from stmg.models.spec import ModelSpec

RUN, MEASURE, TRAIN = "Run", "Measure", "Train"  # panels of `stmg --help`
MODEL_PANEL, STREAM_PANEL = "Model", "Streaming"  # panels of a verb's help

MODEL_HELP = (
    "A shipped name (lite0-camvid), checkpoint folder, exported folder, .onnx, .xml or .tflite file, Hub id, "
    "or file.py:function that returns a network."
)
DATA_HELP = "CamVid, Cityscapes, a folder with a dataset.yaml, a video or folder of videos, or street:0-9 (rendered)."

Model = Annotated[str, typer.Argument(help=MODEL_HELP, show_default=False)]
Data = Annotated[str, typer.Argument(help=DATA_HELP, show_default=False)]
Split = Annotated[str, typer.Option(metavar="NAME", help="Split of the dataset.")]
Size = Annotated[
    str | None, typer.Option(metavar="HEIGHTxWIDTH", help="Frame size. Default: the model's own, 360x480 if none.")
]
Limit = Annotated[int | None, typer.Option(min=1, metavar="N", help="Stop after N frames of each video.")]
Areas = Annotated[bool, typer.Option("--areas", help="Write the share of pixels of each class into the records.")]
BackgroundColor = Annotated[
    str | None,
    typer.Option(metavar="COLOR", help="Color behind cutouts, such as green or #00ff00. Default: transparent."),
]
Every = Annotated[int, typer.Option(min=1, metavar="N", help="Take every Nth frame.")]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Output folder.")]

Weights = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Weights (.pth or .safetensors) for a bare network such as ddrnet23-slim, or for file.py:function.",
        rich_help_panel=MODEL_PANEL,
    ),
]
Network = Annotated[
    str | None,
    typer.Option(
        metavar="FUNCTION",
        help="file.py:function that returns your own network, for a folder that stmg.save wrote of it.",
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
Output = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Output to use, by name or number, where a graph file or a network of your own has several. "
        "Default: the one with the largest map of classes.",
        rich_help_panel=MODEL_PANEL,
    ),
]
Activation = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What a network of one channel gives: logits or probability. Default: detected by a final sigmoid, or by "
        "the range of its values.",
        rich_help_panel=MODEL_PANEL,
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        metavar="PROBABILITY",
        help="Probability above which a pixel is foreground, for a network of one channel. Default: 0.5.",
        rich_help_panel=MODEL_PANEL,
    ),
]
Corrector = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Folder of a corrector that stmg adapt trained, or none to run without. Default: the one in the model's "
        "folder, if there is one.",
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
        "fixed:period=3,between=carry. Not in realtime, where it runs whenever something changed. "
        "Default: the model's own; drift if it has none.",
        rich_help_panel=STREAM_PANEL,
    ),
]
Motion = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Optical flow: dis, dis-medium, dis-fine or dis-finest (each finer and slower), auto (the one that pays "
        "for the network's operations) or none. Default: the model's own; auto if it has none.",
        rich_help_panel=STREAM_PANEL,
    ),
]
Fusion = Annotated[
    float | None,
    typer.Option(
        metavar="WEIGHT",
        help="Weight of the previous logits, warped, in a key frame of an online stream: from 0 (off) to below 1. "
        "Default: the model's own; 0.5 if it has none.",
        rich_help_panel=STREAM_PANEL,
    ),
]
MaxChange = Annotated[
    str | None,
    typer.Option(
        metavar="SHARE",
        help="Share of the pixels whose label may differ from the network's, such as 2% or 0.02: the drift budget (how "
        "often the network runs) follows what computed frames change. Default: the budget stays as it is.",
        rich_help_panel=STREAM_PANEL,
    ),
]
Mode = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="offline (looks at computed frames before and after), online (only before) or realtime (no frame waits "
        "for the network). Default: offline for files, realtime for live sources, online with partial frames.",
        rich_help_panel=STREAM_PANEL,
    ),
]
Pace = Annotated[
    bool,
    typer.Option(
        "--pace",
        help="Play a file at its own rate, as a camera would; frames that come too fast are dropped. For realtime.",
        rich_help_panel=STREAM_PANEL,
    ),
]
Delay = Annotated[
    int | None,
    typer.Option(
        min=2,
        metavar="FRAMES",
        help="Most frames that a result may lag behind its frame in offline mode; a live source needs it for that "
        "mode. Default: no limit, for files.",
        rich_help_panel=STREAM_PANEL,
    ),
]
Settings = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Settings as stmg tune writes them (YAML or JSON). Options of the command line override them.",
        rich_help_panel=STREAM_PANEL,
    ),
]


@dataclass(frozen=True)
class ModelOptions:
    """How a model is opened."""

    device: Device = None
    threads: Threads = None
    weights: Weights = None
    network: Network = None
    runtime: Runtime = None
    precision: Precision = None
    normalize: Normalize = None
    output: Output = None
    activation: Activation = None
    threshold: Threshold = None
    corrector: Corrector = None
    compile: Compile = False


@dataclass(frozen=True)
class StreamOptions:
    """How a stream is segmented."""

    scheduler: Scheduler = None
    motion: Motion = None
    fusion: Fusion = None
    max_change: MaxChange = None
    settings: Settings = None


def make_spec(
    model: str,
    options: ModelOptions,
    stream: StreamOptions | None = None,
    *,
    size: str | None = None,
    mode: str | None = None,
    delay: int | None = None,
    several_modes: bool = False,
) -> ModelSpec:
    """The `ModelSpec` of options as they are typed; what is not given is taken from the file of settings.

    mode: what the stream will be: an option it does not use is refused.
    several_modes: whether the command runs several modes where none is given, whatever the file says.
    """
    from stmg.models.spec import ModelSpec, read_settings
    from stmg.streaming.settings import add_arguments

    given: dict[str, object] = {**vars(options), **vars(stream or StreamOptions())}
    file = given.pop("settings")
    saved = {} if file is None else read_settings(str(file))
    if several_modes:
        saved.pop("mode", None)
    given |= {"size": size, "mode": mode, "delay": delay, "compile": options.compile or None}
    return ModelSpec(model, add_arguments(saved, {name: each for name, each in given.items() if each is not None}))
