"""stmg export: a model as graphs for another runtime, compared with PyTorch before it is trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.markup import escape

from stmg.acceleration.accelerate import AcceleratedNetwork, accelerate
from stmg.card import IMAGENET_MEAN, IMAGENET_STD, Card
from stmg.checkpoint import find, load_network
from stmg.commands.models import from_code, is_checkpoint, is_code, weighted
from stmg.export import compared, export
from stmg.loading import load
from stmg.networks import NETWORKS, build
from stmg.networks.foreign import load_foreign, read_state_dict
from stmg.runtimes.exported import DESCRIPTION, ExportedRuntime
from stmg.video import open_video

FRAMES = 3  # on which the export is compared
CALIBRATION, EVERY = 60, 5  # frames for eight bits, and how far apart
MOST_APART = 1e-3  # of the largest score; more than rounding explains
MOST_OTHER = 0.01  # of the labels: where two classes are all but equal, rounding decides


def export_model(
    model: str,
    kind: str,
    size: tuple[int, int] | None,
    weights: Path | None,
    normalise: Any,
    check: str | None,
    int8: str | None,
    out: Path,
    console: Console,
) -> int:
    """Export, load what was written, and run both on the same frames; exit code 1 if they disagree.

    `int8` names a video to calibrate eight bits on; those are told how far they are from PyTorch, and not refused.
    """
    network, card = _network(model, size, weights, normalise)
    size = size or card.size
    calibration = None if int8 is None else _frames(int8, size, CALIBRATION)
    with console.status(f"exporting {escape(model)} at {size[0]}x{size[1]} to {kind}"):
        export(network, card, size, kind, out, calibration=calibration)
    runtime = load(out).runtime
    assert isinstance(runtime, ExportedRuntime)
    frames = _frames(check or int8, size, FRAMES)
    found = compared(network, card, runtime, frames)
    files = sorted(path.name for path in out.iterdir() if path.is_file())
    console.print(f"[bold]{escape(str(out))}[/]: {', '.join(files)}")
    console.print(
        f"against PyTorch on {len(frames)} frames, whole and with blocks skipped: the scores differ by at most "
        f"{found.scores:.1e} of the largest, the features by {found.features:.1e}, the masks by {found.masks:.1e}, "
        f"the labels on {found.labels:.3%} of the pixels"
    )
    if int8 is not None:
        console.print("[yellow]eight bits cost accuracy: judge them with stmg evaluate before they are used[/]")
    elif max(found.scores, found.features, found.masks) > MOST_APART or found.labels > MOST_OTHER:
        (out / DESCRIPTION).unlink()  # without it, it is no export
        console.print("[bold red]that is more than rounding explains: this is no export to use[/]")
        return 1
    if weights is None and model in NETWORKS:
        console.print(f"[yellow]{model} has no weights: its labels mean nothing[/]")
    console.print(f"use it: stmg segment VIDEO --model {escape(str(out))} --resize {size[0]}x{size[1]}")
    return 0


def _network(
    model: str, size: tuple[int, int] | None, weights: Path | None, normalise: Any
) -> tuple[AcceleratedNetwork, Card]:
    if is_checkpoint(model, weights, normalise):
        network, card = load_network(find(model))
        return network, card
    made: Any
    if is_code(model):
        made = from_code(model)
        if not isinstance(made, torch.nn.Module):
            raise ValueError(f"{model} gives a {type(made).__name__}; only a torch.nn.Module can be exported")
        if weights is not None:
            load_foreign(made, read_state_dict(weights))
    else:
        made = build(model, 19) if weights is None else weighted(model, weights)
    size = size or (360, 480)
    made = made.float()
    if not isinstance(made, AcceleratedNetwork):
        made = accelerate(made, torch.zeros(1, 3, *size), timed=False)
    mean, std = normalise or (IMAGENET_MEAN, IMAGENET_STD)
    return made, Card(model, made.num_classes, size, mean=mean, std=std)


def _frames(source: str | None, size: tuple[int, int], number: int) -> list[Any]:
    """Frames of a video, spread over its first part; noise where none is named."""
    if source is not None:
        with open_video(source, resize=size, limit=number, every=EVERY if number > FRAMES else 1) as video:
            return [frame.image for frame in video]
    draw = np.random.default_rng(0)
    return [draw.integers(0, 256, (*size, 3), np.uint8) for _ in range(number)]
