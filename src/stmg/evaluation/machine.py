"""The machine that figures come from, and a warning if it was busy."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

LOOK_SECONDS = 0.5  # over which the load of the machine is measured
PACKAGES = ("torch", "numpy", "opencv-python-headless", "av", "onnxruntime", "openvino")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Hardware and versions."""

    processor: str
    cores: int
    threads: int
    """Threads of PyTorch."""
    opencv_threads: int
    gpu: str | None
    system: str
    python: str
    stmg: str | None
    packages: dict[str, str]
    """Versions by name."""

    def __str__(self) -> str:
        gpu = f", {self.gpu}" if self.gpu else ""
        return f"{self.processor}, {self.cores} cores{gpu}, Python {self.python}, stmg {self.stmg}"


def this_machine() -> Machine:
    """This machine, with the threads that are set now."""
    import cv2
    import torch

    return Machine(
        processor=processor(),
        cores=os.cpu_count() or 1,
        threads=torch.get_num_threads(),
        opencv_threads=cv2.getNumThreads(),
        gpu=torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        system=platform.system(),
        python=platform.python_version(),
        stmg=_version("stmg"),
        packages={name: number for name in PACKAGES if (number := _version(name))},
    )


def busy_warning() -> str:
    """A warning if other processes use the machine at the moment; empty if not."""
    share = psutil.cpu_percent(interval=LOOK_SECONDS) / 100
    return f"others were using {share:.0%} of the machine: times are too long" if share > 0.1 else ""


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def processor() -> str:
    """The name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
