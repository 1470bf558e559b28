"""Graphs of a network in files: whole frames, partial frames and the mask generator, with a manifest."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from stmg.errors import MissingPackageError, ModelError, SettingsError, first_line, install_command
from stmg.gating.accelerate import AcceleratedNetwork
from stmg.gating.aggregation import aggregate, downscale
from stmg.gating.gates import Pass
from stmg.gating.mask_generator import MaskGenerator
from stmg.models.card import Card
from stmg.models.quantize import make_batches, quantize, without_warnings_logged
from stmg.runtimes.manifest import FORMATS, MANIFEST, GraphFile, Manifest, write_manifest
from stmg.runtimes.openvino import import_openvino
from stmg.runtimes.torch import TorchRuntime
from stmg.video.frames import Image


def export_network(
    network: AcceleratedNetwork,
    card: Card,
    size: tuple[int, int],
    to: str,
    folder: Path,
    *,
    partial: Sequence[Image] | None = None,
    calibration: Sequence[Image] | None = None,
    opset: int = 18,
) -> None:
    """Write the graphs of a network at one frame size, as `onnx` or `openvino`, and their manifest.

    partial: frames of a video to choose the blocks of partial frames on. None: whole frames only.
    calibration: frames to calibrate INT8 on. The mask generator, which is small, stays in FP32. None: all in FP32.
    """
    check_packages(to, int8=calibration is not None)
    runtime = single_precision(network, card)
    blocks = None if partial is None else choose_blocks(runtime, partial, card.partial_scale)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)  # without a manifest, the incomplete folder is no export
    image = torch.zeros(1, *size, 3, dtype=torch.uint8)
    with torch.no_grad():
        full = runtime.network.full(runtime.prepare(image[0].numpy()))
    features = [f"features{number}" for number in range(len(full.features))]
    graphs: dict[str, GraphFile] = {}

    def write(name: str, module: nn.Module, inputs: dict[str, Tensor], outputs: list[str]) -> None:
        file = f"{name}.{'onnx' if to == 'onnx' else 'xml'}"
        write_graph(module, inputs, outputs, folder / file, opset)
        graphs[name] = GraphFile(file, tuple(inputs), tuple(outputs))

    write("full", FullGraph(runtime), {"image": image}, ["logits", *features])
    if blocks is not None:
        changed = torch.ones(1, 1, *full.features[0].shape[-2:])
        before = {f"before{number}": maps for number, maps in enumerate(full.features)}
        inputs = {"image": image, "changed": changed, **before}
        write("partial", PartialGraph(runtime, card.partial_scale, blocks), inputs, ["logits", *features])
    generator = runtime.network.mask_generator
    if generator is not None and blocks is not None:
        encode = EncodeGraph(runtime)
        with torch.no_grad():
            encoded = encode(image)
        write("encode", encode, {"image": image}, ["encoded"])
        write("compare", CompareGraph(generator), {"before": encoded, "now": encoded}, ["changed"])
    if calibration is not None:
        for name in [name for name in ("full", "partial") if name in graphs]:
            batches = make_batches(runtime, calibration, size, partial=name == "partial")
            quantize(folder / graphs[name].file, to, batches)
    blank = torch.zeros(1, 3, *size, dtype=runtime.network.dtype)
    write_manifest(
        folder,
        Manifest(
            id=secrets.token_hex(16),
            kind=to,
            bits=32 if calibration is None else 8,
            size=size,
            graphs=graphs,
            costs=runtime.network.costs(blank),
            card=asdict(replace(card, activation=runtime.activation)),
            blocks=blocks,
        ),
    )


def choose_blocks(runtime: TorchRuntime, frames: Sequence[Image], scale: float) -> tuple[bool, ...]:
    """Choose the blocks that partial frames run: those that the mask generator keeps on at least half of the frames.

    Each frame is compared with the one before it. As in the paper, nothing is warped.
    """
    if not runtime.has_mask_generator:
        if scale == 1:
            raise SettingsError(
                "partial: this network has no mask generator, so its partial frames would run every block; "
                "train one (a recipe with stage: stmg), or export it without partial frames"
            )
        return (True,) * runtime.num_blocks
    if len(frames) < 2:
        raise SettingsError(f"partial: give at least 2 frames to choose blocks on; got {len(frames)}")
    encoded = [runtime.encode(runtime.prepare(frame)) for frame in frames]
    kept = [runtime.compare(before, now, None).keep for before, now in pairwise(encoded)]
    return tuple(bool(share >= 0.5) for share in np.mean(kept, axis=0)) if runtime.num_blocks else ()


def check_packages(to: str, *, int8: bool) -> None:
    """Raise if the format is unknown, or if a package that it needs is missing."""
    if to not in FORMATS:
        raise SettingsError(f"networks can be exported to {' or '.join(FORMATS)}, not to {to!r}")
    needed = {"onnxscript": "export"}
    if to == "openvino":
        needed |= {"openvino": "export", **({"nncf": "int8"} if int8 else {})}
    for package, extra in needed.items():
        if find_spec(package) is None:
            raise MissingPackageError(f"exporting needs {package}: {install_command(extra)}")


def single_precision(network: AcceleratedNetwork, card: Card) -> TorchRuntime:
    """A network in the form of its graphs: on the CPU, in FP32."""
    runtime = TorchRuntime(
        network, device="cpu", mean=card.mean, std=card.std, activation=card.activation, threshold=card.threshold
    )
    runtime.network.float()
    return runtime


class FullGraph(nn.Module):
    """A key frame: an image (1, H, W, 3) of uint8 to logits and features."""

    def __init__(self, runtime: TorchRuntime) -> None:
        super().__init__()
        self.network = runtime.network.network
        self.run = runtime.network.run  # keep only the function: the networks beside this one are not part of the graph
        self.normalize = runtime.normalize

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        output = self.run(self.network, self.normalize(image), Pass())
        return (output.logits, *output.features)


class PartialGraph(nn.Module):
    """A partial frame: image, spatial mask and previous features to logits and features, with some of the blocks."""

    def __init__(self, runtime: TorchRuntime, scale: float, blocks: tuple[bool, ...]) -> None:
        super().__init__()
        self.network = runtime.network.partial_network
        self.run = runtime.network.run
        self.normalize = runtime.normalize
        self.scale, self.blocks = scale, blocks

    def forward(self, image: Tensor, changed: Tensor, *before: Tensor) -> tuple[Tensor, ...]:
        now = Pass(keep=self.blocks, blend=lambda current: aggregate(current, list(before), changed))
        output = self.run(self.network, downscale(self.normalize(image), self.scale), now)
        return (output.logits, *output.features)


class EncodeGraph(nn.Module):
    """An image to the mask generator's features."""

    def __init__(self, runtime: TorchRuntime) -> None:
        super().__init__()
        assert runtime.network.mask_generator is not None
        self.encoder = runtime.network.mask_generator.encoder
        self.normalize = runtime.normalize

    def forward(self, image: Tensor) -> Tensor:
        encoded: Tensor = self.encoder(self.normalize(image))
        return encoded


