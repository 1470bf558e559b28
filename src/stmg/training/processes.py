"""Processes of a run: devices, agreement between processes, signals, threads, errors."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from stmg import errors
from stmg.errors import SettingsError, StmgError, explain_missing
from stmg.signals import handle_ending, note_ending
from stmg.streaming.threads import limit_opencv_threads
from stmg.streaming.values import read_threads

if TYPE_CHECKING:
    from lightning_fabric import Fabric

EVALUATION = timedelta(hours=12)  # maximum time that processes wait for the one that evaluates
PRECISIONS = {"fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}  # names in Fabric


@dataclass(frozen=True)
class Machines:
    """The devices of a run."""

    device: str = "auto"
    """auto, cpu, cuda or mps; cuda:1 for a certain GPU."""
    devices: int = 1
    """Number of processes or GPUs on each machine."""
    nodes: int = 1
    """Number of machines."""
    precision: str = "fp32"
    """fp32, or bf16 or fp16 by autocast."""
    threads: int | None = None
    """Threads of each process. None: PyTorch's choice."""

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise SettingsError(f"there is no precision {self.precision!r}; there are {', '.join(PRECISIONS)}")
        if self.threads is not None:
            read_threads("threads", self.threads)

    def make_fabric(self) -> Fabric:
        with explain_missing("lightning_fabric", why="training needs", extra="train"):
            from lightning_fabric import Fabric
            from lightning_fabric.strategies.ddp import DDPStrategy
        # Start processes here, unless torchrun, a cluster or a second machine has done so.
        name, _, index = self.device.partition(":")
        alone = self.nodes == 1 and "TORCHELASTIC_RUN_ID" not in os.environ
        strategy: Any = "auto"
        if self.devices * self.nodes > 1:
            # The other processes wait while the first one evaluates, which may exceed the default of half an hour.
            strategy = DDPStrategy(start_method="spawn" if alone else "popen", timeout=EVALUATION)
        try:
            fabric = Fabric(
                accelerator=name,
                devices=[int(index)] if index.isdigit() else self.devices,
                num_nodes=self.nodes,
                strategy=strategy,
                precision=PRECISIONS[self.precision],  # type: ignore[arg-type]
            )
        except (ValueError, TypeError, RuntimeError) as error:  # Fabric's own message for a missing device
            reason = " ".join(str(error).split())
            raise SettingsError(f"device {self.device!r}, precision {self.precision!r}: {reason}") from None
        # Otherwise Fabric would use another precision with only a warning.
        if fabric.strategy.precision.precision != PRECISIONS[self.precision]:
            raise SettingsError(f"precision {self.precision!r} is not for {fabric.device.type}; try bf16")
        return fabric


def any_process(fabric: Fabric, value: bool) -> bool:
    """True if the value is True in any process."""
    if fabric.world_size == 1:
        return value
    total = fabric.all_reduce(torch.tensor(float(value), device=fabric.device), reduce_op="sum")
    assert isinstance(total, torch.Tensor)
    return float(total) > 0


class Interruption(threading.Event):
    """Set once a signal has asked the process to end."""

    is_deferred = True

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Let a signal inside this context raise KeyboardInterrupt immediately."""
        if self.is_set():
            raise KeyboardInterrupt
        self.is_deferred = False
        try:
            yield
        finally:
            self.is_deferred = True


@contextmanager
def defer_interrupt() -> Iterator[Interruption]:
    """Let Ctrl-C set an event, so that the current step is finished first. A second Ctrl-C raises immediately.

    Other signals that end a process do the same.
    """
    interruption = Interruption()

    def handle(number: int, frame: FrameType | None) -> None:
        note_ending(number)
        if interruption.is_set() or not interruption.is_deferred:
            raise KeyboardInterrupt
        interruption.set()

    with handle_ending(handle):
        yield interruption


@contextmanager
def limit_threads(threads: int | None) -> Iterator[None]:
    """Set PyTorch's threads if a number is given, and give OpenCV one, as the network needs the cores."""
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        with limit_opencv_threads():
            yield
    finally:
        if threads is not None:
            torch.set_num_threads(before)


def restore_error(text: str) -> Exception:
    """The error that ended another process, restored from its traceback."""
    last = text.strip().splitlines()[-1]
    name, _, message = last.partition(": ")
    error_type = getattr(errors, name.rpartition(".")[2], None)
    if isinstance(error_type, type) and issubclass(error_type, StmgError):
        return error_type(message)
    return RuntimeError(last)
