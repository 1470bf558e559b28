"""The machine that figures come from, and that compiled graphs are for."""

from __future__ import annotations

import os
import platform
import time
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


def busy(seconds: float = 0.5) -> str:
    """A warning if others are using the machine, looked at for a moment; empty if not, or where that is not told."""
    before = _ticks()
    time.sleep(seconds)
    spent = [now - then for now, then in zip(_ticks(), before, strict=True)]
    share = 1 - spent[3] / sum(spent) if sum(spent) else 0.0  # the fourth counts idling
    return f"others were using {share:.0%} of the machine: times are too long" if share > 0.1 else ""


def _ticks() -> list[int]:
    try:
        line = Path("/proc/stat").read_text().splitlines()[0]
    except OSError:
        return [0] * 4
    return [int(count) for count in line.split()[1:9]]


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
