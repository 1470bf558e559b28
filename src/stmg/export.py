"""Export: a network for video as graphs for other runtimes, with what they are in JSON beside them."""

from __future__ import annotations

import json
import logging
import secrets
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from stmg.acceleration.accelerate import AcceleratedNetwork
from stmg.acceleration.aggregation import aggregate
from stmg.acceleration.gates import Pass
from stmg.card import Card
from stmg.frames import Image
from stmg.quantisation import Batches, quantise
from stmg.runtimes.exported import DESCRIPTION, FORMAT, ExportedRuntime, Graph
from stmg.runtimes.torch import TorchRuntime
from stmg.sinks import replace_file
from stmg.state import Masks


class Difference(NamedTuple):
    """How far an exported network is from the one it was made from, on frames shown to both."""

    scores: float
    """Largest difference of class scores, relative to the largest score."""
    features: float
    labels: float
    """Share of the pixels with another label."""
    masks: float
    """Largest difference of the spatial masks; 1 if another block was chosen."""


def export(
    network: AcceleratedNetwork,
    card: Card,
    size: tuple[int, int],
    kind: str,
    folder: Path,
    *,
    calibration: list[Image] | None = None,
    opset: int = 18,
) -> None:
    """Write the graphs of a network at one frame size, as `onnx` or `openvino`, and their description.

    With frames to calibrate on, the network is written in eight bits; the mask generator, which is small, is not.
    """
    _check_tools(kind, eight_bits=calibration is not None)
    runtime = _single(network, card)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DESCRIPTION).unlink(missing_ok=True)  # until it is whole again, it is no export
    image = torch.zeros(1, *size, 3, dtype=torch.uint8)
    with torch.no_grad():
        whole = runtime.network.full(runtime.prepare(image[0].numpy()))
    features = [f"features{number}" for number in range(len(whole.features))]
    graphs: dict[str, Graph] = {}
    pairs: list[tuple[int, str, str]] = []

    def write(name: str, module: nn.Module, inputs: dict[str, Tensor], outputs: list[str]) -> None:
        file = f"{name}.{'onnx' if kind == 'onnx' else 'xml'}"
        _write(module, inputs, outputs, folder / file, kind, opset)
        graphs[name] = Graph(file, tuple(inputs), tuple(outputs))

    write("full", _Full(runtime), {"image": image}, ["scores", *features])
    if runtime.network.blocks or card.partial_scale < 1:
        partial = _Partial(runtime, card.partial_scale)
        before = {f"before{number}": x for number, x in enumerate(whole.features)}
        changed = torch.ones(1, 1, *whole.features[0].shape[-2:])
        inputs = {"image": image, "changed": changed, **before}
        with torch.no_grad():
            partial(*inputs.values())
        pairs = [(block, f"skip{number}", f"block{number}") for number, block in enumerate(partial.order)]
        names = [name for _, *each in pairs for name in each]
        write("partial", partial, inputs, ["scores", *features, *names])
    if runtime.has_mask_generator:
        generator = runtime.network.mask_generator
        assert generator is not None
        encode = _Encode(runtime)
        with torch.no_grad():
            encoded = encode(image)
        write("encode", encode, {"image": image}, ["encoded"])
        write("compare", _Compare(generator), {"before": encoded, "now": encoded}, ["keep", "changed"])
    if calibration is not None:
        for name in [name for name in ("full", "partial") if name in graphs]:
            quantise(folder / graphs[name].file, kind, _batches(runtime, calibration, size, name == "partial"))
    blank = torch.zeros(1, 3, *size, dtype=runtime.network.dtype)
    described = {
        "format": FORMAT,
        "id": secrets.token_hex(16),
        "kind": kind,
        "bits": 32 if calibration is None else 8,
        "size": list(size),
        "graphs": {name: graph._asdict() for name, graph in graphs.items()},
        "pairs": pairs,
        "costs": runtime.network.costs(blank)._asdict(),
        "card": asdict(card),
    }
    replace_file(folder / DESCRIPTION, (json.dumps(described, indent=1) + "\n").encode())


def compared(network: AcceleratedNetwork, card: Card, exported: ExportedRuntime, frames: list[Any]) -> Difference:
    """PyTorch and an exported network on the same frames: whole, with blocks skipped, and their masks.

    Nothing is moved: that is not part of the graphs, and done to a thirty-second of a pixel outside PyTorch.
    """
    if not frames:
        raise ValueError("there are no frames to compare an export on")
    runtime = _single(network, card)
    exported.waits = True
    number = runtime.num_blocks
    patterns = [(True,) * number, tuple(k % 2 == 0 for k in range(number)), (False,) * number]
    patterns = patterns if exported.has_partial else []
    scores, features, labels, masks = [0.0], [0.0], [0.0], [0.0]
    before: tuple[Any, Any] | None = None
    for frame in frames:
        mine, other = runtime.prepare(frame), exported.prepare(frame)
        whole = runtime.full(mine), exported.full(other)
        outputs = [whole]
        for keep in patterns:
            asked = Masks(keep, np.full((4, 4), 0.5, np.float32))
            outputs.append(
                (
                    runtime.partial(mine, asked, whole[0].features, None, card.partial_scale),
                    exported.partial(other, asked, whole[1].features, None, card.partial_scale),
                )
            )
        for ours, theirs in outputs:
            scores.append(_apart(ours.scores[0].numpy(), theirs.scores))
            features += [_apart(x[0].numpy(), y) for x, y in zip(ours.features, theirs.features, strict=True)]
            size = frame.shape[:2]
            other_labels = runtime.labels(ours.scores, size) != exported.labels(theirs.scores, size)
            labels.append(float(other_labels.mean()))
        if runtime.has_mask_generator:
            now = runtime.encode(mine), exported.encode(other)
            if before is not None:
                ours_masks = runtime.compare(before[0], now[0], None)
                theirs_masks = exported.compare(before[1], now[1], None)
                masks.append(float(np.abs(ours_masks.changed - theirs_masks.changed).max()))
                masks.append(float(ours_masks.keep != theirs_masks.keep))
            before = now
    exported.waits = False
    return Difference(max(scores), max(features), max(labels), max(masks))


