"""The outputs that users choose by name, and the sinks that write them into a folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stmg.errors import SettingsError
from stmg.outputs.images import AlphaImages, CutoutImages, LabelImages, parse_color
from stmg.outputs.records import Records
from stmg.outputs.sinks import Sink, Sinks
from stmg.outputs.timeline import Timeline
from stmg.outputs.videos import AlphaVideo, OverlayVideo

OUTPUTS = {
    "overlay": "overlay.mp4",
    "records": "records.jsonl",
    "timeline": "timeline.png",
    "labels": "labels",
    "alpha": "alpha.mp4",
    "alpha-images": "alpha",
    "cutout": "cutout",
}
"""File or folder of each output, by its name."""
IMAGES, VIDEOS = ("labels", "alpha-images", "cutout"), ("overlay", "alpha")
"""Outputs that are folders of images, and outputs that are videos."""


def choose_outputs(save: Sequence[str] | None, *, areas: bool = False, background: str | None = None) -> list[str]:
    """Names of the outputs to write. Raise for an unknown name, or for an option that no output uses."""
    unknown = [name for name in save or () if name not in OUTPUTS]
    if unknown:
        raise SettingsError(f"--save is {', '.join(OUTPUTS)}; got {unknown[0]!r}")
    if save is None:  # by default, draw the timeline only if matplotlib is installed
        save = ["overlay", "records", *(["timeline"] if find_spec("matplotlib") else [])]
    if areas and "records" not in save:
        raise SettingsError("--areas needs the records; add --save records")
    if background is not None:
        if "cutout" not in save:
            raise SettingsError("--background is for cutouts; add --save cutout")
        parse_color(background)
    return list(dict.fromkeys(save))


def make_sinks(
    names: Sequence[str],
    folder: Path,
    *,
    fps: float,
    title: str,
    palette: NDArray[np.uint8],
    class_names: Sequence[str] = (),
    areas: bool = False,
    background: str | None = None,
) -> Sinks:
    """Sinks that write these outputs into a folder, which is created if needed."""
    color = None if background is None else parse_color(background)
    folder.mkdir(parents=True, exist_ok=True)
    makers: dict[str, Callable[[Path], Sink]] = {
        "overlay": lambda path: OverlayVideo(path, fps),
        "records": lambda path: Records(path, areas=areas, class_names=class_names),
        "timeline": lambda path: Timeline(path, title=title),
        "labels": lambda path: LabelImages(path, palette),
        "alpha": lambda path: AlphaVideo(path, fps),
        "alpha-images": AlphaImages,
        "cutout": lambda path: CutoutImages(path, color),
    }
    return Sinks(*[makers[name](folder / OUTPUTS[name]) for name in names])
