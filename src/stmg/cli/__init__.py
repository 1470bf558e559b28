"""The command line: a table of commands, and the output of errors."""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from collections.abc import Callable
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.markup import escape

from stmg import __version__
from stmg.cli import (
    ablate,
    adapt,
    batch,
    benchmark,
    data,
    demo,
    evaluate,
    export,
    inspect,
    report,
    segment,
    serve,
    train,
    tune,
)
from stmg.cli.interruption import interruptible
from stmg.cli.options import MEASURE, RUN, TRAIN, expand_settings
from stmg.errors import StmgError, install_command

OUT_OF_MEMORY = ("can't allocate memory", "Insufficient memory", "std::bad_alloc", "Failed to allocate memory")
INSTALLED = {"site-packages", "dist-packages"}  # folders of installed packages


class Verb(NamedTuple):
    """A command of the command line."""

    function: Callable[..., None]
    panel: str
    """Panel of `stmg --help` that lists it."""
    examples: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    """Parameters listed by its `--help`; the others are left to `--help-all`. Empty: all but rarely used settings."""


OF_VIDEOS = ("model", "out", "save", "size", "limit", "mode", "max_change", "device")
VERBS = {
    "segment": Verb(
        segment.segment,
        RUN,
        (
            "stmg segment drive.mp4 --model lite0-camvid --size 360x480 --out out/drive",
            "stmg segment camera:0 --model out/lite0-openvino --save records",
            "stmg segment frames --model nets.py:build --scheduler fixed:period=3,between=carry",
        ),
        ("source", *OF_VIDEOS),
    ),
    "batch": Verb(
        batch.batch,
        RUN,
        (
            "stmg batch drives --model lite0-camvid --out out/drives",
            "stmg batch 'drives/*.mp4' more.txt --model out/lite0-openvino --save labels --out out/drives",
            "stmg batch s3://bucket/drives --model lite0-camvid --out s3://bucket/labels --ray auto",
        ),
        ("videos", *OF_VIDEOS, "ray"),
    ),
    "serve": Verb(
        serve.serve,
        RUN,
        (
            "stmg serve street:7 --model small-streets",
            "stmg serve camera:0 drive.mp4 --model lite0-camvid --port 8080",
            "stmg serve --config streams.yaml",
        ),
        ("sources", "model", "config", "size", "mode", "max_change", "device", "host", "port", "token", "record"),
    ),
    "evaluate": Verb(evaluate.evaluate, MEASURE, ("stmg evaluate lite0-camvid CAMVID --split val",)),
    "benchmark": Verb(benchmark.benchmark, MEASURE, ("stmg benchmark lite0-camvid drive.mp4 --frames 100",)),
    "ablate": Verb(ablate.ablate, MEASURE, ("stmg ablate small-streets street:0-0",)),
    "tune": Verb(
        tune.tune,
        MEASURE,
        (
            "stmg tune lite0-camvid drive.mp4 --max-change 2%",
            "stmg tune lite0-camvid drive.mp4 --target-fps 30 --beside out/lite0-int8",
            "stmg tune lite0-camvid CAMVID --max-loss 0.5%",
        ),
    ),
    "report": Verb(report.report, MEASURE, ("stmg report out/evaluate out/benchmark --out out/report.html",)),
    "export": Verb(
        export.export,
        RUN,
        (
            "stmg export lite0-camvid --to openvino --out out/lite0",
            "stmg export lite0-camvid --to openvino --int8 drive.mp4 --out out/lite0-int8",
        ),
    ),
    "inspect": Verb(
        inspect.inspect, RUN, ("stmg inspect ddrnet39 --size 1024x2048", "stmg inspect nets.py:build --json")
    ),
    "train": Verb(
        train.train,
        TRAIN,
        (
            "stmg train recipes/small-streets.yaml",
            "stmg train recipes/lite0-camvid.yaml data.path=CAMVID batch=4",
            "stmg train my.yaml optimizer.learning_rate=0.01 --devices 2",
        ),
    ),
    "adapt": Verb(
        adapt.adapt,
        TRAIN,
        (
            "stmg adapt lite0-camvid --on drive.mp4 --out out/lite0-adapted",
            "stmg adapt unet.onnx --on videos --normalize none --out out/unet",
        ),
    ),
    "demo": Verb(demo.demo, RUN),
}

