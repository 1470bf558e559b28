"""Runtime: the base class of whatever computes frames; `stmg.runtimes` has one for PyTorch, functions and graphs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stmg.errors import ModelError, SettingsError, StmgError, first_line
from stmg.streaming.cost import Cost
from stmg.streaming.flow import Flow, Map
from stmg.streaming.logits import (
    THRESHOLD,
    Foreground,
    argmax_labels,
    as_array,
    fuse_logits,
    guess_activation,
    make_test_image,
    read_probability,
)
from stmg.streaming.masks import Masks
from stmg.streaming.schedulers import Level
from stmg.video.frames import Image, resize_image
from stmg.video.labels import Labels, resize_labels
from stmg.video.normalization import Normalization

_choosing = Lock()  # an activation is chosen once, whatever threads ask for it


class Output(NamedTuple):
    """A computed frame, in the runtime's own arrays."""

    logits: Any
    """Logits (C, h, w) of the classes, or labels (H, W) where a network gives nothing else."""
    features: Any = None
    """Features that the next partial frame may blend with; None if there are none."""


class FirstOutput(NamedTuple):
    """Output of a network for the first frame."""

    shape: tuple[int, ...]
    """(C, h, w) of logits, (H, W) of labels."""
    frame_size: tuple[int, int]
    """(H, W) of the frame."""


