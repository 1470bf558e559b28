"""Export: write a network as graphs for other runtimes, and compare them with PyTorch before use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from stmg.errors import ModelError, SettingsError
from stmg.gating.accelerate import AcceleratedNetwork, accelerate, weight_dtype
from stmg.models.card import Card
from stmg.models.correctors import (
    describe_corrector,
    has_corrector,
    load_corrector_network,
    read_corrector_card,
    refuse_other_corrector,
    save_corrector,
)
from stmg.models.describe import (
    card_of_network,
    card_of_segmenter,
    corrector_of_segmenter,
    network_of_segmenter,
)
from stmg.models.difference import Difference, compare_export
from stmg.models.graphs import export_network, single_precision
from stmg.models.load import find_corrector, load, refuse
from stmg.models.replacement import replace_export
from stmg.models.spec import ModelSpec, as_spec
from stmg.models.torch_models import resolve_network
from stmg.runtimes.exported import ExportedRuntime
from stmg.runtimes.manifest import MANIFEST
from stmg.runtimes.threads import set_threads
from stmg.runtimes.torch import TorchRuntime
from stmg.segmenter import VideoSegmenter
from stmg.streaming.settings import STREAM, settings_for
from stmg.streaming.working_size import ANY_SIZE
from stmg.video.frames import Image, resize_image
from stmg.video.sources import open_video

NOT_FOR_EXPORTING = dict.fromkeys(
    [name for name in settings_for(STREAM) if name != "size"] + ["runtime", "device", "precision", "compile"],
    "exports do not hold it; set it when you load one",
)
EXPORTED = "exported"  # note of a corrector that was copied when its model was exported
CHECK_FRAMES = 3  # number of frames to compare an export with PyTorch on
PARTIAL_FRAMES = 100  # number of frames to choose the blocks of partial frames on
CALIBRATION_FRAMES, CALIBRATION_EVERY = 60, 5  # number of frames for INT8, and the distance between them

Frames = str | Path | Sequence[Image]
"""A video, or images (H, W, 3) of uint8."""


def export(
    model: str | Path | ModelSpec | nn.Module | VideoSegmenter,
    folder: str | Path,
    to: str = "onnx",
    *,
    size: tuple[int, int] | None = None,
    partial: Frames | None = None,
    int8: Frames | None = None,
    check: Frames | None = None,
    card: Card | None = None,
) -> Difference:
    """Write a network as graphs that run without PyTorch, and compare both on the same frames.

    model: a name as in `stmg.load`, a spec, a network, or a segmenter, whose settings are exported too.
    to: onnx, or openvino.
    size: (H, W) of the frames. Default: the model's own.
    partial: a video or consecutive images, to export partial frames too, for the paper's mode. All partial frames run
        the same blocks: those that the mask generator keeps on at least half of these images.
    int8: a video or images to calibrate INT8 on. It is smaller and faster, but less accurate: evaluate it.
    check: a video or images to compare on. Default: those of `int8` or `partial`, or noise.
    card: further properties of a network: class names, colors, normalization, streaming settings.

    Raises ModelError if the export differs by more than rounding explains, unless it is INT8. Until everything
    succeeds, an earlier export in the same folder stays unchanged.

        stmg.export("lite0-camvid", "lite0", to="openvino")
        segmenter = stmg.load("lite0")
    """
    folder = Path(folder)
    threads, corrector = None, None
    if isinstance(model, str | Path | ModelSpec):
        spec = as_spec(model)
        model = spec = spec if size is None else spec.with_options(size=size)
        size, threads, corrector = spec.settings.size, spec.settings.threads, find_corrector(spec)
    set_threads(threads)
    network, card = _network_and_card(model, size, card)
    size = size or card.size or ANY_SIZE
    if not _holds_copy(folder):  # a copy of a corrector may be overwritten
        refuse_other_corrector(folder, corrector)
    is_copy = corrector is None or corrector.resolve() != folder.resolve()
    calibration = None if int8 is None else _read_frames(int8, size, CALIBRATION_FRAMES, CALIBRATION_EVERY)
    chosen = None if partial is None else _read_frames(partial, size, PARTIAL_FRAMES)
    shown = next((source for source in (check, int8, partial) if source is not None), None)
    frames = _read_frames(shown, size, CHECK_FRAMES)
    with replace_export(folder) as part:
        export_network(network, card, size, to, part, partial=chosen, calibration=calibration)
        _export_corrector(model, corrector, size, part, is_copy=is_copy)
        difference = _compare(single_precision(network, card), part, threads, frames)
        if int8 is None and not difference.is_rounding:
            parts = ", ".join(f"{name} {value:.1e}" for name, value in difference._asdict().items())
            why = f"the export differs from PyTorch by more than rounding explains ({parts})"
            raise ModelError(f"{why}; do not use it")
    return difference


def _compare(runtime: TorchRuntime, folder: Path, threads: int | None, frames: Sequence[Image]) -> Difference:
    """Compare a network with its export. Close all files of the export afterwards."""
    exported = load(folder, threads=threads).runtime
    assert isinstance(exported, ExportedRuntime)
    return compare_export(runtime, exported, frames)


def _holds_copy(folder: Path) -> bool:
    """True if a folder is an earlier export with a copy of its model's corrector."""
    is_export = (folder / MANIFEST).exists()
    return is_export and has_corrector(folder) and bool(read_corrector_card(folder).notes.get(EXPORTED))


