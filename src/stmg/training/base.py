"""The first stage: a base network, trained and evaluated on single frames."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from stmg.data.clips import UNLABELED, TrainingClips
from stmg.data.dataset import Dataset, Video
from stmg.evaluation.accuracy import ConfusionMatrix
from stmg.gating.accelerate import AcceleratedNetwork, accelerate
from stmg.gating.outputs import find_logits
from stmg.models.card import Card
from stmg.models.names import WEIGHTS, find_checkpoint
from stmg.networks import build, pretrain
from stmg.networks.weights import load_foreign
from stmg.training.losses import distillation_loss, lower_logits, upsample
from stmg.training.recipe import Loss, Recipe
from stmg.training.stage import (
    ClipBatch,
    Figures,
    Losses,
    SegmentationStage,
    SegmentationTraining,
    load_teacher,
)
from stmg.video.frames import Image
from stmg.video.labels import IGNORE, Labels
from stmg.video.overlay import draw_labels

ROWS = 3  # number of frames in a picture


class BaseTraining(SegmentationTraining):
    """Losses of a network that segments single frames: the last frame of each clip."""

    def __init__(
        self, network: nn.Module, loss: Loss, class_weights: Tensor | None = None, teacher: nn.Module | None = None
    ) -> None:
        super().__init__(network, loss, class_weights, teacher)

    def forward(self, batch: ClipBatch) -> Losses:
        image, labels = self.normalize(batch.images[:, -1]), batch.labels[:, -1]
        labels = labels.masked_fill(labels == UNLABELED, IGNORE)  # unlabeled frames are only for the teacher
        size = labels.shape[-2:]
        output = self.network(image)
        logits = find_logits(output)
        losses = {"segmentation": self.segmentation_loss(upsample(logits, size), labels)}
        total = losses["segmentation"]
        if self.loss.auxiliary and isinstance(output, tuple | list) and len(output) > 1:
            losses["auxiliary"] = self.segmentation_loss(upsample(output[1], size), labels)
            total = total + self.loss.auxiliary * losses["auxiliary"]
        teacher_logits = self.teach(image)
        if teacher_logits is not None:
            # Compare at the teacher's own size: upsampling to the labels' size would add no information.
            student = upsample(logits, teacher_logits.shape[-2:])
            losses["distillation"] = distillation_loss(student, teacher_logits, self.loss.temperature).mean()
            total = total + self.loss.distill * losses["distillation"]
        return {"loss": total, **losses}


class BaseStage(SegmentationStage):
    """The stage that trains a network for single frames."""

    def __init__(self, recipe: Recipe, dataset: Dataset, clips: TrainingClips) -> None:
        super().__init__(recipe, dataset, clips)
        network = build(recipe.network, dataset.num_classes, auxiliary=recipe.loss.auxiliary > 0)
        if recipe.pretrained:
            pretrain(network, recipe.network, _find_tensors(recipe.pretrained))
        weights, teacher = self.class_weights(), load_teacher(recipe.loss.teacher, dataset)
        self.training = BaseTraining(network, recipe.loss, weights, teacher)

    @torch.inference_mode()
    def evaluate(self, network: nn.Module, device: torch.device) -> Figures:
        """Compute the mIoU on every labeled frame of the validation split."""
        network = self._plain(network).to(device)
        counts = ConfusionMatrix(self.dataset.num_classes)
        for video, index in self._labeled_frames():
            image, truth = self._read(video, index)
            counts.add(self._segment(network, image, device), truth)
        return self.accuracy(counts)

    @torch.inference_mode()
    def draw(self, network: nn.Module, device: torch.device) -> Image | None:
        """Draw image, labels and truth of three frames."""
        network = self._plain(network).to(device)
        rows = []
        frames = self._labeled_frames()
        for video, index in frames[:: max(1, len(frames) // ROWS)][:ROWS]:
            image, truth = self._read(video, index)
            labels = self._segment(network, image, device)
            overlays = [draw_labels(image, each, self.dataset.palette) for each in (labels, truth)]
            rows.append(np.hstack([image, *overlays]))
        return np.vstack(rows) if rows else None

    def finish(self, network: nn.Module) -> tuple[AcceleratedNetwork, Card]:
        """Gate the network, ready for video."""
        example = torch.zeros(1, 3, *self.recipe.data.size)
        return accelerate(self._plain(network), example, timed=False), self.make_card(self.recipe.network)

    def _plain(self, network: nn.Module) -> nn.Module:
        """A copy for inference: without auxiliary head, and with class weights undone as the recipe says."""
        plain = build(self.recipe.network, self.dataset.num_classes)
        load_foreign(plain, network.state_dict())
        weights, share = self.training.class_weights, self.recipe.loss.undo_class_weights
        if weights is not None and share:
            lower_logits(plain, share * weights.detach().cpu().log())
        return plain.eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]

    def _segment(self, network: nn.Module, image: Image, device: torch.device) -> Labels:
        normalized = self.training.normalize(torch.from_numpy(image)[None].to(device))
        logits = upsample(find_logits(network(normalized)).float(), image.shape[:2])
        labels: Labels = logits.max(1).indices[0].to(torch.uint8).cpu().numpy()
        return labels

    def _labeled_frames(self) -> list[tuple[Video, int]]:
        split = self.recipe.data.val
        return list(self.dataset.labeled(split)) if split else []

    def _read(self, video: Video, index: int) -> tuple[Image, Labels]:
        size = self.recipe.data.size
        truth = video.truth(index, size)
        assert truth is not None
        return video.image(index, size), truth


def _find_tensors(pretrained: str) -> str:
    """The file of tensors that a recipe names directly or as a checkpoint."""
    if pretrained == "imagenet" or Path(pretrained).is_file():
        return pretrained
    return str(find_checkpoint(pretrained) / WEIGHTS)
