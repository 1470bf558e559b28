"""Exports in tests: PyTorch's list of operations is read once per process, not for every graph."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import torch

IN_A_PROCESS = f"""
import sys
sys.path.append({str(Path(__file__).parent)!r})
from exporting import list_operations_once
list_operations_once()
"""
"""Code for processes that tests start."""


def list_operations_once() -> None:
    """Have `torch.onnx.export` read that list, half of its time for a small graph, when it is first called."""
    export_to_onnx = torch.onnx.export

    @functools.wraps(export_to_onnx)
    def export(*args: Any, **options: Any) -> Any:
        from torch.onnx._internal.exporter._registration import ONNXRegistry

        if not hasattr(ONNXRegistry.from_torchlib, "cache_info"):
            ONNXRegistry.from_torchlib = staticmethod(functools.cache(ONNXRegistry.from_torchlib))
        return export_to_onnx(*args, **options)

    torch.onnx.export = export
