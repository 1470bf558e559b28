"""The machine that figures come from."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import cv2
import torch

from stmg import __version__
from stmg.machine import processor

PACKAGES = ("torch", "numpy", "opencv-python-headless", "av", "onnxruntime", "openvino")


def machine() -> dict[str, Any]:
    """Processor, cores, threads and versions, as they are printed beside every figure."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "opencv_threads": cv2.getNumThreads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "system": platform.system(),
        "python": platform.python_version(),
        "stmg": __version__,
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
    }


def machine_line(facts: dict[str, Any]) -> str:
    """The same in one line."""
    gpu = f", {facts['gpu']}" if facts["gpu"] else ""
    return f"{facts['processor']}, {facts['cores']} cores{gpu}, Python {facts['python']}, stmg {facts['stmg']}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
