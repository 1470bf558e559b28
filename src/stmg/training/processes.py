"""Processes of a run: where they are, what they agree on, how they are stopped, what they failed with."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Machines:
    """Where a run takes place."""

    device: str = "auto"
    devices: int = 1
    nodes: int = 1
    precision: str = "32-true"
    threads: int | None = None
    """Of each process."""

    def fabric(self) -> Any:
        try:
            from lightning_fabric import Fabric
        except ImportError:
            raise ImportError('training needs: pip install "stmg[train]"') from None
        many = self.devices * self.nodes > 1
        # Processes are started here, unless torchrun, a cluster or a second machine has done so.
        alone = self.nodes == 1 and "TORCHELASTIC_RUN_ID" not in os.environ
        strategy = ("ddp_spawn" if alone else "ddp") if many else "auto"
        return Fabric(
            accelerator=self.device,
            devices=self.devices,
            num_nodes=self.nodes,
            strategy=strategy,
            precision=self.precision,  # type: ignore[arg-type]
        )


def any_process(fabric: Any, value: bool) -> bool:
    """Whether it is so in any process."""
    if fabric.world_size == 1:
        return value
    return float(fabric.all_reduce(torch.tensor(float(value), device=fabric.device), reduce_op="sum")) > 0


@contextmanager
def asked_to_stop() -> Iterator[threading.Event]:
    """Ctrl-C sets an event, so that the step at hand is ended first; a second Ctrl-C does not wait."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def heard(number: int, frame: Any) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = signal.signal(signal.SIGINT, heard)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def original_error(text: str) -> Exception:
    """The error that a process ended with, from what is left of it: its traceback."""
    last = text.strip().splitlines()[-1]
    name, _, message = last.partition(": ")
    ours = {"FloatingPointError": FloatingPointError, "ImportError": ImportError}
    theirs = {"ValueError": ValueError, "DataError": ValueError, "TypeError": TypeError}
    kind = (ours | theirs).get(name.rpartition(".")[2])
    return RuntimeError(last) if kind is None else kind(message)
