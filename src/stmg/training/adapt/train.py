"""Train a corrector: the whole network is the teacher, and where warping went wrong counts most."""

from __future__ import annotations

import copy
import math
import pickle
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch.optim.swa_utils import AveragedModel

from stmg.data.dataset import Video
from stmg.errors import SettingsError
from stmg.files import atomic_path
from stmg.models.tensor_files import write_state
from stmg.networks.corrector import Corrector
from stmg.runtimes.torch_corrector import TorchCorrector, count_correction
from stmg.segmenter import VideoSegmenter
from stmg.streaming.runtime import Runtime
from stmg.streaming.schedulers import Level
from stmg.training.adapt.check import Check, check_corrector
from stmg.training.adapt.clips import ClipSource
from stmg.training.adapt.learning import (
    check_start,
    correction_loss,
    group_parameters,
    make_corrector,
    one_cycle,
    vary_colors,
)
from stmg.training.adapt.pairs import Pair, PairStore, Watching, count_classes, find_cases, make_pair, open_store
from stmg.training.adapt.settings import AdaptSettings
from stmg.training.processes import defer_interrupt
from stmg.training.run_folder import STATE, Log
from stmg.training.schedule import moving_average

WATCHING = 0.45  # of the time: the rest is for training
PLANNED_AFTER = 4  # clips
AVERAGE = 0.99  # decay of the average of the weights
SAVE_EVERY, REPORT_EVERY = 100, 10


class Progress(NamedTuple):
    """How far it is."""

    what: str
    done: int
    total: int | None
    """None until it is known."""
    status: str = ""


class Adapted(NamedTuple):
    """A trained corrector."""

    module: Corrector
    size: tuple[int, int]
    macs: int
    share: float | None
    """Of the network's multiply-accumulates; None where those are not known."""
    check: Check
    seconds: float
    steps: int
    pairs: int


def train_corrector(
    segmenter: VideoSegmenter,
    videos: Sequence[Video],
    folder: Path,
    size: tuple[int, int],
    settings: AdaptSettings,
    device: torch.device,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    identity: str = "",
    start: Corrector | None = None,
) -> Adapted:
    """Train a corrector for a segmenter's network at its level of motion.

    folder: keeps what a later call goes on from, if the network has the same identity then.
    videos: the user's own; their labels, if there are any, are not looked at.
    start: a corrector to go on from, whose shape it then has; from ImageNet if not given.
    """
    started = time.perf_counter()
    runtime = segmenter.runtime
    source = ClipSource(
        videos, runtime, segmenter.settings.motion, size, settings.longest, settings.still_share, settings.seed
    )
    classes = count_classes(runtime, source)
    run = _Run(runtime, source, settings, classes, size, folder, device, identity, start)
    try:
        run.watch(on_progress)
        run.train(on_progress)
        check = run.check(on_progress)
    finally:
        run.close()
    seconds = run.spent + time.perf_counter() - started
    return Adapted(run.finished, size, run.macs, run.share, check, seconds, run.steps, run.num_kept)


