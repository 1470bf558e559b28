"""Segmenters as a user names them on the command line; PyTorch is imported only for those that need it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from stmg.card import IMAGENET_MEAN, IMAGENET_STD
from stmg.loading import is_graph, load
from stmg.segmenter import VideoSegmenter


def segmenter_for(
    model: str,
    *,
    weights: Path | None = None,
    size: tuple[int, int] = (360, 480),
    device: str | None = None,
    precision: str = "fp32",
    runtime: str | None = None,
    threads: int | None = None,
    normalise: tuple[Sequence[float], Sequence[float]] | None = None,
    compile: bool = False,
    untrained: bool = False,
    **settings: Any,
) -> VideoSegmenter:
    """A segmenter from a shipped name, a checkpoint or exported folder, a graph, a Hub id, or a network and weights.

    `normalise` are mean and deviation, for a graph file or a network of the user's own.
    `untrained` allows a network without weights: its labels mean nothing, its speed does.
    """
    if is_graph(model) or runtime not in (None, "torch") or find_spec("torch") is None:
        if weights is not None:
            raise ValueError(f"--weights goes with a network of PyTorch; {model} brings its own")
        if device not in (None, "cpu") or precision != "fp32" or compile:
            options = "--device, --precision and --compile"
            raise ValueError(f"{model} runs on the CPU in single precision: {options} are for PyTorch")
        if normalise is not None and Path(model).is_dir():
            raise ValueError(f"{model} says itself how it is normalised; --normalise is for graphs that do not")
        mean, std = normalise or (IMAGENET_MEAN, IMAGENET_STD)
        return load(model, runtime=runtime, threads=threads, mean=mean, std=std, **settings)
    from stmg.commands.models import torch_segmenter

    use_threads(threads)
    segmenter = torch_segmenter(model, weights, size, device, precision, normalise, untrained, **settings)
    if compile:
        compiling: Any = segmenter.runtime
        if not hasattr(compiling, "compile"):
            raise ValueError(f"{model} is no network of PyTorch: --compile does nothing for it")
        compiling.compile()
    return segmenter


def use_threads(threads: int | None) -> None:
    """How many threads OpenCV and PyTorch may use."""
    if threads is None:
        return
    if threads < 1:
        raise ValueError(f"at least 1 thread is needed; got {threads}")
    import cv2

    cv2.setNumThreads(threads)
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(threads)
