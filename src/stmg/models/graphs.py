"""Graphs of a network: a frame of each level, and the mask generator, as plain functions of tensors for an exporter."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from stmg.errors import ModelError, first_line
from stmg.gating.aggregation import aggregate, downscale
from stmg.gating.gates import Pass
from stmg.gating.mask_generator import MaskGenerator
from stmg.models.silence import without_warnings_logged
from stmg.runtimes.openvino import import_openvino
from stmg.runtimes.torch import TorchRuntime


class FullGraph(nn.Module):
    """An image (1, H, W, 3) of uint8 to logits and features: a key frame."""

    def __init__(self, runtime: TorchRuntime) -> None:
        super().__init__()
        self.network = runtime.network.network
        self.run = runtime.network.run  # as a function: the other networks beside this one are no part of the graph
        self.normalize = runtime.normalize

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        output = self.run(self.network, self.normalize(image), Pass())
        return (output.logits, *output.features)


class PartialGraph(nn.Module):
    """An image, what changed and the features before to logits and features, with every block open.

    What each block gives, and what stands in when it is skipped, are outputs too: by them an engine leaves blocks out.
    """

    def __init__(self, runtime: TorchRuntime, scale: float) -> None:
        super().__init__()
        self.network = runtime.network.partial_network
        self.run = runtime.network.run
        self.normalize = runtime.normalize
        self.scale = scale
        self.order: list[int] = []
        """The block of each pair of outputs, after a run."""

    def forward(self, image: Tensor, changed: Tensor, *before: Tensor) -> tuple[Tensor, ...]:
        pairs: list[tuple[int, Tensor, Tensor]] = []
        now = Pass(blend=lambda current: aggregate(current, list(before), changed), pairs=pairs)
        output = self.run(self.network, downscale(self.normalize(image), self.scale), now)
        self.order = [block for block, _, _ in pairs]
        taps = [tensor for _, skipped, given in pairs for tensor in (skipped, given)]
        return (output.logits, *output.features, *taps)


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
    """The mask generator's features of two frames to masks."""

    def __init__(self, generator: MaskGenerator) -> None:
        super().__init__()
        self.generator = generator

    def forward(self, before: Tensor, now: Tensor) -> tuple[Tensor, Tensor]:
        masks = self.generator(before, now)
        return masks.keep, masks.changed


def write_graph(
    module: nn.Module, inputs: Mapping[str, Tensor], outputs: Sequence[str], path: Path, opset: int
) -> None:
    """Write a module as .onnx or, by way of that, as .xml of OpenVINO."""
    module.eval()
    target = path.with_suffix(".onnx")
    # The exporter names every package that it would support if it were there.
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
        except Exception as error:  # whatever an exporter raises
            raise ModelError(f"{path.stem} cannot be exported: {_first_reason(error)}") from None
    if path.suffix == ".xml":
        openvino = import_openvino()
        converted: Any = openvino.convert_model(str(target))
        openvino.save_model(converted, str(path), compress_to_fp16=False)
        target.unlink()


def _first_reason(error: BaseException) -> str:
    """The innermost cause in one line: it names the operation that stands in the way."""
    while error.__cause__ is not None:
        error = error.__cause__
    return first_line(error)
