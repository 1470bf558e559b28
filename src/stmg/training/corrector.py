"""The stage of `adapt`: train a corrector on pairs of frames, and check it on held-out clips."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from stmg.errors import SettingsError
from stmg.models.correctors import CorrectorCard, save_corrector
from stmg.networks.corrector import SHAPES, Corrector, Shape
from stmg.runtimes.torch_corrector import TorchCorrector, count_correction
from stmg.streaming.audit import compare
from stmg.streaming.runtime import Runtime
from stmg.training.pairs import PairStore, carry_case, find_cases
from stmg.training.recipe import Optimizer
from stmg.training.stage import Figures, Losses, TrainingModule
from stmg.training.unlabeled import UnlabeledClips
from stmg.video.frames import Image

if TYPE_CHECKING:
    from lightning_fabric import Fabric

LAST = "last"  # the checkpoint in the folder of a run
EMA_DECAY = 0.99
WRONG_WEIGHT = 3.0  # extra weight of cells at or next to wrong warped labels
GAIN, TINT, SHIFT = 0.25, 0.08, 20.0  # strength of color changes: contrast, contrast per channel, brightness in levels
DEFAULT_SHAPE = Shape(32, 5, 1)  # shape of the corrector if the cost of the network is unknown
MAX_CHANGE_LEFT = 0.98  # a corrector helps if it leaves less than this share of the change


def corrector_optimizer(learning_rate: float) -> Optimizer:
    """Optimizer settings of a corrector. Its encoder, which starts from ImageNet, trains at a quarter of the rate."""
    return Optimizer(
        learning_rate=learning_rate,
        encoder=0.25,
        weight_decay=1e-2,
        decay_norms=True,
        schedule="cosine",
        warm_up=0.1,
        clip_gradient=5.0,
    )


class PairBatch(NamedTuple):
    """Pairs of one size on one device."""

    image: Tensor
    """(N, H, W, 3), from 0 to 255."""
    before: Tensor
    """(N, H, W, 3): another frame, warped onto the image."""
    warped: Tensor
    """(N, C, h, w): the logits of that frame, warped."""
    teacher: Tensor
    """(N, C, h, w): the network's logits of the image."""


class CorrectorTraining(TrainingModule):
    """Loss of a corrector: the divergence of its logits from the teacher's."""

    network: Corrector

    def forward(self, batch: PairBatch) -> Losses:
        """Also return `wrong`: the share of cells whose best class differs from the teacher's."""
        teacher = batch.teacher
        wrong = (batch.warped.argmax(1) != teacher.argmax(1)).float()
        weight = 1 + WRONG_WEIGHT * F.max_pool2d(wrong[:, None], 3, 1, 1)[:, 0]
        logits, _ = self.network(batch.image, batch.before, batch.warped)
        divergence = F.kl_div(logits.log_softmax(1), teacher.softmax(1), reduction="none").sum(1)
        still_wrong = (logits.argmax(1) != teacher.argmax(1)).float().mean()
        return {"loss": (weight * divergence).mean(), "wrong": still_wrong}


class Difference(NamedTuple):
    """Shares of the pixels at which labels differ from the network's."""

    uncorrected: float = 0.0
    """With motion alone."""
    corrected: float = 0.0

    @property
    def is_less(self) -> bool:
        """True if the corrector helps."""
        return self.corrected < MAX_CHANGE_LEFT * self.uncorrected


class Check(NamedTuple):
    """Results of a corrector on held-out clips."""

    clips: int
    carried: Difference
    """Carried from one computed frame, as in online and realtime."""
    between: Difference
    """Carried from a computed frame on each side, as in offline mode."""

    @property
    def helps(self) -> bool:
        return self.carried.is_less

    def figures(self) -> Figures:
        parts = {"carried": self.carried, "between": self.between}
        shares = {f"{part} {name}": value for part, pair in parts.items() for name, value in pair._asdict().items()}
        return {"clips": float(self.clips), **shares}

    @classmethod
    def from_figures(cls, figures: Figures) -> Check:
        carried, between = (
            Difference(*(figures[f"{part} {name}"] for name in Difference._fields)) for part in ("carried", "between")
        )
        return cls(int(figures["clips"]), carried, between)


