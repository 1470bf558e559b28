"""A run of `adapt`: collect pairs, train a corrector on them, and check it, within the given time."""

from __future__ import annotations

import copy
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from stmg.data.dataset import Video
from stmg.errors import DataError, SettingsError, require
from stmg.models.correctors import GraphModel, describe_corrector
from stmg.networks.corrector import Corrector
from stmg.segmenter import VideoSegmenter
from stmg.streaming.schedulers import Level
from stmg.training.corrector import (
    EMA_DECAY,
    Check,
    CorrectorStage,
    CorrectorTraining,
    corrector_optimizer,
    make_corrector,
)
from stmg.training.pairs import RECORD, PairCollector, count_classes
from stmg.training.processes import Machines
from stmg.training.run_folder import RECIPE, STATE, claim_folder
from stmg.training.trainer import StepReport, Trainer
from stmg.training.unlabeled import UnlabeledClips

PAIRS = "pairs"  # folder of the pairs, inside the folder of the run
COLLECTING = 0.45  # share of the time; the rest is for training
SAVE_EVERY = 100  # steps
MIN_STEPS = 50  # even if the time is too short


@dataclass(frozen=True, kw_only=True)
class AdaptSettings:
    """Settings of `adapt`."""

    cost: float = 0.05
    """Maximum MACs of the corrector relative to the network's."""
    minutes: float = 15.0
    """Approximate duration. It determines steps and pairs if they are not given."""
    longest: int = 8
    """Maximum number of frames between the frames of a pair."""
    still_share: float = 0.5
    """Share of the clips that are stills set in motion."""
    steps: int | None = None
    pairs: int | None = None
    """Number of pairs to learn from. The default is limited by the time, 1.5 GB and 4000 pairs."""
    batch: int = 16
    learning_rate: float = 2e-3
    seed: int = 0
    checks: int = 40
    """Number of held-out clips on which the corrector is compared with motion alone."""

    def __post_init__(self) -> None:
        require(0 < self.cost <= 1, "cost is above 0 and at most 1", self.cost)
        require(self.minutes > 0, "minutes is above 0", self.minutes)
        require(self.longest >= 2, "longest is at least 2", self.longest)
        require(0 <= self.still_share <= 1, "still_share is from 0 to 1", self.still_share)


class VideoLength(NamedTuple):
    name: str
    frames: int


@dataclass(frozen=True)
class AdaptRun:
    """Description of a run. Only a run with an equal description is resumed."""

    settings: AdaptSettings
    network: str
    videos: tuple[VideoLength, ...]
    size: tuple[int, int]
    motion: str


class PhaseReport(NamedTuple):
    """Progress of one phase: watching videos, training, checking."""

    phase: str
    done: int
    total: int | None
    """None until it is known."""
    status: str = ""


OnPhase = Callable[[PhaseReport], None]


class Adapted(NamedTuple):
    """A trained corrector. It is written only if the check shows that it helps."""

    module: Corrector
    size: tuple[int, int]
    motion: str
    macs: int
    share: float | None
    """MACs relative to the network's; None if those are unknown."""
    check: Check
    seconds: float
    steps: int
    pairs: int
    has_model: bool = False
    """True if the folder also holds the model; otherwise use the folder with `corrector=`."""


