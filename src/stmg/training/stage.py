"""Stages of training: their protocol, and the common parts of those that learn from labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from stmg.data.catalogue import open_dataset
from stmg.data.clips import TrainingClip, TrainingClips, clip_numbers
from stmg.data.dataset import Dataset
from stmg.errors import ModelError, SettingsError, StmgError
from stmg.evaluation.accuracy import ConfusionMatrix
from stmg.gating.accelerate import AcceleratedNetwork
from stmg.gating.aggregation import NormalizeImage
from stmg.gating.mask_generator import MaskGenerator
from stmg.gating.optimize import fold_batch_norm
from stmg.gating.outputs import find_logits
from stmg.models.card import Card
from stmg.models.save import save as save_checkpoint
from stmg.models.torch_models import load_network
from stmg.training.losses import compute_class_weights, segmentation_loss, upsample
from stmg.training.processes import restore_error
from stmg.training.recipe import Loss, Recipe
from stmg.video.frames import Image
from stmg.video.normalization import IMAGENET_MEAN, IMAGENET_STD, Normalization

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Losses = dict[str, Tensor]
"""`loss`, which is minimized, and its parts by name."""
Figures = dict[str, float]
"""Results on held-out data. The weights with the highest `score` are the best."""
Module = TypeVar("Module", bound=nn.Module)


class TrainingModule(nn.Module):
    """A network with its loss: called with a batch, it returns its `Losses`."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network


class Stage(Protocol):
    """A stage of training."""

    @property
    def training(self) -> TrainingModule:
        """The module to train. `training.network` is trained, averaged and saved."""

    def load_batches(self, fabric: Fabric, step: int, steps: int) -> Iterator[Any]:
        """Yield this process's part of each batch from `step` on, as named tuples of tensors on its device."""

    def evaluate(self, network: nn.Module, device: torch.device) -> Figures:
        """Evaluate `training.network`, or an average of it, on held-out data."""

    def draw(self, network: nn.Module, device: torch.device) -> Image | None:
        """Draw results of the network; None if there is no frame to show."""

    def save(self, network: nn.Module, folder: Path, notes: Mapping[str, object], is_best: bool) -> None:
        """Write the checkpoint `last` of a network that was just evaluated; also `best` if it is the best."""


