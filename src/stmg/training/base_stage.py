"""The first stage: a base network, trained and evaluated on single frames."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

from stmg.data.clips import TrainingClips
from stmg.data.dataset import Dataset, Video
from stmg.evaluation.measuring.accuracy import ConfusionMatrix
from stmg.gating.accelerate import AcceleratedNetwork, accelerate, find_logits
from stmg.models.card import Card
from stmg.models.locate import WEIGHTS, find_checkpoint
from stmg.networks import build, pretrain
from stmg.networks.foreign import load_foreign
from stmg.training.base import BaseTraining
from stmg.training.losses import lower_logits, upsample
from stmg.training.recipe import Recipe
from stmg.training.stage import Figures, accuracy_figures, class_weights_of, make_card
from stmg.training.teachers import load_teacher
from stmg.video.frames import Image
from stmg.video.labels import Labels
from stmg.video.overlay import draw_labels

ROWS = 3  # frames in a picture


class BaseStage:
    """A network that segments single frames."""

    def __init__(self, recipe: Recipe, dataset: Dataset, clips: TrainingClips) -> None:
        self.recipe, self.dataset = recipe, dataset
        network = build(recipe.network, dataset.num_classes, auxiliary=recipe.loss.auxiliary > 0)
        if recipe.pretrained:
            pretrain(network, recipe.network, _find_tensors(recipe.pretrained))
        weights = class_weights_of(recipe, dataset, clips)
        teacher = load_teacher(recipe.loss.teacher, dataset)
        self.training = BaseTraining(network, recipe.loss, weights, teacher)

    @torch.inference_mode()
    def evaluate(self, network: nn.Module, device: torch.device) -> Figures:
        """mIoU on every labeled frame of the validation split."""
        network = self._plain(network).to(device)
        counts = ConfusionMatrix(self.dataset.num_classes)
        for video, index in self._labeled_frames():
            image, truth = self._read(video, index)
            counts.add(self._segment(network, image, device), truth)
        return accuracy_figures(counts, self.dataset)

    @torch.inference_mode()
    def draw(self, network: nn.Module, device: torch.device) -> Image | None:
        """Image, labels and truth of three frames."""
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
        """Gated, ready for video."""
        example = torch.zeros(1, 3, *self.recipe.data.size)
        accelerated = accelerate(self._plain(network), example, timed=False)
        return accelerated, make_card(self.recipe.network, self.recipe, self.dataset)

    def _plain(self, network: nn.Module) -> nn.Module:
        """A copy as it is meant to be used: without its auxiliary head, class weights undone as the recipe says."""
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
    """The file of tensors that a recipe names, itself or as a checkpoint."""
    if pretrained == "imagenet" or Path(pretrained).is_file():
        return pretrained
    return str(find_checkpoint(pretrained) / WEIGHTS)
