"""Pairs that a corrector learns from: a frame, another one warped onto it, and the network's logits of the frame."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stmg.errors import SettingsError
from stmg.files import build_from_file, read_mapping, write_atomically
from stmg.streaming.anchors import Anchor, carry_corrected, compute_anchor
from stmg.streaming.blending import BlendInput, Side, correct_between
from stmg.streaming.correction import Corrector, halve_image, warp_corrector_input
from stmg.streaming.cost import Cost
from stmg.streaming.flow import Flow, Map, compose, invert
from stmg.streaming.motion import refine_flow
from stmg.streaming.runtime import Runtime
from stmg.training.processes import defer_interrupt
from stmg.training.unlabeled import UnlabeledClip, UnlabeledClips
from stmg.video.frames import Frame, Image
from stmg.video.labels import Labels

COMPUTED_FRAMES = 4  # frames of a clip that the network computes; they give ten pairs
MAX_STORE_BYTES, MAX_PAIRS = 1.5e9, 4000
MIN_CLIPS_TO_PLAN = 4  # number of clips after which the number of pairs is planned, by the time they took
RECORD = "collected.json"


class Pair(NamedTuple):
    """The inputs of a corrector, and its target logits."""

    image: Image
    before: Image
    warped: NDArray[np.float32]
    teacher: NDArray[np.float32]


class IdentityCorrector:
    """Corrects nothing. It makes anchors keep the inputs of a corrector."""

    between = True

    def __init__(self, num_classes: int) -> None:
        self.num_classes = num_classes

    def correct(self, image: Image, before: Image, logits: NDArray[np.float32]) -> tuple[NDArray[np.float32], Map]:
        return logits, np.zeros(logits.shape[:2], np.float32)

    def cost(self, size: tuple[int, int]) -> Cost:
        return Cost()


def count_classes(runtime: Runtime, clips: UnlabeledClips) -> int:
    """Number of classes of a network, found by running it if the runtime does not know."""
    if runtime.num_classes is not None:
        return max(2, runtime.num_classes)
    image = clips.read(clips.videos[0], 0)
    array = runtime.logits_array(runtime.full(runtime.prepare(image)).logits)
    if array is None:
        raise SettingsError(
            "the network returns only labels, not its number of classes, so it cannot be adapted; give one with logits"
        )
    return max(2, int(array.shape[2]))


class Case(NamedTuple):
    """A frame of a clip and the computed frames that its labels come from: one before it, or one on each side."""

    image: Image
    truth: Anchor
    """The network's own result for the frame."""
    sides: tuple[Side, ...]


def find_cases(clip: UnlabeledClip, runtime: Runtime, num_classes: int, rng: np.random.Generator) -> Iterator[Case]:
    """Yield all cases between some frames of a clip, including its first frame."""
    others = rng.choice(np.arange(1, len(clip.images)), min(COMPUTED_FRAMES, len(clip.images)) - 1, replace=False)
    at = [0, *sorted(int(index) for index in others)]
    corrector = IdentityCorrector(num_classes)
    anchors = {index: compute_anchor(runtime, Frame(clip.images[index]), corrector) for index in at}

    def side(moving: UnlabeledClip, frame: int, source: int) -> Side:
        return Side(anchors[source], find_flow(moving, frame, source), abs(frame - source))

    for before, frame in combinations(at, 2):
        yield Case(clip.images[frame], anchors[frame], (side(clip, frame, before),))
    offline = clip.for_offline()
    for before, frame, after in combinations(at, 3):
        yield Case(clip.images[frame], anchors[frame], (side(offline, frame, before), side(offline, frame, after)))


def carry_case(case: Case, corrector: Corrector | None) -> Labels:
    """The labels that a stream would show for the frame."""
    if len(case.sides) == 2:
        return correct_between(corrector, BlendInput(*case.sides, case.image)).labels
    (side,) = case.sides
    return carry_corrected(corrector, side.anchor, side.flow, case.image).labels


def find_flow(clip: UnlabeledClip, start: int, end: int) -> Flow | None:
    """Flow from one frame of a clip to another, composed and refined as in a stream."""
    total: Flow | None = None
    if end < start:
        for index in range(end, start):
            total = compose(total, clip.flows[index])
    else:
        for index in range(end - 1, start - 1, -1):
            total = compose(total, invert(clip.flows[index]))
    return refine_flow(clip.motion, total, clip.views[end], clip.views[start], abs(end - start))


def make_pair(case: Case) -> Pair:
    """The pair that a corrector sees in a case."""
    truth = case.truth.reference
    assert truth is not None
    if len(case.sides) == 2:
        frame, small = BlendInput(*case.sides, case.image), halve_image(case.image)
        view = frame.corrector_input(small, frame.weigh(small))
    else:
        (side,) = case.sides
        assert side.anchor.reference is not None
        view = warp_corrector_input(side.anchor.reference, side.flow, case.image)
    return Pair(*view, truth.logits)


