"""stmg serve: live streams on a page, with metrics and an API."""

from __future__ import annotations

import re
import webbrowser
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer
from rich.console import Console
from rich.markup import escape

from stmg.cli.options import MODEL, MODEL_HELP, STREAM, Options, make_spec, settings
from stmg.errors import SettingsError, explain_missing
from stmg.video.addresses import hide_credentials

if TYPE_CHECKING:
    from stmg.models.spec import ModelSpec
    from stmg.serve.config import ServeConfig

ACCESS_PANEL, KEEP_PANEL = "Access", "Recording and uploads"


def serve(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            help="Video files, folders of images, camera:0, rtsp://..., or street:7 (rendered). Files start again at "
            "their end.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", "-m", metavar="NAME", help=f"{MODEL_HELP} Required without --config.", show_default=False
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="YAML file of streams with names, models and settings of their own; instead of sources, --model and "
            "the options of models and streaming.",
            show_default=False,
        ),
    ] = None,
    fps: Annotated[
        float | None, typer.Option(metavar="FPS", help="Frame rate of folders of images and rendered streets.")
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address to listen on; any but loopback needs a token. Default: 127.0.0.1.",
            rich_help_panel=ACCESS_PANEL,
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, metavar="N", help="Port. Default: 8000.", rich_help_panel=ACCESS_PANEL),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            envvar="STMG_TOKEN",
            show_envvar=False,
            help="Secret that clients must send, of 8 characters or more. Better set the environment variable "
            "STMG_TOKEN: other users can see command lines.",
            show_default=False,
            rich_help_panel=ACCESS_PANEL,
        ),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Listen on other addresses without a token.", rich_help_panel=ACCESS_PANEL),
    ] = False,
    record: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Record overlay and records of every stream there, in files of five minutes; the oldest are removed "
            "beyond 10 GB or a week. --config can set other limits.",
            show_default=False,
            rich_help_panel=KEEP_PANEL,
        ),
    ] = None,
    no_uploads: Annotated[
        bool, typer.Option("--no-uploads", help="Take no video files from the page.", rich_help_panel=KEEP_PANEL)
    ] = False,
    *,
    options: Annotated[
        Options,
        settings(
            *(STREAM, "settings", MODEL),
            mode="realtime (the network runs in the background, no frame waits for it), online (a frame looks at "
            "computed frames before it) or offline (also after it, some frames late). Default: realtime.",
        ),
    ],
) -> None:
    """Serve live streams on a page.

    Every stream is segmented as it comes, and shown with its figures; controls, metrics and an API are beside it.
    """
    given = {"host": host, "port": port, "token": token, "insecure": insecure or None}
    if config is not None:
        _refuse_beside_config({"SOURCE": sources, "--model": model, "--fps": fps}, options)
        chosen, spec = _read(config, given), None
    else:
        chosen = _from_sources(sources or [], fps, given)
        if model is None:
            raise SettingsError("no model is given; use --model NAME, or --config FILE with one for each stream")
        spec = make_spec(model, options, otherwise="realtime")
    if record is not None:
        from stmg.serve.config import RecordConfig

        folder = str(record)
        kept = RecordConfig(folder=folder) if chosen.record is None else replace(chosen.record, folder=folder)
        chosen = replace(chosen, record=kept)
    if no_uploads:
        chosen = replace(chosen, uploads=None)
    serve_page(chosen, spec)


def serve_page(config: ServeConfig, spec: ModelSpec | None, browser: bool = False) -> None:
    """Serve until Ctrl-C.

    spec: the model of all streams. None: each stream names its own.
    browser: open the page in a browser.
    """
    packages = ("fastapi", "uvicorn", "prometheus_client", "starlette", "pydantic")
    with explain_missing(*packages, why="stmg serve needs more packages", extra="serve"):
        from stmg.serve.run import open_socket, serve, url_of
        from stmg.serve.service import Service
    console = Console()
    with open_socket(config.host, config.port) as listener:
        config = replace(config, port=listener.getsockname()[1])  # the system chooses a port for --port 0
        service = Service(config, None if spec is None else lambda stream: spec)
        names = ", ".join(stream.name for stream in config.streams)
        url = url_of(listener)
        console.print(f"serving {escape(names)} at [bold]{url}[/]  (Ctrl-C stops)", soft_wrap=True)
        if browser:
            webbrowser.open(url)  # the browser waits for the server, because the socket already listens
        serve(service, listener)
    console.print("stopped")


def _from_sources(sources: list[str], fps: float | None, given: Mapping[str, object]) -> ServeConfig:
    from stmg.serve.config import ServeConfig, StreamConfig

    if not sources:
        raise SettingsError("give a source, such as camera:0 or street:7, or --config FILE")
    names: list[str] = []
    for source in sources:
        name, number = name_of(source), 1
        while name in names:
            number += 1
            name = f"{name_of(source)[:36]}-{number}"
        names.append(name)
    named = zip(names, sources, strict=True)
    streams = tuple(StreamConfig(name=name, source=source, fps=fps) for name, source in named)
    return ServeConfig(streams=streams, **_known(given))


def _known(given: Mapping[str, object]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if value is not None}


def _read(path: Path, given: Mapping[str, object]) -> ServeConfig:
    """Read the configuration in a file. Command-line options override it."""
    from stmg.serve.config import read_config

    return read_config(path, _known(given))


def name_of(source: str) -> str:
    """The name of a source's stream: the name of the file, the host of the URL, or camera-0."""
    shown = hide_credentials(source)
    try:
        text = (urlsplit(shown).hostname or "stream") if "://" in source else source
    except ValueError:
        raise SettingsError(f"{shown} is not an address; give one such as rtsp://[::1]:554/live") from None
    text = text if ":" in source else PurePath(text).stem
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40].strip("-") or "stream"


def _refuse_beside_config(others: Mapping[str, object], options: Options) -> None:
    """Raise for options that belong into the configuration file instead."""
    for flag, value in {**others, **{f"--{name.replace('_', '-')}": value for name, value in options.items()}}.items():
        if value:
            raise SettingsError(f"{flag} cannot be used with --config; write it into the file")
