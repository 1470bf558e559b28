"""Engines by name."""

from __future__ import annotations

from stmg.runtimes.onnxruntime import OnnxRuntime
from stmg.runtimes.openvino import OpenVino

ENGINES: dict[str, type[OnnxRuntime] | type[OpenVino]] = {"onnxruntime": OnnxRuntime, "openvino": OpenVino}
