"""The machine that figures come from, and that compiled graphs are for."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

PACKAGES = ("torch", "numpy", "opencv-python-headless", "av", "onnxruntime", "openvino")


def machine_info() -> dict[str, Any]:
    """Processor, cores, threads and versions, as they stand beside every figure."""
    import cv2
    import torch

    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "opencv_threads": cv2.getNumThreads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "system": platform.system(),
        "python": platform.python_version(),
        "stmg": _version("stmg"),
        "packages": {name: number for name in PACKAGES if (number := _version(name))},
    }


def busy_warning(seconds: float = 0.5) -> str:
    """A warning if others are using the machine, looked at for a moment; empty if not."""
    share = psutil.cpu_percent(interval=seconds) / 100
    return f"others were using {share:.0%} of the machine: times are too long" if share > 0.1 else ""


def processor() -> str:
    """The processor's name."""
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