def train_corrector(
    segmenter: VideoSegmenter,
    videos: Sequence[Video],
    folder: Path,
    settings: AdaptSettings,
    device: torch.device,
    on_progress: OnPhase = lambda report: None,
    identity: str = "",
    *,
    start: Corrector | None = None,
    name: str = "",
    graph: GraphModel | None = None,
) -> Adapted:
    """Train a corrector for a segmenter's network, at its level of motion and at the size of most frames.

    videos: the user's own. Labels are not used.
    folder: of the run. A later call resumes it if the network has the same identity.
    start: a corrector to train further, which keeps its shape. Default: start from ImageNet.
    name, graph: of the model, for the card.
    """
    runtime, motion, seed = segmenter.runtime, segmenter.settings.motion, settings.seed
    fabric = Machines(device=str(device)).make_fabric()

    def size_for(source: tuple[int, int]) -> tuple[int, int]:
        return segmenter.size_for(source) or source

    size = find_size(videos, size_for)
    clips = UnlabeledClips(videos, runtime, motion, size, settings.longest, settings.still_share, seed, size_for)
    num_classes = count_classes(runtime, clips)
    cost = runtime.cost(size, Level.KEY, (True,) * runtime.num_blocks, 1.0, masked=False)
    torch.manual_seed(seed)
    corrector = make_corrector(num_classes, None if cost is None else settings.cost * cost.macs, size, start)
    lengths = tuple(VideoLength(video.name, len(video)) for video in clips.videos)
    _claim_folder(AdaptRun(settings, identity or runtime.description, lengths, size, motion.name), folder)
    collector = PairCollector(
        clips,
        runtime,
        num_classes,
        folder / PAIRS,
        batch=settings.batch,
        pairs=settings.pairs,
        seconds=60 * COLLECTING * settings.minutes,
        seed=seed,
    )
    collector.collect(lambda done, total: on_progress(PhaseReport("watching", done, total)))
    pairs = collector.num_kept
    notes = {"model": name, "frames": sum(map(len, clips.videos)), "pairs": pairs}
    stage = CorrectorStage(
        CorrectorTraining(corrector),
        collector.store,
        collector.record.pairs,
        clips,
        runtime,
        batch=settings.batch,
        seed=seed,
        num_checks=settings.checks,
        on_check=lambda done: on_progress(PhaseReport("checking", done, settings.checks)),
        card=describe_corrector(corrector, size, motion.name, between=True, graph=graph, notes=notes),
    )
    steps = settings.steps or collector.record.steps or _plan_steps(stage, collector, settings, device)
    collector.save(steps)
    trainer = Trainer(
        stage,
        fabric,
        folder,
        steps=steps,
        optimizer=corrector_optimizer(settings.learning_rate),
        seed=seed,
        ema_decay=EMA_DECAY,
        evaluate_every=steps,
        save_every=SAVE_EVERY,
        on_step=lambda report: on_progress(_describe_step(report)),
        minutes=collector.record.seconds / 60,
    )
    trainer.run()
    network, figures = trainer.network, trainer.record.figures
    assert isinstance(network, Corrector)
    assert figures is not None
    share = None if cost is None else stage.card.macs / cost.macs
    seconds = 60 * trainer.record.minutes
    check = Check.from_figures(figures)
    return Adapted(network, size, motion.name, stage.card.macs, share, check, seconds, steps, pairs)


def find_size(videos: Sequence[Video], size_for: Callable[[tuple[int, int]], tuple[int, int]]) -> tuple[int, int]:
    """The size at which a stream computes most frames of some videos."""
    frames: Counter[tuple[int, int]] = Counter()
    for video in videos:
        if len(video):
            height, width = video.image(0).shape[:2]
            frames[size_for((height, width))] += len(video)
    if not frames:
        raise DataError("there is no frame to adapt to")
    return frames.most_common(1)[0][0]


def _claim_folder(run: AdaptRun, folder: Path) -> None:
    begun = [path for path in (folder / STATE, folder / PAIRS) if path.exists()]
    if begun and not ((folder / PAIRS / RECORD).is_file() and (folder / RECIPE).is_file()):
        raise SettingsError(
            f"{folder} holds a run of another version, or a part of it is gone; remove {folder} to start over"
        )
    claim_folder(run, folder, begun=PAIRS)


def _plan_steps(stage: CorrectorStage, collector: PairCollector, settings: AdaptSettings, device: torch.device) -> int:
    """Number of steps in the remaining time, less the check, in which a clip takes about as long as in collecting."""
    module = copy.deepcopy(stage.training).to(device).train()
    rng, times = np.random.default_rng(0), []
    for _ in range(3):
        started = time.perf_counter()
        module(stage.sample(rng, device))["loss"].backward()
        times.append(time.perf_counter() - started)
    seconds = collector.seconds
    checking = settings.checks * seconds / max(1, collector.record.clips)
    left = 60 * settings.minutes - seconds - checking
    return max(MIN_STEPS, math.ceil(0.9 * left / min(times)))


def _describe_step(report: StepReport) -> PhaseReport:
    return PhaseReport("training", report.step, report.steps, f"loss {report.losses['loss']:.3f}")