class CompareGraph(nn.Module):
    """The mask generator's features of two frames to the spatial mask."""

    def __init__(self, generator: MaskGenerator) -> None:
        super().__init__()
        self.generator = generator

    def forward(self, before: Tensor, now: Tensor) -> Tensor:
        changed: Tensor = self.generator(before, now).changed
        return changed


def write_graph(
    module: nn.Module, inputs: Mapping[str, Tensor], outputs: Sequence[str], path: Path, opset: int
) -> None:
    """Write a module as .onnx, or convert that to OpenVINO's .xml."""
    module.eval()
    target = path.with_suffix(".onnx")
    # Silence the exporter, which logs every optional package that is missing.
    with without_warnings_logged(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.onnx.export(
                module,
                tuple(value.contiguous() for value in inputs.values()),
                str(target),
                input_names=list(inputs),
                output_names=list(outputs),
                opset_version=opset,
                dynamo=True,
                external_data=False,
                verbose=False,
            )
        except Exception as error:  # exporters raise all kinds of errors
            raise ModelError(f"{path.stem} cannot be exported: {_first_reason(error)}") from error
    if path.suffix == ".xml":
        openvino = import_openvino()
        converted: Any = openvino.convert_model(str(target))
        openvino.save_model(converted, str(path), compress_to_fp16=False)
        target.unlink()


def _first_reason(error: BaseException) -> str:
    """The innermost cause in one line, which names the operation that failed."""
    while error.__cause__ is not None:
        error = error.__cause__
    return first_line(error)
