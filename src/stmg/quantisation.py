"""Quantisation: exported graphs in eight bits, by the runtimes' own tools, calibrated on frames of the user's video."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Batches = list[dict[str, Any]]
"""Inputs of a graph by name, one entry a frame."""


def quantise(graph: Path, kind: str, batches: Batches) -> None:
    """Put a graph of eight bits in the place of a graph file, `onnx` or `openvino`."""
    if not batches:
        raise ValueError("quantisation needs frames to calibrate on")
    if kind == "onnx":
        _onnx(graph, batches)
    else:
        _openvino(graph, batches)


def _onnx(graph: Path, batches: Batches) -> None:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._left: Iterator[dict[str, Any]] = iter(batches)

        def get_next(self) -> dict[str, Any] | None:
            return next(self._left, None)

    ready, done = graph.with_suffix(".ready.onnx"), graph.with_suffix(".int8.onnx")
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        quant_pre_process(str(graph), str(ready), skip_optimization=True)
        quantize_static(
            str(ready),
            str(done),
            Reader(),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            op_types_to_quantize=["Conv"],
        )
        done.replace(graph)
    finally:
        logging.disable(before)
        ready.unlink(missing_ok=True)
        done.unlink(missing_ok=True)


def _openvino(graph: Path, batches: Batches) -> None:
    import nncf
    import openvino

    model = openvino.Core().read_model(str(graph))
    small = nncf.quantize(model, nncf.Dataset(batches), subset_size=len(batches))
    done = graph.with_name(f"{graph.stem}.int8.xml")
    openvino.save_model(small, str(done), compress_to_fp16=False)
    done.with_suffix(".bin").replace(graph.with_suffix(".bin"))
    done.replace(graph)