class _Run:
    """A corrector on its way."""

    def __init__(
        self,
        runtime: Runtime,
        source: ClipSource,
        settings: AdaptSettings,
        classes: int,
        size: tuple[int, int],
        folder: Path,
        device: torch.device,
        identity: str,
        start: Corrector | None,
    ) -> None:
        self.runtime, self.source, self.settings, self.device = runtime, source, settings, device
        self.folder, self.size = folder, size
        self.subject = {
            "network": identity or runtime.description,
            "videos": [[video.name, len(video)] for video in source.videos],
            "size": list(size),
            "motion": source.motion.name,
        }
        self.watching = Watching(classes)
        cost = runtime.cost(size, Level.KEY, (True,) * runtime.num_blocks, 1.0, masked=False)
        torch.manual_seed(settings.seed)
        macs = None if cost is None else settings.cost * cost.macs
        first = make_corrector(classes, macs, size) if start is None else check_start(start, classes, macs, size)
        self.module = first.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.macs = count_correction(self.module, size)
        self.share = None if cost is None else self.macs / cost.macs
        self.average = AveragedModel(self.module, multi_avg_fn=moving_average(AVERAGE), use_buffers=True)
        self.optimizer = torch.optim.AdamW(group_parameters(self.module), weight_decay=1e-2)
        self.num_pairs = self.num_clips = self.step = 0
        self.steps, self.pairs = settings.steps or 0, settings.pairs or 0
        self.spent = 0.0
        self._begun = time.perf_counter()
        self._store: PairStore | None = None
        self._resume()
        self.log = Log(folder, self.step)

    def watch(self, on_progress: Callable[[Progress], None]) -> None:
        """Collect pairs: as many as the time allows."""
        with defer_interrupt() as interrupted:
            while not self.pairs or self.num_pairs < self.pairs:
                rng = np.random.default_rng((self.settings.seed, self.num_clips, 2))
                cases = find_cases(self.source.get(self.num_clips), self.runtime, self.watching, rng)
                found = [make_pair(case) for case in cases]
                for pair in found:
                    self._open_store(pair).put(self.num_pairs, pair)
                    self.num_pairs += 1
                self.num_clips += 1
                if not self.pairs and self.num_clips >= PLANNED_AFTER:
                    self._plan_pairs()
                on_progress(Progress("watching", self.num_pairs, self.pairs or None))
                self._save_if(self.num_clips % SAVE_EVERY == 0, interrupted)

    def train(self, on_progress: Callable[[Progress], None]) -> None:
        """Learn from the pairs, at a rate that rises and falls once."""
        store = self._store
        assert store is not None
        self._plan_steps(store)
        self.module.train()
        with defer_interrupt() as interrupted:
            for step in range(self.step, self.steps):
                rng = np.random.default_rng((self.settings.seed, step, 3))
                tensors = [tensor.to(self.device) for tensor in store.draw(self.num_pairs, self.settings.batch, rng)]
                for group in self.optimizer.param_groups:
                    group["lr"] = group["share"] * self.settings.learning_rate * one_cycle(step / self.steps)
                image, before, warped, teacher = tensors
                loss, left = correction_loss(self.module, *vary_colors(image, before, rng), warped, teacher)
                self.optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(self.module.parameters(), 5.0)
                self.optimizer.step()
                self.average.update_parameters(self.module)
                self.step = step + 1
                if self.step % REPORT_EVERY == 0 or self.step == self.steps:
                    self.log.add_values("adapt", {"loss": loss.item(), "wrong": left.item()}, self.step)
                    on_progress(Progress("training", self.step, self.steps, f"loss {loss.item():.3f}"))
                self._save_if(self.step % SAVE_EVERY == 0 or self.step == self.steps, interrupted)

    def check(self, on_progress: Callable[[Progress], None]) -> Check:
        """Compare with motion alone on what was held out."""
        number, seed = self.settings.checks, self.settings.seed
        return check_corrector(
            TorchCorrector(self.finished, self.device),
            self.source,
            self.runtime,
            number,
            seed,
            lambda done: on_progress(Progress("checking", done, number)),
        )

    @property
    def finished(self) -> Corrector:
        """The average of the weights."""
        module = self.average.module
        assert isinstance(module, Corrector)
        return module.eval()

    def _save_if(self, is_due: bool, interrupted: threading.Event) -> None:
        if is_due or interrupted.is_set():
            self.save()
        if interrupted.is_set():
            raise KeyboardInterrupt

    def save(self) -> None:
        """What a later run goes on from."""
        state = {
            "settings": asdict(self.settings),
            "subject": self.subject,
            "module": self.module.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "counts": [self.num_pairs, self.num_clips, self.step, self.steps, self.pairs],
            "spent": self.seconds,
        }
        with atomic_path(self.folder / STATE) as part:
            write_state(state, part)

    def close(self) -> None:
        self.log.close()

    def _resume(self) -> None:
        path = self.folder / STATE
        self.folder.mkdir(parents=True, exist_ok=True)
        if not path.is_file():
            return
        try:
            state = torch.load(path, map_location=self.device, weights_only=True)
            same = state["settings"] == asdict(self.settings) and state["subject"] == self.subject
        except (KeyError, RuntimeError, pickle.UnpicklingError, EOFError, TypeError):
            raise SettingsError(f"{path} is damaged; remove it to begin anew") from None
        if not same:
            raise SettingsError(
                f"{self.folder} is of other settings, videos or another model; give the same, or another folder"
            )
        try:
            self.module.load_state_dict(state["module"])
            self.average.load_state_dict(state["average"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.num_pairs, self.num_clips, self.step, self.steps, self.pairs = state["counts"]
            self.spent = float(state["spent"])
        except (KeyError, RuntimeError, ValueError):
            raise SettingsError(f"{path} is of another model; remove it to begin anew") from None
        if self.num_pairs:
            rng = np.random.default_rng((self.settings.seed, 0, 2))
            case = next(iter(find_cases(self.source.get(0), self.runtime, self.watching, rng)))
            if self._open_store(make_pair(case)).is_new:
                raise SettingsError(f"{self.folder / 'pairs'} is gone; remove {path} to begin anew")

    def _open_store(self, example: Pair) -> PairStore:
        if self._store is None:
            self._store = open_store(self.folder / "pairs", example, self.settings.batch, self.settings.pairs)
            self.pairs = min(self.pairs, self._store.capacity)  # more could not be kept
        return self._store

    @property
    def num_kept(self) -> int:
        """Pairs that it learned from."""
        return self.num_pairs if self._store is None else min(self.num_pairs, self._store.capacity)

    @property
    def seconds(self) -> float:
        """That the run has taken so far, with those before it was resumed."""
        return self.spent + time.perf_counter() - self._begun

    def _plan_pairs(self) -> None:
        """How many pairs the time allows, from how long they took until now."""
        assert self._store is not None
        seconds = WATCHING * 60 * self.settings.minutes
        possible = math.ceil(seconds * self.num_pairs / self.seconds)
        self.pairs = max(self.num_pairs, min(self._store.capacity, possible))

    def _plan_steps(self, store: PairStore) -> None:
        """How many steps the time allows that is left, but for the check: a clip of it takes about as one watched."""
        if self.steps:
            return
        module = copy.deepcopy(self.module).train()
        rng, times = np.random.default_rng(0), []
        for _ in range(3):
            started = time.perf_counter()
            tensors = [tensor.to(self.device) for tensor in store.draw(self.num_pairs, self.settings.batch, rng)]
            correction_loss(module, *tensors)[0].backward()  # type: ignore[no-untyped-call]
            times.append(time.perf_counter() - started)
        checking = self.settings.checks * self.seconds / max(1, self.num_clips)
        left = 60 * self.settings.minutes - self.seconds - checking
        self.steps = max(50, math.ceil(0.9 * left / min(times)))