@dataclass
class CorrectorStage:
    """A corrector for carried frames. Its teacher is the whole network."""

    training: CorrectorTraining
    store: PairStore
    num_pairs: int
    """Number of pairs put into the store."""
    clips: UnlabeledClips
    runtime: Runtime
    batch: int
    seed: int
    num_checks: int
    """Maximum number of held-out clips to check the corrector on."""
    on_check: Callable[[int], None]
    """Called after each of these clips."""
    card: CorrectorCard
    """Card of the corrector. The check completes it."""

    def load_batches(self, fabric: Fabric, step: int, steps: int) -> Iterator[PairBatch]:
        for number in range(step, steps):
            rng = np.random.default_rng((self.seed, number, 3))
            image, before, warped, teacher = self.sample(rng, fabric.device)
            yield PairBatch(*vary_colors(image, before, rng), warped, teacher)

    def sample(self, rng: np.random.Generator, device: torch.device) -> PairBatch:
        """Sample some of the pairs, with unchanged colors."""
        return PairBatch(*(tensor.to(device) for tensor in self.store.sample(self.num_pairs, self.batch, rng)))

    def evaluate(self, network: nn.Module, device: torch.device) -> Figures:
        """Compare with motion alone on held-out clips."""
        assert isinstance(network, Corrector)
        corrector = TorchCorrector(network, device)
        differences: tuple[list[tuple[float, float]], list[tuple[float, float]]] = ([], [])  # by number of sides
        num_clips = 0
        for number in range(self.num_checks):
            clip = self.clips.get_held_out(number)
            if clip is None:
                continue
            num_clips += 1
            rng = np.random.default_rng((self.seed, number, 4))
            for case in find_cases(clip, self.runtime, corrector.num_classes, rng):
                alone, corrected = (
                    compare(carry_case(case, which), case.truth.labels, 1).changed for which in (None, corrector)
                )
                differences[len(case.sides) - 1].append((alone, corrected))
            self.on_check(number + 1)
        carried, between = (
            Difference(*map(float, np.mean(each, axis=0))) if each else Difference() for each in differences
        )
        return Check(num_clips, carried, between).figures()

    def draw(self, network: nn.Module, device: torch.device) -> Image | None:
        return None

    def save(self, network: nn.Module, folder: Path, notes: Mapping[str, object], is_best: bool) -> None:
        """Write the corrector with its card. There is only one evaluation, so the last corrector is the best."""
        assert isinstance(network, Corrector)
        figures = notes["figures"]
        assert isinstance(figures, dict)
        check = Check.from_figures(figures)
        held_out = {
            "clips": check.clips,
            "carried": [round(share, 5) for share in check.carried],
            "between": [round(share, 5) for share in check.between],
        }
        card_notes = {**self.card.notes, "steps": notes["step"], "minutes": notes["minutes"], "held_out": held_out}
        card = replace(self.card, between=check.between.is_less, notes=card_notes)
        save_corrector(copy.deepcopy(network), card, folder / LAST)


def vary_colors(image: Tensor, before: Tensor, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Change the colors of uint8 images (N, H, W, 3) like another hour or camera. Both images of a pair change alike.

    The network's output hardly depends on such changes, so a few hundred frames stand for many more.
    """
    number = len(image)
    gain = 1 + rng.uniform(-GAIN, GAIN, (number, 1, 1, 1)) + rng.uniform(-TINT, TINT, (number, 1, 1, 3))
    shift = 128 * (1 - gain) + rng.uniform(-SHIFT, SHIFT, (number, 1, 1, 1))
    factor, offset = (torch.from_numpy(values).to(image.device, torch.float32) for values in (gain, shift))
    changed, changed_before = ((each.float() * factor + offset).clamp(0, 255) for each in (image, before))
    return changed, changed_before


def make_corrector(num_classes: int, macs: float | None, size: tuple[int, int], start: Corrector | None) -> Corrector:
    """`start`, or a corrector from ImageNet. It costs at most `macs` at a frame size, if that is known."""
    if start is not None:
        return check_start(start, num_classes, macs, size)
    corrector = Corrector(num_classes, DEFAULT_SHAPE if macs is None else fit_shape(macs, num_classes, size))
    corrector.start_from_imagenet()
    return corrector


def check_start(start: Corrector, num_classes: int, macs: float | None, size: tuple[int, int]) -> Corrector:
    """Return `start` if it has this number of classes and costs at most `macs`; otherwise raise."""
    if start.num_classes != num_classes:
        raise SettingsError(
            f"the corrector to go on from is for {start.num_classes} classes; the network has {num_classes}"
        )
    own = count_correction(start, size)
    if macs is not None and own > macs:
        raise SettingsError(
            f"the corrector to go on from takes {own / 1e9:.2f} GMACs per frame, and cost allows {macs / 1e9:.2f}; "
            "allow more"
        )
    return start


def fit_shape(macs: float, num_classes: int, size: tuple[int, int]) -> Shape:
    """The largest shape that costs at most `macs` at a frame size; the smallest if all cost more."""
    with torch.device("meta"):  # only shapes are needed
        fitting = [shape for shape in SHAPES if count_correction(Corrector(num_classes, shape), size) <= macs]
    return fitting[-1] if fitting else SHAPES[0]
