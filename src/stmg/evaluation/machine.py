"""The machine that figures come from, as every result states it."""

from __future__ import annotations

from dataclasses import dataclass

from stmg.runtimes.machine import machine_info


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Hardware and versions."""

    processor: str
    cores: int
    threads: int
    opencv_threads: int
    gpu: str | None
    system: str
    python: str
    stmg: str | None
    packages: dict[str, str]

    def __str__(self) -> str:
        gpu = f", {self.gpu}" if self.gpu else ""
        return f"{self.processor}, {self.cores} cores{gpu}, Python {self.python}, stmg {self.stmg}"


def this_machine() -> Machine:
    return Machine(**machine_info())