class SegmentationTraining(TrainingModule):
    """A network that learns from labels. Frozen networks move with it between devices, but are not trained or saved."""

    def __init__(self, network: nn.Module, loss: Loss, class_weights: Tensor | None, teacher: nn.Module | None) -> None:
        super().__init__(network)
        self.loss = loss
        self.normalize = NormalizeImage(IMAGENET_MEAN, IMAGENET_STD)
        self.class_weights: Tensor | None
        self.register_buffer("class_weights", class_weights, persistent=False)
        # A list hides them from PyTorch, which would otherwise register them as submodules.
        self._frozen: list[nn.Module] = []
        self._has_teacher = teacher is not None
        if teacher is not None:
            self.add_frozen(teacher)

    def add_frozen(self, network: Module) -> Module:
        """Freeze a network and keep it with this module. Return it."""
        self._frozen.append(network.eval().requires_grad_(False))
        return network

    @torch.no_grad()
    def teach(self, image: Tensor) -> Tensor | None:
        """The teacher's logits (N, C, h, w) for normalized images; None without a teacher."""
        return find_logits(self._frozen[0](image)) if self._has_teacher else None

    def segmentation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Loss of full-size logits (N, C, H, W) against labels (N, H, W)."""
        loss = self.loss
        return segmentation_loss(logits, labels, self.class_weights, loss.hard_pixels, loss.hard_share).mean()

    def _apply(self, function: Callable[[Tensor], Tensor], recurse: bool = True) -> SegmentationTraining:
        for network in self._frozen:
            network._apply(function)  # type: ignore[no-untyped-call]
        super()._apply(function, recurse)  # type: ignore[no-untyped-call]
        return self


class SegmentationStage:
    """A stage that learns from the clips of a recipe. Has the batches, class weights, figures and checkpoints."""

    def __init__(self, recipe: Recipe, dataset: Dataset, clips: TrainingClips) -> None:
        self.recipe, self.dataset, self.clips = recipe, dataset, clips

    def load_batches(self, fabric: Fabric, step: int, steps: int) -> Iterator[ClipBatch]:
        data = self.recipe.data
        numbers = list(clip_numbers(step, steps, self.recipe.batch, fabric.global_rank, fabric.world_size))
        loader = DataLoader(self.clips, batch_sampler=numbers, num_workers=data.workers, collate_fn=collate)  # type: ignore[arg-type,var-annotated]
        batches: Any = fabric.setup_dataloaders(loader, use_distributed_sampler=False)
        try:
            yield from batches
        except StmgError as error:  # a loader process adds its whole traceback to the message
            raise (restore_error(str(error)) if data.workers else error) from None

    def class_weights(self) -> Tensor | None:
        """Weights (C,) of the classes in the loss."""
        method = self.recipe.loss.class_weights
        if method == "none":
            return None
        return compute_class_weights(
            torch.from_numpy(self.clips.class_shares(self.dataset.num_classes)).float(), method
        )

    def accuracy(self, counts: ConfusionMatrix) -> Figures:
        """mIoU, which is also the score, and the IoU of each class in percent; empty if nothing was counted."""
        if not counts.counts.any():
            return {}
        miou = 100 * counts.mean_iou()
        classes = zip(self.dataset.class_names, counts.iou(), strict=True)
        return {"score": miou, "miou": miou, **{f"iou {name}": 100 * float(iou) for name, iou in classes}}

    def make_card(self, network: str) -> Card:
        """The card of a trained network."""
        return Card(
            network=network,
            num_classes=self.dataset.num_classes,
            size=self.recipe.data.size,
            class_names=self.dataset.class_names,
            palette=tuple((int(r), int(g), int(b)) for r, g, b in self.dataset.palette),
            notes={"data": f"{self.dataset.name}, split {self.recipe.data.train}"},
        )

    def finish(self, network: nn.Module) -> tuple[AcceleratedNetwork, Card]:
        """The network in its saved form, with its card."""
        raise NotImplementedError

    def save(self, network: nn.Module, folder: Path, notes: Mapping[str, object], is_best: bool) -> None:
        finished, card = self.finish(network)
        for name in ("last", "best") if is_best else ("last",):
            save_checkpoint(finished, folder / name, replace(card, notes={**card.notes, **notes}))


class ClipBatch(NamedTuple):
    """Clips of one size on one device."""

    images: Tensor
    """(N, T, H, W, 3) RGB, uint8."""
    labels: Tensor
    """(N, T, H, W) class ids, uint8. See `TrainingClip`."""
    flows: Tensor
    """(N, T - 1, h, w, 2): flow from each frame to the one before."""


def collate(clips: list[TrainingClip]) -> ClipBatch:
    """Join clips into a batch."""
    return ClipBatch(*(torch.from_numpy(np.stack(parts)) for parts in zip(*clips, strict=True)))


def make_clips(recipe: Recipe, dataset: Dataset, num_processes: int) -> TrainingClips:
    """The clips of a recipe. Processes share the memory for decoded frames."""
    aligned = recipe.stage == "stmg" and recipe.stmg.align
    unlabeled = tuple(video for path in recipe.data.unlabeled for video in open_dataset(path).training_videos)
    share = recipe.data.cache_gb / (num_processes * max(1, recipe.data.workers))
    data = replace(recipe.data, cache_gb=share)
    return TrainingClips(dataset, data.train, data, recipe.augment, recipe.motion, recipe.seed, aligned, unlabeled)


class Ensemble(nn.Module):
    """Several networks as one: the logarithm of their mean probabilities, at the largest of their output sizes."""

    def __init__(self, networks: list[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, image: Tensor) -> Tensor:
        logits = [find_logits(network(image)) for network in self.networks]
        size = max((each.shape[-2:] for each in logits), key=lambda shape: shape[0] * shape[1])
        mean = torch.stack([upsample(each, size).softmax(1) for each in logits]).mean(0)
        return mean.clamp(min=1e-8).log()


def load_teacher(names: str, dataset: Dataset) -> nn.Module | None:
    """Load one network, or several joined by `+` as an ensemble; None for an empty text."""
    if not names:
        return None
    # A folder may have a + in its name.
    listed = [names] if Path(names).is_dir() else [name.strip() for name in names.split("+")]
    if not all(listed):
        raise SettingsError(f"loss.teacher is a checkpoint, or several joined by +; got {names!r}")
    networks = [_load_teacher(name, dataset) for name in listed]
    return networks[0] if len(networks) == 1 else Ensemble(networks)


def load_base(name: str, dataset: Dataset, role: str) -> tuple[AcceleratedNetwork, Card]:
    """Load a checkpoint to learn or start from. Raise if its classes differ. role: prefix of its name in errors."""
    network, card = load_network(name)
    if card.num_classes != dataset.num_classes:
        raise ModelError(f"{role}{name} has {card.num_classes} classes, {dataset.name} has {dataset.num_classes}")
    if card.normalization != Normalization():
        raise ModelError(f"{role}{name} was trained with another normalization than ImageNet's, which training uses")
    return network, card


def _load_teacher(name: str, dataset: Dataset) -> nn.Module:
    network, _ = load_base(name, dataset, "the teacher ")
    teacher = network.plain()
    fold_batch_norm(teacher, torch.rand(1, 3, *network.example_size))
    return teacher.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def freeze_norms(module: nn.Module) -> None:
    """Freeze the statistics of all batch-norms except the mask generator's, which are new in the second stage."""
    generators = [part for part in module.modules() if isinstance(part, MaskGenerator)]
    new = {part for generator in generators for part in generator.modules()}
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and part not in new:
            part.eval()
