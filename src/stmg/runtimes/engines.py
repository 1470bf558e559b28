"""Engines by name: what runs a graph on this machine."""

from __future__ import annotations

from pathlib import Path

from stmg.runtimes.engine import Quantization
from stmg.runtimes.litert import LiteRt
from stmg.runtimes.onnxruntime import OnnxRuntime, read_onnx_scales
from stmg.runtimes.openvino import OpenVino
from stmg.runtimes.tflite import read_tflite

ENGINES: dict[str, type[OnnxRuntime] | type[OpenVino] | type[LiteRt]] = {
    "onnxruntime": OnnxRuntime,
    "openvino": OpenVino,
    "litert": LiteRt,
}
"""Engines by name."""
GRAPH_ENGINES = {
    ".onnx": ("onnxruntime", "openvino"),
    ".xml": ("openvino",),
    ".tflite": ("openvino", "litert"),
}
"""The engines that read a graph file, by suffix; the first runs it unless another is chosen."""


def read_scales(path: Path) -> dict[str, Quantization]:
    """Read the quantization of a graph file's quantized inputs and outputs, by name."""
    if path.suffix == ".tflite":
        return read_tflite(path).scales
    return read_onnx_scales(path) if path.suffix == ".onnx" else {}
