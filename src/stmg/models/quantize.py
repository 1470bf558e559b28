"""Quantization of exported graphs to INT8, by the runtimes' own tools, calibrated on frames of the user's video."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stmg.errors import SettingsError
from stmg.runtimes.onnxruntime import import_onnxruntime
from stmg.runtimes.openvino import import_openvino
from stmg.runtimes.torch import TorchRuntime
from stmg.video.frames import Image, resize_image

Inputs = dict[str, NDArray[np.generic]]
Batches = list[Inputs]
"""Inputs of a graph by name, one entry per frame."""


def quantize(graph: Path, to: str, batches: Batches) -> None:
    """Replace a graph file by an INT8 version. `to` is `onnx` or `openvino`."""
    if not batches:
        raise SettingsError("INT8 needs frames to calibrate on")
    if to == "onnx":
        _quantize_onnx(graph, batches)
    else:
        _quantize_openvino(graph, batches)


def make_batches(runtime: TorchRuntime, frames: Sequence[Image], size: tuple[int, int], *, partial: bool) -> Batches:
    """Inputs of a graph on these frames. Partial frames get the features of the frame before, and a mask of 0.5."""
    batches: Batches = []
    before: list[NDArray[np.float32]] | None = None
    for frame in frames:
        image = np.ascontiguousarray(resize_image(frame, size))
        inputs: Inputs = {"image": image[None]}
        if partial:
            now = [maps.numpy() for maps in runtime.full(runtime.prepare(image)).features]
            inputs["changed"] = np.full((1, 1, *now[0].shape[-2:]), 0.5, np.float32)
            inputs |= {f"before{number}": maps for number, maps in enumerate(before or now)}
            before = now
        batches.append(inputs)
    return batches


@contextmanager
def without_warnings_logged() -> Iterator[None]:
    """Silence log messages below an error: exporters log many harmless warnings.

    Logging that the caller had disabled stays disabled, inside and afterwards.
    """
    before = logging.root.manager.disable
    logging.disable(max(before, logging.WARNING))
    try:
        yield
    finally:
        logging.disable(before)


def _quantize_onnx(graph: Path, batches: Batches) -> None:
    import_onnxruntime()  # do this first, which turns its telemetry off
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._batches: Iterator[Inputs] = iter(batches)

        def get_next(self) -> Inputs | None:
            return next(self._batches, None)

    shaped, quantized = graph.with_suffix(".shaped.onnx"), graph.with_suffix(".int8.onnx")
    try:
        with without_warnings_logged():
            quant_pre_process(str(graph), str(shaped), skip_optimization=True)
            quantize_static(
                str(shaped),
                str(quantized),
                Reader(),
                quant_format=QuantFormat.QDQ,
                per_channel=True,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
                op_types_to_quantize=["Conv"],
            )
        quantized.replace(graph)
    finally:
        shaped.unlink(missing_ok=True)
        quantized.unlink(missing_ok=True)


def _quantize_openvino(graph: Path, batches: Batches) -> None:
    openvino = import_openvino()  # do this first, which turns off NNCF's telemetry too
    import nncf

    model = openvino.Core().read_model(str(graph))
    smaller = nncf.quantize(model, nncf.Dataset(batches), subset_size=len(batches))
    quantized = graph.with_name(f"{graph.stem}.int8.xml")
    openvino.save_model(smaller, str(quantized), compress_to_fp16=False)
    quantized.with_suffix(".bin").replace(graph.with_suffix(".bin"))
    quantized.replace(graph)