def _single(network: AcceleratedNetwork, card: Card) -> TorchRuntime:
    """A network as graphs have it, in single precision."""
    runtime = TorchRuntime(network, device="cpu", mean=card.mean, std=card.std)
    runtime.network.float()
    return runtime


def _batches(runtime: TorchRuntime, frames: list[Image], size: tuple[int, int], partial: bool) -> Batches:
    """What a graph is fed on these frames; partial frames get the features of the frame before, half of them new."""
    found: Batches = []
    before: list[Any] | None = None
    for frame in frames:
        if frame.shape[:2] != size:
            frame = cv2.resize(frame, size[::-1], interpolation=cv2.INTER_AREA)
        inputs: dict[str, Any] = {"image": np.ascontiguousarray(frame)[None]}
        if partial:
            now = [maps.numpy() for maps in runtime.full(runtime.prepare(frame)).features]
            inputs["changed"] = np.full((1, 1, *now[0].shape[-2:]), 0.5, np.float32)
            inputs |= {f"before{number}": maps for number, maps in enumerate(before or now)}
            before = now
        found.append(inputs)
    return found


class _Full(nn.Module):
    def __init__(self, runtime: TorchRuntime) -> None:
        super().__init__()
        self.network = runtime.network.network
        self.run = runtime.network.run  # as a function: the other networks beside this one are no part of the graph
        self.register_buffer("mean", runtime.mean)
        self.register_buffer("scale", runtime.scale)

    def forward(self, image: Tensor, *others: Tensor) -> Any:
        computed = self.run(self.network, self.prepared(image), Pass())
        return (computed.logits, *computed.features)

    def prepared(self, image: Tensor) -> Tensor:
        mean, scale = self.get_buffer("mean"), self.get_buffer("scale")
        return (image.permute(0, 3, 1, 2).to(mean.dtype) - mean) * scale


class _Partial(_Full):
    """Every block open; the pairs it gives besides tell a runtime what to put in a block's place."""

    def __init__(self, runtime: TorchRuntime, scale: float) -> None:
        super().__init__(runtime)
        self.network = runtime.network.partial_network
        self.factor = scale
        self.order: list[int] = []

    def forward(self, image: Tensor, *others: Tensor) -> Any:
        """`others` are what changed and the features before."""
        changed, *before = others
        seen: list[tuple[int, Tensor, Tensor]] = []
        now = Pass(blend=lambda current: aggregate(current, before, changed), pairs=seen)
        prepared = self.prepared(image)
        if self.factor != 1:
            prepared = F.interpolate(prepared, scale_factor=self.factor, mode="bilinear", align_corners=False)
        computed = self.run(self.network, prepared, now)
        self.order = [block for block, _, _ in seen]
        pairs = [each for _, skipped, given in seen for each in (skipped, given)]
        return (computed.logits, *computed.features, *pairs)


class _Encode(_Full):
    def __init__(self, runtime: TorchRuntime) -> None:
        super().__init__(runtime)
        assert runtime.network.mask_generator is not None
        self.network = runtime.network.mask_generator.encoder

    def forward(self, image: Tensor, *others: Tensor) -> Any:
        return self.network(self.prepared(image))


class _Compare(nn.Module):
    def __init__(self, generator: Any) -> None:
        super().__init__()
        self.generator = generator

    def forward(self, before: Tensor, now: Tensor) -> tuple[Tensor, Tensor]:
        masks = self.generator(before, now)
        return masks.keep, masks.changed


def _write(module: nn.Module, inputs: dict[str, Tensor], outputs: list[str], path: Path, kind: str, opset: int) -> None:
    module.eval()
    values = tuple(value.contiguous() for value in inputs.values())
    target = path if kind == "onnx" else path.with_suffix(".onnx")
    logging.disable(logging.WARNING)  # the exporter names every package that it would support if it were there
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.onnx.export(
                module,
                values,
                str(target),
                input_names=list(inputs),
                output_names=outputs,
                opset_version=opset,
                dynamo=True,
                external_data=False,
                verbose=False,
            )
        except Exception as error:
            raise ValueError(f"{path.stem} cannot be exported: {_first_reason(error)}") from None
        finally:
            logging.disable(logging.NOTSET)
    if kind == "openvino":
        import openvino

        openvino.save_model(openvino.convert_model(str(target)), str(path), compress_to_fp16=False)
        target.unlink()


def _first_reason(error: BaseException) -> str:
    """The innermost cause in one line: it names the operation that stands in the way."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _check_tools(kind: str, eight_bits: bool) -> None:
    needed: dict[str, Callable[[], Any]] = {"onnx": lambda: __import__("onnxscript")}
    if kind not in ("onnx", "openvino"):
        raise ValueError(f"networks are exported to onnx or openvino, not to {kind!r}")
    if kind == "openvino":
        needed["openvino"] = lambda: __import__("openvino")
        if eight_bits:
            needed["nncf"] = lambda: __import__("nncf")
    for name, load in needed.items():
        try:
            load()
        except ImportError:
            extra = "int8" if name == "nncf" else "export"
            raise ImportError(f'exporting needs {name}: pip install "stmg[{extra}]"') from None


def _apart(one: Any, two: Any) -> float:
    return float(np.abs(one - two).max() / max(1e-6, np.abs(one).max()))