class PairStore:
    """Pairs in files: memory stays free, and an interrupted run can resume. New pairs replace the oldest.

    Disk space for all pairs is reserved at the start.
    """

    def __init__(self, folder: Path, capacity: int, example: Pair) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.capacity = capacity
        paths = [folder / f"{name}.npy" for name in example._fields]
        new = [path for path in paths if not path.is_file()]
        self.is_new = bool(new)
        try:
            self._arrays = [
                _open_array(path, (capacity, *value.shape), _stored_dtype(value))
                for path, value in zip(paths, example._asdict().values(), strict=True)
            ]
        except OSError:  # do not leave a full disk behind
            for path in new:
                path.unlink(missing_ok=True)
            raise

    def put(self, number: int, pair: Pair) -> None:
        for array, value in zip(self._arrays, pair, strict=True):
            array[number % self.capacity] = value

    def sample(self, number: int, batch: int, rng: np.random.Generator) -> list[Tensor]:
        """Sample a batch of the `number` pairs that were put, flipped half of the time."""
        available = min(number, self.capacity)
        chosen = rng.choice(available, batch, replace=available < batch)
        flipped = rng.random() < 0.5
        tensors = []
        for array in self._arrays:
            values = array[np.sort(chosen)]
            values = values[:, :, ::-1] if flipped else values
            tensor = torch.from_numpy(np.ascontiguousarray(values))
            tensors.append(tensor if values.dtype == np.uint8 else tensor.float().permute(0, 3, 1, 2))
        return tensors


class Collected(NamedTuple):
    """Progress of the collection of pairs."""

    clips: int = 0
    pairs: int = 0
    planned: int = 0
    """Number of pairs to collect; 0 if not yet known."""
    steps: int = 0
    """Number of steps to train on them; 0 if not yet known."""
    seconds: float = 0.0


class PairCollector:
    """Collects pairs in a folder, a given number or as many as the time allows. Resumes an interrupted collection.

    pairs: number of pairs. None: as many as fit into `seconds`.
    """

    def __init__(
        self,
        clips: UnlabeledClips,
        runtime: Runtime,
        num_classes: int,
        folder: Path,
        *,
        batch: int,
        pairs: int | None,
        seconds: float,
        seed: int,
    ) -> None:
        self.clips, self.runtime, self.num_classes, self.folder = clips, runtime, num_classes, folder
        self.batch, self.wanted, self.budget, self.seed = batch, pairs, seconds, seed
        self.record = Collected(planned=pairs or 0)
        self._store: PairStore | None = None
        path = folder / RECORD
        if path.is_file():
            self.record = build_from_file(Collected, read_mapping(path, SettingsError), path, SettingsError)
        self._started = time.perf_counter() - self.record.seconds

    @property
    def store(self) -> PairStore:
        assert self._store is not None
        return self._store

    @property
    def num_kept(self) -> int:
        """Number of pairs to learn from."""
        return min(self.record.pairs, self.store.capacity)

    @property
    def seconds(self) -> float:
        """Time taken so far, including earlier parts of an interrupted run."""
        return time.perf_counter() - self._started

    def collect(self, on_progress: Callable[[int, int | None], None]) -> None:
        """Collect the missing pairs. `on_progress` is called with the number so far, and the number planned."""
        if self.record.pairs and self._open_store(make_pair(next(self._find_cases(0)))).is_new:
            raise SettingsError(f"some files of {self.folder} are gone; remove {self.folder.parent} to start over")
        with defer_interrupt() as interruption:
            while not self.record.planned or self.record.pairs < self.record.planned:
                pairs = [make_pair(case) for case in self._find_cases(self.record.clips)]
                for number, pair in enumerate(pairs, self.record.pairs):
                    self._open_store(pair).put(number, pair)
                counts = {"clips": self.record.clips + 1, "pairs": self.record.pairs + len(pairs)}
                self.record = self.record._replace(**counts)
                if not self.record.planned and self.record.clips >= MIN_CLIPS_TO_PLAN:
                    self._plan()
                on_progress(self.record.pairs, self.record.planned or None)
                self.save()
                if interruption.is_set():
                    raise KeyboardInterrupt

    def save(self, steps: int = 0) -> None:
        """Write the progress, and the number of planned steps."""
        self.record = self.record._replace(steps=steps, seconds=self.seconds)
        write_atomically(self.folder / RECORD, json.dumps(self.record._asdict()).encode())

    def _find_cases(self, number: int) -> Iterator[Case]:
        rng = np.random.default_rng((self.seed, number, 2))
        return find_cases(self.clips.get(number), self.runtime, self.num_classes, rng)

    def _open_store(self, example: Pair) -> PairStore:
        if self._store is None:
            size = sum(value.size * np.dtype(_stored_dtype(value)).itemsize for value in example)
            capacity = max(self.batch, int(MAX_STORE_BYTES / size))
            self._store = PairStore(self.folder, min(capacity, self.wanted or capacity, MAX_PAIRS), example)
            self.record = self.record._replace(planned=min(self.record.planned, self._store.capacity))
        return self._store

    def _plan(self) -> None:
        """Plan as many pairs as the time allows, by the time they have taken so far."""
        possible = math.ceil(self.budget * self.record.pairs / self.seconds)
        planned = max(self.record.pairs, min(self.store.capacity, possible))
        self.record = self.record._replace(planned=planned)


def _stored_dtype(value: NDArray[Any]) -> type[np.generic]:
    return np.uint8 if value.dtype == np.uint8 else np.float16


def _open_array(path: Path, shape: tuple[int, ...], dtype: type[np.generic]) -> NDArray[Any]:
    if path.is_file():
        try:
            array = np.lib.format.open_memmap(path, mode="r+")
            if array.shape == shape and array.dtype == dtype:
                return array
        except ValueError:
            pass
        raise SettingsError(f"{path} holds other pairs; remove {path.parent.parent} to start over")
    array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    _reserve(path)
    return array


def _reserve(path: Path) -> None:
    """Reserve the disk's blocks now: if the disk fills up later, a mapped file ends the process without a message."""
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
