"""The processor that compiled graphs are for."""

from __future__ import annotations

import platform
from pathlib import Path


def processor() -> str:
    """Its name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
