"""The runtime protocol: what a stream needs of whatever computes its frames; implemented in `stmg.runtimes`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stmg.streaming.cost import Cost
from stmg.streaming.flow import Flow, Map
from stmg.streaming.masks import Masks
from stmg.streaming.schedulers import Level
from stmg.video.frames import Image
from stmg.video.labels import Labels


class Output(NamedTuple):
    """A computed frame, in the runtime's own arrays."""

    features: Any
    """What the next partial frame may blend with; None if nothing can."""
    logits: Any
    """Logits of the classes, or labels where a network gives nothing else."""
    keep: tuple[bool, ...] | None = None
    """The blocks that ran, where they are not those that were requested."""


@runtime_checkable
class Runtime(Protocol):
    """The arithmetic on one frame. It keeps nothing of a stream, so many streams may share it, in many threads.

    A key frame calls `prepare`, `full` and `labels`; a partial one `partial` in place of `full`; a carried one none of
    them. `encode` and `compare` are called only if `has_mask_generator`, `fuse` only if the stream fuses key frames.
    What `prepare`, `encode`, `full` and `partial` return is handed back as it is, so it may be any object.

    A network that is a function from an image to logits needs no runtime of its own: give the function. To add to what
    `stmg.runtimes.callable` makes of one, derive from it:

        class Chip(CallableRuntime):
            input_size, num_classes = (360, 480), 19

            def __init__(self, chip):
                super().__init__(chip.run)

            def prepare(self, image):
                return resize_image(image, self.input_size)

        segmenter = stmg.VideoSegmenter(Chip(chip))
    """

    @property
    def description(self) -> str:
        """What computes, and where, in one line: `onnxruntime 1.23, CPUExecutionProvider, 2 threads`."""

    @property
    def input_size(self) -> tuple[int, int] | None:
        """(H, W) that every frame is resized to; None if any size is computed as it comes."""

    @property
    def num_classes(self) -> int | None:
        """How many classes the labels may have; None if that is not known before the first frame."""

    @property
    def threshold(self) -> float:
        """The probability above which a pixel is foreground, for networks of one channel."""

    @property
    def num_blocks(self) -> int:
        """How many residual blocks can be skipped; 0 if frames are computed whole."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What cannot be done with this network, and what still can."""

    @property
    def has_mask_generator(self) -> bool:
        """Whether `encode` and `compare` can be called."""

    def expect_partial(self) -> None:
        """Get ready for partial frames, before the first frame comes."""

    def for_throughput(self) -> Runtime:
        """The same for many frames whose order does not matter: each on one core, several at once.

        Itself where that makes no difference.
        """

    @property
    def one_at_a_time(self) -> bool:
        """Whether frames are computed one after the other, whatever calls; each may then have all cores."""

    def begin_worker(self) -> None:
        """Called in each thread in which frames are computed side by side with others, before the first of them."""

    def exact_patterns(self) -> AbstractContextManager[None]:
        """Inside, a partial frame waits until its own pattern of blocks is compiled: for measuring, not for running.

        Outside, a pattern that opens more blocks may stand in for it meanwhile.
        """

    def prepare(self, image: Image) -> Any:
        """The image (H, W, 3) as the network wants it."""

    def encode(self, prepared: Any) -> Any:
        """The mask generator's features of a frame."""

    def compare(self, before: Any, now: Any, flow: Flow | None) -> Masks:
        """Masks from the encoder features of an earlier frame, warped along `flow`, and of this one."""

    def full(self, prepared: Any) -> Output:
        """The whole network."""

    def partial(self, prepared: Any, masks: Masks, previous: Any, flow: Flow | None, scale: float) -> Output:
        """The blocks of `masks.keep` at a scale, blended with the previous features, warped along `flow`, where
        `masks.changed` is low."""

    def fuse(self, now: Any, before: Any, flow: Flow | None, share: Map) -> Any:
        """Logits of a frame averaged with those of an earlier one, warped along `flow`, which count for `share`."""

    def labels(self, logits: Any, size: tuple[int, int]) -> Labels:
        """The best class of each pixel, (H, W)."""

    def probability(self, logits: Any, size: tuple[int, int]) -> Map | None:
        """The probability of the foreground, (H, W), where the network has one channel; None where it has more."""

    def logits_array(self, logits: Any) -> NDArray[np.float32] | None:
        """The logits as (h, w, C) in numpy, for blending; None where the network gives labels alone."""

    def cost(
        self, size: tuple[int, int], level: Level, keep: tuple[bool, ...], scale: float, masked: bool
    ) -> Cost | None:
        """What a frame of that size and level executes; None if it cannot be counted."""