def _export_corrector(
    model: ModelSpec | nn.Module | VideoSegmenter,
    source: Path | None,
    size: tuple[int, int],
    folder: Path,
    *,
    is_copy: bool = True,
) -> None:
    """Write the corrector of a model, if it has one, beside its graphs and for their frame size.

    source: the folder of the corrector, if the model is a spec.
    is_copy: True if the corrector also stays in its own folder.
    """
    found = None
    if source is not None:
        module, known = load_corrector_network(source), read_corrector_card(source)
        found = module, describe_corrector(module, size, known.motion, between=known.between, notes=known.notes)
    elif isinstance(model, VideoSegmenter):
        found = corrector_of_segmenter(model, size)
    if found is not None:
        module, described = found
        notes = {name: value for name, value in described.notes.items() if name != EXPORTED}
        save_corrector(module, replace(described, notes={**notes, **({EXPORTED: True} if is_copy else {})}), folder)


def _network_and_card(
    model: ModelSpec | nn.Module | VideoSegmenter, size: tuple[int, int] | None, card: Card | None
) -> tuple[AcceleratedNetwork, Card]:
    if isinstance(model, ModelSpec):
        if card is not None:
            raise SettingsError(f"card cannot be used with {model.name}: it has its own")
        refuse(model, None, NOT_FOR_EXPORTING)
        return resolve_network(model)
    if isinstance(model, VideoSegmenter):
        return network_of_segmenter(model), card_of_segmenter(model, card)
    if not isinstance(model, AcceleratedNetwork):
        if not isinstance(model, nn.Module):
            raise ModelError(f"export takes a name, a torch.nn.Module or a segmenter, not a {type(model).__name__}")
        model = accelerate(model, torch.zeros(1, 3, *(size or ANY_SIZE), dtype=weight_dtype(model)))
    return model, card_of_network(model, card)


def _read_frames(source: Frames | None, size: tuple[int, int], number: int, every: int = 1) -> list[Image]:
    """Read frames at a size: from the first part of a video, or from images. Noise if there is no source."""
    if isinstance(source, str | Path):
        with open_video(source, resize=size, limit=number, every=every) as video:
            return [frame.image for frame in video]
    if source is not None:
        return [resize_image(image, size) for image in source[:number]]
    random = np.random.default_rng(0)
    return [random.integers(0, 256, (*size, 3), np.uint8) for _ in range(number)]