app = typer.Typer(
    name="stmg",
    help="Faster video segmentation: compute again only what has changed.",
    no_args_is_help=True,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
)


def _unwrap(docstring: str | None) -> str:
    """Join the lines of each paragraph of a docstring, because Typer keeps its line breaks."""
    return "\n\n".join(" ".join(paragraph.split("\n")) for paragraph in cleandoc(docstring or "").split("\n\n"))


for _name, _verb in VERBS.items():
    _epilog = "\n\n".join(("Examples:", *_verb.examples)) if _verb.examples else None
    _help = _unwrap(_verb.function.__doc__)
    app.command(_name, help=_help, epilog=_epilog, rich_help_panel=_verb.panel)(
        interruptible(expand_settings(_verb.function, _verb.short))
    )
app.add_typer(data.data, name="data", rich_help_panel=TRAIN)


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        print(f"stmg {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line.

    A user's mistake gives one line and exit code 2, a problem of the machine one line and exit code 1. Anything else is
    a bug in stmg or in the user's own network, and shows its traceback.
    """
    try:
        code = app(standalone_mode=False)  # else Typer prints its own errors, as a box of several lines
    except Exception as error:
        code = _print_error(error)
    sys.exit(code or 0)


def _print_error(error: Exception) -> int:
    """Print an error. Return the exit code."""
    console = Console(stderr=True)
    if type(error).__name__ == "NoArgsIsHelpError":  # the help is what it says
        print(error)
        return 2
    text, code = _explain(error)
    if text is None or os.environ.get("STMG_DEBUG"):
        traceback.print_exception(error)
        if text is None and _find_user_frame(error) is None:
            console.print("[bold red]this is a bug in stmg[/]", highlight=False)
        return code
    console.print(f"[bold red]error:[/] {escape(text)}", soft_wrap=True, highlight=False)
    return code


def _explain(error: Exception) -> tuple[str | None, int]:
    """Describe an error in one line; None if only its traceback helps. Also return the exit code."""
    line = " ".join(str(error).split()) or type(error).__name__
    if hasattr(error, "format_message"):  # Typer's: an option that is missing, unknown or out of range
        return _explain_usage(error), 2
    if isinstance(error, StmgError):
        # The cause may come from a user's own code. Then its location is more useful than its type.
        frame = None if error.__cause__ is None else _find_user_frame(error.__cause__)
        where = "" if frame is None else f" ({frame.filename}, line {frame.lineno}, in {frame.name})"
        return f"{line}{where}", 2
    if _find_user_frame(error) is not None:
        return None, 1
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "torch":
        return f"this needs PyTorch: {install_command('torch')}", 2
    if isinstance(error, FileNotFoundError):
        return line, 2
    if isinstance(error, OSError):
        return line, 1
    if _is_out_of_memory(error):
        return f"out of memory: {line}", 1
    return None, 1


def _explain_usage(error: Any) -> str:
    """Describe an error in the command line, and point to its help."""
    message = " ".join(error.format_message().split()).removesuffix(".")
    context = getattr(error, "ctx", None)
    return message if context is None else f"{message}; see {context.command_path} --help"


def _is_out_of_memory(error: Exception) -> bool:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    # PyTorch has an exception class for a GPU's memory, but only messages for the machine's.
    return not kinds.isdisjoint({"MemoryError", "OutOfMemoryError"}) or (
        any(words in str(error) for words in OUT_OF_MEMORY)
    )


def _find_user_frame(error: BaseException) -> traceback.FrameSummary | None:
    """The innermost frame of an error in a file that belongs neither to stmg nor to an installed package."""
    package, stdlib = Path(__file__).parents[1], sysconfig.get_path("stdlib")
    frames = traceback.extract_tb(error.__traceback__)
    paths = [Path(frame.filename) for frame in frames]
    first = next((index for index, path in enumerate(paths) if path.is_relative_to(package)), len(paths))
    own = [
        frame
        for frame, path in list(zip(frames, paths, strict=True))[first:]  # skip the callers of `main`
        if path.is_file()
        and not path.is_relative_to(package)
        and not path.is_relative_to(stdlib)
        and INSTALLED.isdisjoint(path.parts)
    ]
    return own[-1] if own else None
