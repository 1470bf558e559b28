"""Runtimes: what computes a frame, wherever it runs, behind one protocol."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from stmg.frames import Image
from stmg.motion import Field
from stmg.scheduler import Level
from stmg.state import Cost, Labels, Map, Masks


class Output(NamedTuple):
    """A computed frame."""

    features: Any
    """What the next partial frame may blend with, in the runtime's own arrays; None if nothing can."""
    scores: Any
    """Logits of the classes, or labels where a network gives nothing else, in the runtime's own arrays."""
    keep: tuple[bool, ...] | None = None
    """The blocks that ran, where they are not those that were asked for."""


class Runtime(Protocol):
    """The arithmetic on one frame. It keeps nothing of a stream, so many streams may share it, in many threads."""

    @property
    def num_blocks(self) -> int:
        """How many residual blocks can be skipped."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What cannot be done with this network, and what still can."""

    @property
    def has_mask_generator(self) -> bool:
        """Whether `encode` and `compare` can be called."""

    def expect_partial(self) -> None:
        """Get ready for partial frames, before the first frame comes."""

    def prepare(self, image: Image) -> Any:
        """The image (H, W, 3) as the network wants it."""

    def encode(self, prepared: Any) -> Any:
        """The mask generator's features of a frame."""

    def compare(self, before: Any, now: Any, path: Field | None) -> Masks:
        """Masks from the encoder features of an earlier frame, moved along `path`, and of this one."""

    def full(self, prepared: Any) -> Output:
        """The whole network."""

    def partial(self, prepared: Any, masks: Masks, previous: Any, path: Field | None, scale: float) -> Output:
        """The kept blocks at a scale, blended with the previous features moved along `path`."""

    def fused(self, now: Any, before: Any, path: Field | None, share: Map) -> Any:
        """Scores of a frame averaged with those of an earlier one, moved along `path`, which counts for `share`."""

    def labels(self, scores: Any, size: tuple[int, int]) -> Labels:
        """The best class of each pixel, (H, W)."""

    def cost(
        self, size: tuple[int, int], level: Level, keep: tuple[bool, ...], scale: float, masked: bool
    ) -> Cost | None:
        """What a frame of that size and level executes; None if it cannot be counted."""


def runtime_for(network: Any, device: str | None = None) -> Runtime:
    """The runtime of an accelerated network, or of any callable from frame to logits."""
    if hasattr(network, "prepare") and hasattr(network, "full") and hasattr(network, "cost"):
        runtime: Runtime = network
        return runtime
    if hasattr(network, "parameters"):
        from stmg.runtimes.torch import TorchRuntime

        return TorchRuntime(network, device=device)
    if callable(network):
        from stmg.runtimes.black_box import BlackBoxRuntime

        return BlackBoxRuntime(network)
    kind = type(network).__name__
    raise TypeError(f"a network is an accelerated network or a callable from frame to logits, not a {kind}")
