"""Loading: a segmenter from a checkpoint, from an exported folder, or from a graph that somebody else made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stmg.card import IMAGENET_MEAN, IMAGENET_STD, settings_of
from stmg.runtimes.engines import ENGINES
from stmg.runtimes.exported import DESCRIPTION, PATTERNS, ExportedRuntime, read_description
from stmg.runtimes.plain import PLAIN, PlainGraph
from stmg.segmenter import VideoSegmenter

RUNTIMES = ("torch", *ENGINES)


def load(
    name: str | Path,
    *,
    runtime: str | None = None,
    model: Any = None,
    device: str | None = None,
    precision: str = "fp32",
    threads: int | None = None,
    patterns: int = PATTERNS,
    mean: Sequence[float] = IMAGENET_MEAN,
    std: Sequence[float] = IMAGENET_STD,
    **settings: Any,
) -> VideoSegmenter:
    """A segmenter from a shipped name, a checkpoint folder, a Hub id, an exported folder, or an .onnx or .xml file.

    runtime: torch, onnxruntime or openvino; if not given, what the folder or file is for.
    model: the network itself, where a checkpoint is of a network of your own.
    precision: fp32, or bf16 or fp16 by autocast, for PyTorch.
    threads: of an exported network; PyTorch takes its own.
    patterns: of open blocks that an exported network keeps compiled; each takes memory.
    mean, std: what a graph file was trained with, for RGB values from 0 to 1; ImageNet's if not given.
    settings: those of `VideoSegmenter`, laid over the checkpoint's.
    """
    if runtime is not None and runtime not in RUNTIMES:
        raise ValueError(f"no runtime is called {runtime!r}; there are {', '.join(RUNTIMES)}")
    path = Path(name)
    if path.suffix in PLAIN and path.is_file():
        engine = _engine(runtime or PLAIN[path.suffix], threads)
        return VideoSegmenter(PlainGraph(path, engine, mean, std), **settings)
    if (path / DESCRIPTION).is_file():
        kind = read_description(path)["kind"]
        runtime = runtime or {"onnx": "onnxruntime"}.get(kind, kind)
        if runtime == "torch":
            raise ValueError(f"{path} is exported for {kind}; PyTorch runs the checkpoint it was made from")
        if runtime == "onnxruntime" and kind != "onnx":
            raise ValueError(f"{path} is exported for {kind}, which onnxruntime cannot read; openvino reads both")
        exported = ExportedRuntime(path, _engine(runtime, threads), patterns)
        return VideoSegmenter(exported, **{**settings_of(exported.card), **settings})
    if runtime not in (None, "torch"):
        kind = "onnx" if runtime == "onnxruntime" else runtime
        raise ValueError(f"{name} is not exported; first: stmg export {name} --to {kind} --out DIR")
    try:
        from stmg.checkpoint import load as load_checkpoint
    except ImportError:
        wanted = "an exported folder or a graph file is not there, and a checkpoint needs PyTorch"
        raise ImportError(f'{name}: {wanted}: pip install "stmg[torch]"') from None

    return load_checkpoint(name, model=model, device=device, precision=precision, **settings)


def is_graph(name: str | Path) -> bool:
    """Whether this is an exported folder or a graph file, which need no PyTorch."""
    path = Path(name)
    return (path.suffix in PLAIN and path.is_file()) or (path / DESCRIPTION).is_file()


def _engine(runtime: str, threads: int | None) -> Any:
    if runtime not in ENGINES:
        raise ValueError(f"{runtime} does not run graphs; {' and '.join(ENGINES)} do")
    return ENGINES[runtime](threads)
