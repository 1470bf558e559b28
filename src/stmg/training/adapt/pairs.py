"""Pairs to learn from: a frame, an earlier or later one warped onto it, and what the network says of the frame."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stmg.errors import SettingsError
from stmg.streaming.anchors import (
    Anchor,
    Between,
    Side,
    carry_corrected,
    compute_anchor,
    correct_between,
    view_between,
)
from stmg.streaming.correction import Corrector, shrink_view, view_warped
from stmg.streaming.cost import Cost
from stmg.streaming.flow import Flow, Map, compose, invert
from stmg.streaming.motion import refine_flow
from stmg.streaming.runtime import Runtime
from stmg.training.adapt.clips import Clip, ClipSource
from stmg.video.frames import Frame, Image
from stmg.video.labels import Labels

COMPUTED = 4  # frames of a clip that the network computes: ten pairs come of them
STORE_BYTES, MOST_PAIRS = 1.5e9, 4000


class Pair(NamedTuple):
    """What a corrector is given, and what it should say."""

    image: Image
    before: Image
    warped: NDArray[np.float32]
    teacher: NDArray[np.float32]


class Watching:
    """Stands for a corrector that is not there yet: anchors then keep what it will need."""

    between = True

    def __init__(self, num_classes: int) -> None:
        self.num_classes = num_classes

    def correct(self, image: Image, before: Image, logits: NDArray[np.float32]) -> tuple[NDArray[np.float32], Map]:
        return logits, np.zeros(logits.shape[:2], np.float32)

    def cost(self, size: tuple[int, int]) -> Cost:
        return Cost()


def count_classes(runtime: Runtime, source: ClipSource) -> int:
    """The number of classes of a network, found by running it where it does not say."""
    if runtime.num_classes is not None:
        return max(2, runtime.num_classes)
    image = source.videos[0].image(0, source.size)
    array = runtime.logits_array(runtime.full(runtime.prepare(image)).logits)
    if array is None:
        raise SettingsError("the network gives labels alone and does not say how many classes: it cannot be adapted")
    return max(2, int(array.shape[2]))


class Case(NamedTuple):
    """A frame of a clip and the computed ones that it may take its labels from: one before it, or one on each side."""

    image: Image
    truth: Anchor
    """What the network says of the frame."""
    sides: tuple[Side, ...]


def find_cases(clip: Clip, runtime: Runtime, watching: Corrector, rng: np.random.Generator) -> Iterator[Case]:
    """All cases between some frames of a clip, its first among them."""
    others = rng.choice(np.arange(1, len(clip.images)), min(COMPUTED, len(clip.images)) - 1, replace=False)
    at = [0, *sorted(int(index) for index in others)]
    anchors = {index: compute_anchor(runtime, Frame(clip.images[index]), watching) for index in at}

    def side(moving: Clip, frame: int, source: int) -> Side:
        return Side(anchors[source], find_flow(moving, frame, source), abs(frame - source))

    for before, frame in combinations(at, 2):
        yield Case(clip.images[frame], anchors[frame], (side(clip, frame, before),))
    offline = clip.for_offline()
    for before, frame, after in combinations(at, 3):
        yield Case(clip.images[frame], anchors[frame], (side(offline, frame, before), side(offline, frame, after)))


def carry_case(case: Case, corrector: Corrector | None) -> Labels:
    """The labels that a stream would show of the frame."""
    if len(case.sides) == 2:
        return correct_between(corrector, Between(*case.sides, case.image)).labels
    (side,) = case.sides
    return carry_corrected(corrector, side.anchor, side.flow, case.image)[0].labels


def find_flow(clip: Clip, start: int, end: int) -> Flow | None:
    """From one frame of a clip to another, composed and refined as a stream does it."""
    total: Flow | None = None
    if end < start:
        for index in range(end, start):
            total = compose(total, clip.flows[index])
    else:
        for index in range(end - 1, start - 1, -1):
            total = compose(total, invert(clip.flows[index]))
    return refine_flow(clip.motion, total, clip.views[end], clip.views[start], abs(end - start))


def make_pair(case: Case) -> Pair:
    """A case as a corrector sees it."""
    truth = case.truth.evidence
    assert truth is not None
    if len(case.sides) == 2:
        frame, small = Between(*case.sides, case.image), shrink_view(case.image)
        view = view_between(frame, small, frame.weigh(small))
    else:
        (side,) = case.sides
        assert side.anchor.evidence is not None
        view = view_warped(side.anchor.evidence, side.flow, case.image)
    return Pair(*view, truth.logits)


class PairStore:
    """Pairs in files of a folder, so that memory stays free and an interrupted run goes on; the oldest make room."""

    def __init__(self, folder: Path, capacity: int, example: Pair) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.capacity = capacity
        paths = [folder / f"{name}.npy" for name in example._fields]
        new = [path for path in paths if not path.is_file()]
        self.is_new = bool(new)
        try:
            self._arrays = [
                _open_array(path, (capacity, *value.shape), _stored_type(value))
                for path, value in zip(paths, example._asdict().values(), strict=True)
            ]
        except OSError:  # a full disk is not to stay full
            for path in new:
                path.unlink(missing_ok=True)
            raise

    def put(self, number: int, pair: Pair) -> None:
        for array, value in zip(self._arrays, pair, strict=True):
            array[number % self.capacity] = value

    def draw(self, number: int, batch: int, rng: np.random.Generator) -> list[Tensor]:
        """Some of the `number` pairs that were put, half of the times mirrored."""
        kept = min(number, self.capacity)
        chosen = rng.choice(kept, batch, replace=kept < batch)
        flipped = rng.random() < 0.5
        tensors = []
        for array in self._arrays:
            values = array[np.sort(chosen)]
            values = values[:, :, ::-1] if flipped else values
            tensor = torch.from_numpy(np.ascontiguousarray(values))
            tensors.append(tensor if values.dtype == np.uint8 else tensor.float().permute(0, 3, 1, 2))
        return tensors


def open_store(folder: Path, example: Pair, batch: int, pairs: int | None) -> PairStore:
    """A store of as many pairs as were chosen, if that is not beyond what a disk should hold; of a batch at least."""
    taken = sum(value.size * np.dtype(_stored_type(value)).itemsize for value in example)
    capacity = max(batch, int(STORE_BYTES / taken))
    return PairStore(folder, min(capacity, pairs or capacity, MOST_PAIRS), example)


def _stored_type(value: NDArray[Any]) -> type[np.generic]:
    return np.uint8 if value.dtype == np.uint8 else np.float16


def _open_array(path: Path, shape: tuple[int, ...], dtype: type[np.generic]) -> NDArray[Any]:
    if path.is_file():
        try:
            array = np.lib.format.open_memmap(path, mode="r+")
            if array.shape == shape and array.dtype == dtype:
                return array
        except ValueError:
            pass
        raise SettingsError(f"{path} holds other pairs; remove {path.parent.parent} to begin anew")
    array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    _reserve(path)
    return array


def _reserve(path: Path) -> None:
    """Take the disk's blocks now: a mapped file that finds the disk full later ends the process without a word."""
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
