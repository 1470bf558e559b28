"""Options that commands share, and options made from the settings. Imports nothing heavy, for a fast `stmg --help`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args, get_type_hints

import typer

from stmg.streaming.settings import MODEL as MODEL
from stmg.streaming.settings import SETTINGS, Mode, Setting, settings_for
from stmg.streaming.settings import STREAM as STREAM

if TYPE_CHECKING:
    from stmg.models.spec import ModelSpec

RUN, MEASURE, TRAIN = "Run", "Measure", "Train"  # panels of `stmg --help`

MODEL_HELP = (
    "A shipped name (lite0-camvid), folder, Hub id (owner/name), file (.onnx, .xml, "
    ".tflite, .pt, .pt2), torchvision:NETWORK, smp:FOLDER, or nets.py:function that returns a network."
)
DATA_HELP = "CamVid, Cityscapes, a folder with a dataset.yaml, a video or folder of videos, or street:0-9 (rendered)."

Model = Annotated[str, typer.Argument(help=MODEL_HELP, show_default=False)]
Data = Annotated[str, typer.Argument(help=DATA_HELP, show_default=False)]
Split = Annotated[str, typer.Option(metavar="NAME", help="Split of the dataset.")]
Limit = Annotated[int | None, typer.Option(min=1, metavar="N", help="Stop after N frames of each video.")]
Areas = Annotated[bool, typer.Option("--areas", help="Write the share of pixels of each class into the records.")]
BackgroundColor = Annotated[
    str | None,
    typer.Option(metavar="COLOR", help="Color behind cutouts, such as green or #00ff00. Default: transparent."),
]
Every = Annotated[int, typer.Option(min=1, metavar="N", help="Take every Nth frame.")]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Output folder.")]

Threads = Annotated[int | None, typer.Option(min=1, metavar="N", help=SETTINGS["threads"].help)]

FRAME_SIZE = "Frame size. Default: that at which stmg segment computes the video; of a dataset, the model's own."

Options = Mapping[str, Any]
"""Settings by name, as typed. Missing ones are left out."""


class Taken(NamedTuple):
    """The settings that a command takes as options."""

    names: tuple[str, ...]
    helps: Mapping[str, str]
    """Help texts that replace those of some settings."""


def settings(*groups_and_names: str, without: Sequence[str] = (), **helps: str) -> Taken:
    """Mark a parameter that stands for one option per setting: `Annotated[Options, settings(STREAM, MODEL)]`.

    groups_and_names: groups of settings, or names of settings. `settings` is the file of settings.
    """
    names = [name for part in groups_and_names for name in (settings_for(part) or [part])]
    return Taken(tuple(name for name in dict.fromkeys(names) if name not in without), helps)


FILE = Setting(
    "Settings as stmg tune writes them (YAML or JSON). Options of the command line override them.",
    lambda name, value: value,
    "FILE",
)
FLAGS = {"size": ("--size", "--resize")}  # all other flags have the name of the setting


def expand_settings(command: Callable[..., None], short: Sequence[str] = ()) -> Callable[..., None]:
    """The command in a form that Typer reads: with one option per setting.

    short: the parameters that `--help` lists, in this order; the others are left to `--help-all`. If empty, all except
        rarely used settings are listed.
    """
    hints = get_type_hints(command, include_extras=True)
    taken = {name: kind for name, hint in hints.items() for kind in get_args(hint) if isinstance(kind, Taken)}
    parameters: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        if parameter.name not in taken:
            parameters.append(parameter.replace(annotation=hints[parameter.name], kind=Parameter.KEYWORD_ONLY))
            continue
        marked = taken[parameter.name]
        parameters += [_parameter(name, marked.helps.get(name)) for name in marked.names]
    shown = short or [each.name for each in parameters if each.name not in SETTINGS or SETTINGS[each.name].common]
    parameters = [_label(each if each.name in shown else _hide(each)) for each in parameters]
    parameters.sort(key=lambda each: shown.index(each.name) if each.name in shown else len(shown))
    if any(each.name not in shown for each in parameters):
        parameters.append(Parameter("help_all", Parameter.KEYWORD_ONLY, default=False, annotation=HelpAll))

    @wraps(command)
    def run(**values: Any) -> None:
        values.pop("help_all", None)
        for name, marked in taken.items():
            given = {each: values.pop(each) for each in marked.names}
            values[name] = {each: value for each, value in given.items() if value not in (None, False)}
        command(**values)

    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameter(name: str, help: str | None) -> Parameter:
    """The option of a setting. Its value is checked where settings are built."""
    each = FILE if name == "settings" else SETTINGS[name]
    flags = FLAGS.get(name, (f"--{name.replace('_', '-')}",))
    panel = None if each.common or each is FILE else each.group
    if each.is_flag:
        option = typer.Option(*flags, help=help or each.full_help, rich_help_panel=panel)
        return Parameter(name, Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, option])
    option = typer.Option(*flags, metavar=each.metavar, help=help or each.full_help, rich_help_panel=panel)
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[str | None, option])


def _hide(parameter: Parameter) -> Parameter:
    """A parameter that only `--help-all` lists. Arguments are always listed."""
    kind, *marks = get_args(parameter.annotation)
    option = copy(next(mark for mark in marks if hasattr(mark, "hidden")))
    if not isinstance(option, typer.models.OptionInfo):
        return parameter
    option.hidden = True
    return parameter.replace(annotation=Annotated[kind, option])


def _label(parameter: Parameter) -> Parameter:
    """A parameter whose help has no types of Python: an argument shows its name, a flag nothing."""
    kind, *marks = get_args(parameter.annotation)
    mark = copy(next(mark for mark in marks if hasattr(mark, "metavar")))
    if isinstance(mark, typer.models.ArgumentInfo):
        mark.metavar = mark.metavar or parameter.name.upper()
    elif kind is bool:
        mark.metavar = ""
    return parameter.replace(annotation=Annotated[kind, mark])


def _show_all(context: typer.Context, value: bool) -> None:
    if not value:
        return
    hidden = [parameter for parameter in context.command.params if getattr(parameter, "hidden", False)]
    for parameter in hidden:
        parameter.hidden = False  # type: ignore[attr-defined]
    try:
        typer.echo(context.get_help())
    finally:
        for parameter in hidden:
            parameter.hidden = True  # type: ignore[attr-defined]
    raise typer.Exit


HelpAll = Annotated[
    bool, typer.Option("--help-all", help="Show every option and exit.", is_eager=True, callback=_show_all)
]


def make_spec(model: str, options: Options, *, otherwise: Mode | None = None, several_modes: bool = False) -> ModelSpec:
    """Make a `ModelSpec` from options as typed. Missing ones are taken from the file of settings.

    otherwise: the mode of the one stream that is run where neither options nor file imply one. An option that the mode
        does not use is refused.
    several_modes: True if the command runs several modes when none is given, whatever the file says.
    """
    from stmg.models.spec import ModelSpec, add_arguments, read_settings

    given = dict(options)
    file = given.pop("settings", None)
    saved = {} if file is None else read_settings(file)
    if several_modes:
        saved.pop("mode", None)
    spec = ModelSpec(model, add_arguments(saved, given))
    if otherwise is None or spec.settings.mode is not None:
        return spec
    return ModelSpec(model, add_arguments(saved, {**given, "mode": spec.settings.choose_mode(otherwise)}))


# Options that must be repeated to open a model in the same way, except those that a settings file holds.
ALL = ("device", "weights", "network", "normalize", "output", "activation", "threshold", "corrector")
OF_GRAPHS = ("device", "normalize", "output", "activation", "threshold", "corrector")
"""Options that apply to any graph file."""
OF_EXPORTS = ("device", "corrector")
OF_CHECKPOINTS = ("network", "activation", "threshold")
"""Options that a checkpoint in another folder still needs."""


def format_options(options: Options, names: Sequence[str] = ALL) -> str:
    """Format those of the given options that were set, as typed."""
    return "".join(f" --{name} {shlex.quote(str(options[name]))}" for name in names if name in options)
