"""The stage of `adapt`: a corrector, trained on pairs of frames and checked on clips that were held out."""

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
WRONG_WEIGHT = 3.0  # how much more a cell counts where the warped labels are wrong, or next to it
GAIN, TINT, SHIFT = 0.25, 0.08, 20.0  # how far colors are changed: contrast, each channel of it, brightness in levels
DEFAULT_SHAPE = Shape(32, 5, 1)  # of the corrector of a network whose cost is not known
MAX_CHANGE_LEFT = 0.98  # of the change without a corrector; one that leaves more is no help


def corrector_optimizer(learning_rate: float) -> Optimizer:
    """How a corrector is trained; its encoder, which starts from ImageNet, at a quarter of the rate."""
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
    """Pairs of one size, on one device."""

    image: Tensor
    """(N, H, W, 3), from 0 to 255."""
    before: Tensor
    """(N, H, W, 3): another frame, warped onto it."""
    warped: Tensor
    """(N, C, h, w): its logits, warped."""
    teacher: Tensor
    """(N, C, h, w): the network's logits of the image."""


class CorrectorTraining(TrainingModule):
    """The losses of a corrector: how far its logits are from the teacher's."""

    network: Corrector

    def forward(self, batch: PairBatch) -> Losses:
        """Also `wrong`, the share of cells whose best class is still another than the teacher's."""
        teacher = batch.teacher
        wrong = (batch.warped.argmax(1) != teacher.argmax(1)).float()
        weight = 1 + WRONG_WEIGHT * F.max_pool2d(wrong[:, None], 3, 1, 1)[:, 0]
        logits, _ = self.network(batch.image, batch.before, batch.warped)
        divergence = F.kl_div(logits.log_softmax(1), teacher.softmax(1), reduction="none").sum(1)
        still_wrong = (logits.argmax(1) != teacher.argmax(1)).float().mean()
        return {"loss": (weight * divergence).mean(), "wrong": still_wrong}


class Difference(NamedTuple):
    """Shares of the pixels on which labels differ from the network's."""

    uncorrected: float = 0.0
    """With motion alone."""
    corrected: float = 0.0

    @property
    def is_less(self) -> bool:
        """Whether the corrector helps."""
        return self.corrected < MAX_CHANGE_LEFT * self.uncorrected


class Check(NamedTuple):
    """Figures of a corrector on clips that were held out."""

    clips: int
    carried: Difference
    """From one computed frame, as online and realtime."""
    between: Difference
    """From a computed frame on each side, as those that offline mode corrects."""

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
    """A corrector of carried frames, whose teacher is the whole network."""

    training: CorrectorTraining
    store: PairStore
    num_pairs: int
    """That were put into the store."""
    clips: UnlabeledClips
    runtime: Runtime
    batch: int
    seed: int
    num_checks: int
    """Clips held out to check it on, at most."""
    on_check: Callable[[int], None]
    """Called after each of them."""
    card: CorrectorCard
    """Its card; the check completes it."""

    def load_batches(self, fabric: Fabric, step: int, steps: int) -> Iterator[PairBatch]:
        for number in range(step, steps):
            rng = np.random.default_rng((self.seed, number, 3))
            image, before, warped, teacher = self.sample(rng, fabric.device)
            yield PairBatch(*vary_colors(image, before, rng), warped, teacher)

    def sample(self, rng: np.random.Generator, device: torch.device) -> PairBatch:
        """Some of the pairs, their colors as they are."""
        return PairBatch(*(tensor.to(device) for tensor in self.store.sample(self.num_pairs, self.batch, rng)))

    def evaluate(self, network: nn.Module, device: torch.device) -> Figures:
        """Compare with motion alone on clips that were held out."""
        assert isinstance(network, Corrector)
        corrector = TorchCorrector(network, device)
        differences: tuple[list[tuple[float, float]], list[tuple[float, float]]] = ([], [])  # by the number of sides
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
        """Write the corrector with its card; there is only one evaluation, so the last is the best."""
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
    """Change the colors of uint8 images (N, H, W, 3) as another hour or camera would; both images of a pair alike.

    What a network says of them hardly changes, and a few hundred frames look like many more.
    """
    number = len(image)
    gain = 1 + rng.uniform(-GAIN, GAIN, (number, 1, 1, 1)) + rng.uniform(-TINT, TINT, (number, 1, 1, 3))
    shift = 128 * (1 - gain) + rng.uniform(-SHIFT, SHIFT, (number, 1, 1, 1))
    factor, offset = (torch.from_numpy(values).to(image.device, torch.float32) for values in (gain, shift))
    changed, changed_before = ((each.float() * factor + offset).clamp(0, 255) for each in (image, before))
    return changed, changed_before


def make_corrector(num_classes: int, macs: float | None, size: tuple[int, int], start: Corrector | None) -> Corrector:
    """A corrector that costs at most `macs` at a frame size, where that is known: `start`, or one from ImageNet."""
    if start is not None:
        return check_start(start, num_classes, macs, size)
    corrector = Corrector(num_classes, DEFAULT_SHAPE if macs is None else fit_shape(macs, num_classes, size))
    corrector.start_from_imagenet()
    return corrector


def check_start(start: Corrector, num_classes: int, macs: float | None, size: tuple[int, int]) -> Corrector:
    """A corrector to go on from, if it is for so many classes and costs at most `macs`."""
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
    """The largest shape that costs at most `macs` at a frame size; the smallest if none does."""
    with torch.device("meta"):  # shapes alone
        fitting = [shape for shape in SHAPES if count_correction(Corrector(num_classes, shape), size) <= macs]
    return fitting[-1] if fitting else SHAPES[0]
