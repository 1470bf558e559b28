"""The machine that figures come from."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import cv2
import torch

from stmg import __version__

PACKAGES = ("torch", "numpy", "opencv-python-headless", "av", "onnxruntime", "openvino")


def machine() -> dict[str, Any]:
    """Processor, cores, threads and versions, as they are printed beside every figure."""
    return {
        "processor": _processor(),
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
    torch_version = facts["packages"].get("torch", "none")
    return f"{facts['processor']}, {facts['threads']} of {facts['cores']} threads{gpu}, PyTorch {torch_version}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
