"""The machine that figures come from, and that compiled graphs are for."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("torch", "numpy", "opencv-python-headless", "av", "onnxruntime", "openvino")


def machine() -> dict[str, Any]:
    """Processor, cores, threads and versions, as they are printed beside every figure."""
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
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
    }


def machine_line(facts: dict[str, Any]) -> str:
    """The same in one line."""
    gpu = f", {facts['gpu']}" if facts["gpu"] else ""
    return f"{facts['processor']}, {facts['cores']} cores{gpu}, Python {facts['python']}, stmg {facts['stmg']}"


def busy() -> str:
    """A warning if others are using the machine; empty if not."""
    if not hasattr(os, "getloadavg"):
        return ""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    return f"the machine is busy (load {load:.1f} on {cores} cores): times are too long" if load > cores / 2 else ""


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