class Runtime(ABC):
    """The arithmetic on one frame. It keeps nothing of a stream, so many streams may share it, in many threads.

    Only `full` has to be given; a function from an image to logits needs no runtime at all.

        class Chip(stmg.Runtime):
            input_size, num_classes = (360, 480), 19

            def full(self, image):
                return stmg.Output(driver.run(image))

        segmenter = stmg.VideoSegmenter(Chip())

    A key frame calls `prepare`, `full` and `labels`; a partial one `partial` in place of `full`; a carried one none of
    them. `encode` and `compare` are called only if `has_mask_generator`, `fuse` only if the stream fuses key frames.
    What `prepare`, `encode`, `full` and `partial` return is handed back as it is, so it may stay on a device; then
    override `as_array`, which fetches it.
    """

    input_size: tuple[int, int] | None = None
    """(H, W) that every frame is resized to; None if any size is computed as it comes."""
    num_classes: int | None = None
    """Number of classes; None if unknown before the first frame."""
    num_blocks: int = 0
    """Number of residual blocks that can be skipped; 0 if frames are computed whole."""
    fixed_blocks: tuple[bool, ...] | None = None
    """The blocks that every partial frame runs; None if they are chosen frame by frame."""
    has_mask_generator: bool = False
    """True if `encode` and `compare` can be called."""
    one_at_a_time: bool = True
    """True if frames are computed one after the other, whatever threads call; each may then use all cores."""
    foreground: Foreground = Foreground()
    """The user's choice of how to read a single channel, as far as stated."""
    activation: str | None = None
    """logits or probability, once it is known what a single channel holds."""
    notes: tuple[str, ...] = ()
    """Limits of this network: what cannot be done with it, and what still can."""
    block_notes: tuple[str, ...] = ()
    """Limits of its residual blocks, which matter only in the paper's mode."""
    normalization: Normalization | None = None
    """Normalization of the image; None if there is none."""
    assumes_normalization: bool = False
    """True if the normalization was assumed, not stated."""
    copied_from: Runtime | None = None
    """The runtime that this one copies for throughput; None if it is not a copy."""
    first_output: FirstOutput | None = None
    """Output for the first computed frame; None before it."""

    @property
    def name(self) -> str:
        """Name of the network."""
        return type(self).__name__

    @property
    def input_text(self) -> str:
        """Description of the input, such as `ImageNet normalization (assumed)`; empty without a normalization."""
        if self.normalization is None:
            return ""
        return f"{self.normalization}{' (assumed)' if self.assumes_normalization else ''}"

    def check_input(self, image: Image) -> str | None:
        """Say in one line how a frame's value range misfits the network, and the fix. None if no misfit is known."""
        return None

    @property
    def description(self) -> str:
        """Engine and device in one line, such as `onnxruntime 1.23, CPUExecutionProvider, 2 threads`."""
        return type(self).__name__

    @property
    def threshold(self) -> float:
        """The probability above which a pixel is foreground, for networks of one channel."""
        return THRESHOLD if self.foreground.threshold is None else self.foreground.threshold

    def for_throughput(self) -> Runtime:
        """Return this runtime for many frames in any order: each frame on one core, several at once.

        Returns itself if that makes no difference.
        """
        return self

    def begin_worker(self, parts: int) -> None:  # noqa: B027  nothing to do by default
        """Called in each of the `parts` threads in which frames are computed side by side, before the first frame."""

    def prepare(self, image: Image) -> Any:
        """Convert an image (H, W, 3) to the network's input."""
        return image if self.input_size is None else resize_image(image, self.input_size)

    @abstractmethod
    def full(self, prepared: Any) -> Output:
        """Run the whole network."""

    def partial(self, prepared: Any, masks: Masks, previous: Any, flow: Flow | None, scale: float) -> Output:
        """The blocks of `masks.keep` at a scale, blended with the previous features, warped along `flow`, where
        `masks.changed` is low."""
        raise SettingsError(
            f"{self.description} computes frames whole or not at all; choose a scheduler without partial frames"
        )

    def encode(self, prepared: Any) -> Any:
        """Compute the mask generator's features of a frame."""
        raise NotImplementedError("there is no mask generator")

    def compare(self, before: Any, now: Any, flow: Flow | None) -> Masks:
        """Masks from the encoder features of an earlier frame, warped along `flow`, and of this one."""
        raise NotImplementedError("there is no mask generator")

    def as_array(self, logits: Any) -> NDArray[Any]:
        """Return the logits (C, h, w) of an output, or its labels (H, W), as numpy."""
        return as_array(logits)

    def fuse(self, now: Any, before: Any, flow: Flow | None, share: Map) -> Any:
        """Logits of a frame averaged with those of an earlier one, warped along `flow`, whose weight is `share`."""
        one, two = self.as_array(now), self.as_array(before)
        return now if one.ndim == 2 or two.ndim == 2 else fuse_logits(one, two, flow, share)  # labels have no average

    def labels(self, logits: Any, size: tuple[int, int]) -> Labels:
        """Find the best class of each pixel, (H, W); with one channel, 1 where it is foreground."""
        array = self.as_array(logits)
        if array.ndim == 2:
            return resize_labels(array.astype(np.uint8), size)
        if len(array) != 1:
            return argmax_labels(array, size)
        return (read_probability(array, size, self.find_activation(size)) > self.threshold).view(np.uint8)

    def probability(self, logits: Any, size: tuple[int, int]) -> Map | None:
        """Compute the foreground probability, (H, W); None if the network has more than one channel."""
        array = self.as_array(logits)
        if array.ndim == 2 or len(array) != 1:
            return None
        return read_probability(array, size, self.find_activation(size))

    def logits_array(self, logits: Any) -> NDArray[np.float32] | None:
        """Return the logits as numpy (h, w, C), for blending; None if the network gives only labels."""
        array = self.as_array(logits)
        return np.ascontiguousarray(array.transpose(1, 2, 0), np.float32) if array.ndim == 3 else None

    def cost(
        self, size: tuple[int, int], level: Level, keep: tuple[bool, ...], scale: float, masked: bool
    ) -> Cost | None:
        """Count the operations for a frame of that size and level; None if they cannot be counted."""
        return Cost() if level is Level.CARRY else None

    def find_activation(self, size: tuple[int, int]) -> str:
        """Find whether a single channel holds logits or probability: as stated, else from a test image of that size.

        The answer is found once and never changes, so that a frame's result does not depend on the frames before it.
        """
        if self.activation is None:
            with _choosing:
                if self.activation is None:
                    found = self.foreground.activation or self._try_activation(size)
                    how = f"foreground above {self.threshold:g}: {found}"
                    if self.foreground.activation is None:
                        how += ", as its values on a test image are; state it with activation if they mislead"
                    self.notes = (*self.notes, f"one channel, {how}")
                    self.activation = found
        return self.activation

    def _try_activation(self, size: tuple[int, int]) -> str:
        array = self._run_test_image(make_test_image(size))
        found = guess_activation(array)
        if found is not None:
            return found
        for gray in (0, 128, 255):  # foreground logits may all be above 0 on one image, but not on each
            if guess_activation(self._run_test_image(np.full((*size, 3), gray, np.uint8))) == "logits":
                return "logits"
        raise ModelError(
            f"the network gives one channel of numbers from {array.min():.3g} to {array.max():.3g} on a test image, "
            "neither logits nor probability: it looks like depth or another measure, which cannot be shown as "
            "labels; if it is foreground, state activation: logits or probability"
        )

    def _run_test_image(self, image: Image) -> NDArray[Any]:
        try:
            return self.as_array(self.full(self.prepare(image)).logits)
        except StmgError:
            raise
        except Exception as error:  # whatever the user's own code raises
            size = f"{image.shape[0]}x{image.shape[1]}"
            why = f"it fails on a test image of {size}: {first_line(error)}"
            raise ModelError(f"state with activation whether the network gives logits or probability; {why}") from error
