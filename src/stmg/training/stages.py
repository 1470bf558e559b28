"""The stages of training, by name: what each trains, how it is judged, and what it leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from stmg.acceleration.accelerate import AcceleratedNetwork, accelerate, find_logits
from stmg.acceleration.folding import fold_batch_norm
from stmg.card import IMAGENET_MEAN, IMAGENET_STD, Card
from stmg.checkpoint import WEIGHTS, find, load_network
from stmg.config import Recipe
from stmg.data.clips import Clips, is_moving
from stmg.data.dataset import Dataset, Video
from stmg.evaluation.accuracy import ConfusionMatrix
from stmg.evaluation.stream import base_cost, stream_figures, streamed
from stmg.frames import Image
from stmg.masking import Masking
from stmg.networks import build, pretrain
from stmg.networks.foreign import load_foreign
from stmg.overlay import draw_labels, draw_mask
from stmg.runtimes.torch import TorchRuntime
from stmg.scheduler import FixedPeriod
from stmg.segmenter import VideoSegmenter
from stmg.state import FrameResult, Labels
from stmg.training.base import BaseTraining
from stmg.training.losses import class_weights_of, enlarged, take_back
from stmg.training.run import Stage
from stmg.training.stmg import StmgTraining

PERIOD = 4  # frames from one key frame to the next when the second stage is judged; those between are partial


class BaseStage:
    """A network that segments single frames."""

    def __init__(self, recipe: Recipe, dataset: Dataset, clips: Clips) -> None:
        self.recipe, self.dataset = recipe, dataset
        network = build(recipe.network, dataset.num_classes, auxiliary=recipe.loss.auxiliary > 0)
        if recipe.pretrained:
            pretrain(network, recipe.network, _tensors(recipe.pretrained))
        weights = _class_weights(recipe, dataset, clips)
        self.training = BaseTraining(network, recipe.loss, weights, _teacher(recipe, dataset))

    @torch.inference_mode()
    def evaluate(self, network: nn.Module, device: torch.device) -> dict[str, float]:
        network = self._plain(network).to(device)
        counts = ConfusionMatrix(self.dataset.num_classes)
        for video, place in _labelled(self.recipe, self.dataset):
            image, truth = _pair(video, place, self.recipe)
            counts.add(self._labels(network, image, device), truth)
        return figures_of(counts, self.dataset)

    @torch.inference_mode()
    def picture(self, network: nn.Module, device: torch.device) -> Image | None:
        """Frame, labels and truth of three frames."""
        network = self._plain(network).to(device)
        rows = []
        frames = _labelled(self.recipe, self.dataset)
        for video, place in frames[:: max(1, len(frames) // 3)][:3]:
            image, truth = _pair(video, place, self.recipe)
            found = self._labels(network, image, device)
            shown = [draw_labels(image, labels, self.dataset.palette) for labels in (found, truth)]
            rows.append(np.hstack([image, *shown]))
        return np.vstack(rows) if rows else None

    def finished(self, network: nn.Module) -> tuple[AcceleratedNetwork, Card]:
        """Ready for video."""
        example = torch.zeros(1, 3, *self.recipe.data.size)
        accelerated = accelerate(self._plain(network), example, timed=False)
        return accelerated, card_for(self.recipe.network, self.recipe, self.dataset)

    def _plain(self, network: nn.Module) -> nn.Module:
        """A copy as it is meant to be used: without its auxiliary head, the class weights' push taken back."""
        plain = build(self.recipe.network, self.dataset.num_classes)
        load_foreign(plain, network.state_dict())
        weights = self.training.class_weights
        if weights is not None and self.recipe.loss.take_back:
            take_back(plain, self.recipe.loss.take_back * weights.detach().cpu().log())
        return plain.eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]

    def _labels(self, network: nn.Module, image: Image, device: torch.device) -> Labels:
        normalised = self.training.normalise(torch.from_numpy(image)[None].to(device))
        full = enlarged(find_logits(network(normalised)).float(), image.shape[:2])
        labels: Labels = full.max(1).indices[0].to(torch.uint8).cpu().numpy()
        return labels


class StmgStage:
    """A mask generator and a network for partial frames, over a base network that is there."""

    def __init__(self, recipe: Recipe, dataset: Dataset, clips: Clips) -> None:
        self.recipe, self.dataset = recipe, dataset
        if not recipe.stmg.base:
            raise ValueError("the second stage starts from a trained base network; name its checkpoint: stmg.base=...")
        base, self.card = load_network(recipe.stmg.base)
        if base.num_classes != dataset.num_classes:
            raise ValueError(
                f"{recipe.stmg.base} knows {base.num_classes} classes and {dataset.name} has {dataset.num_classes}"
            )
        if (self.card.mean, self.card.std) != (IMAGENET_MEAN, IMAGENET_STD):
            raise ValueError(f"{recipe.stmg.base} sees images normalised in another way than ImageNet's")
        network = accelerate(
            base.plain(),
            torch.zeros(1, 3, *recipe.data.size),
            head=base.head,
            blocks=[block.name for block in base.blocks],
            output=base.output,
            mask_generator=True,
            two_weight_sets=recipe.stmg.weight_sets == 2,
            timed=False,
        )
        assert network.mask_generator is not None
        network.mask_generator.steer(1 - recipe.stmg.keep, recipe.stmg.distortion_aware)
        if base.mask_generator is not None and (base.second is None) == (network.second is None):
            network.load_state_dict(base.state_dict())
        weights = _class_weights(recipe, dataset, clips)
        self.training = StmgTraining(network, recipe.loss, recipe.stmg, weights, _teacher(recipe, dataset))

    def evaluate(self, network: nn.Module, device: torch.device) -> dict[str, float]:
        """As a stream, one key frame in four, the others partial."""
        assert isinstance(network, AcceleratedNetwork)
        data = self.recipe.data
        if not self._moving():
            return {}
        moving = replace(self.dataset, splits={data.val: self._moving()})
        segmenter = self._segmenter(network, device)
        figures = stream_figures(segmenter, moving, data.val, data.size)
        return {
            **figures_of(figures.counts, self.dataset),
            "kept": figures.kept_share,
            "macs": figures.macs_share(base_cost(segmenter, data.size)),
        }

    def picture(self, network: nn.Module, device: torch.device) -> Image | None:
        """Frame, spatial mask, labels and truth of three partial frames."""
        assert isinstance(network, AcceleratedNetwork)
        data, shown = self.recipe.data, []
        for result, truth in streamed(self._segmenter(network, device), self._moving()[:1], data.size, 6 * PERIOD):
            if truth is not None and result.index % (2 * PERIOD) == PERIOD - 1 and result.changed is not None:
                shown.append(_row(result, truth, self.dataset))
        return np.vstack(shown[:3]) if shown else None

    def finished(self, network: nn.Module) -> tuple[AcceleratedNetwork, Card]:
        assert isinstance(network, AcceleratedNetwork)
        settings = self.recipe.stmg
        how: dict[str, Any] = {
            "motion": "dis" if settings.align else "none",
            "partial_scale": settings.partial_scales[0],
        }
        how["constant_mask"] = settings.constant_mask
        if not settings.align:
            how["scheduler"] = {"name": "paper"}
        return network, card_for(self.card.network, self.recipe, self.dataset, **how)

    def _moving(self) -> tuple[Video, ...]:
        """The videos to judge by: stills are no stream."""
        videos = self.dataset.videos(self.recipe.data.val) if self.recipe.data.val else ()
        return tuple(video for video in videos if is_moving(video))

    def _segmenter(self, network: AcceleratedNetwork, device: torch.device) -> VideoSegmenter:
        settings = self.recipe.stmg
        return VideoSegmenter(
            TorchRuntime(network, device=device),
            scheduler=FixedPeriod(PERIOD),
            motion="dis" if settings.align else "none",
            masking=Masking(spatial="adaptive" if settings.constant_mask is None else settings.constant_mask),
            partial_scale=settings.partial_scales[0],
        )


STAGES: dict[str, Callable[[Recipe, Dataset, Clips], Stage]] = {"base": BaseStage, "stmg": StmgStage}


def card_for(network: str, recipe: Recipe, dataset: Dataset, **settings: Any) -> Card:
    """A card that says what a recipe trained."""
    return Card(
        network=network,
        num_classes=dataset.num_classes,
        size=recipe.data.size,
        class_names=dataset.class_names,
        palette=tuple((int(r), int(g), int(b)) for r, g, b in dataset.palette),
        notes={"data": f"{dataset.name}, split {recipe.data.train}"},
        **settings,
    )


def figures_of(counts: ConfusionMatrix, dataset: Dataset) -> dict[str, float]:
    """Percentages: mIoU, which is the score too, and each class."""
    if not counts.counts.any():
        return {}
    miou = 100 * counts.mean_iou()
    named = {f"iou {name}": 100 * float(iou) for name, iou in zip(dataset.class_names, counts.iou(), strict=True)}
    return {"score": miou, "miou": miou, **named}


def _tensors(pretrained: str) -> str:
    """The file of tensors that a recipe names, itself or as a checkpoint."""
    if pretrained == "imagenet" or Path(pretrained).is_file():
        return pretrained
    return str(find(pretrained) / WEIGHTS)


def _class_weights(recipe: Recipe, dataset: Dataset, clips: Clips) -> Tensor | None:
    if recipe.loss.class_weights == "none":
        return None
    shares = torch.from_numpy(clips.shares(dataset.num_classes)).float()
    return class_weights_of(shares, recipe.loss.class_weights)


def _teacher(recipe: Recipe, dataset: Dataset) -> nn.Module | None:
    if not recipe.loss.teacher:
        return None
    network, card = load_network(recipe.loss.teacher)
    if card.num_classes != dataset.num_classes:
        raise ValueError(
            f"the teacher {recipe.loss.teacher} knows {card.num_classes} classes, "
            f"{dataset.name} has {dataset.num_classes}"
        )
    if (card.mean, card.std) != (IMAGENET_MEAN, IMAGENET_STD):
        raise ValueError(f"the teacher {recipe.loss.teacher} sees images normalised in another way")
    teacher = network.plain()
    fold_batch_norm(teacher, torch.rand(1, 3, *card.size))
    return teacher.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _labelled(recipe: Recipe, dataset: Dataset) -> list[tuple[Video, int]]:
    return list(dataset.labelled(recipe.data.val)) if recipe.data.val else []


def _pair(video: Video, place: int, recipe: Recipe) -> tuple[Image, Labels]:
    truth = video.truth(place, recipe.data.size)
    assert truth is not None
    return video.image(place, recipe.data.size), truth


def _row(result: FrameResult, truth: Labels, dataset: Dataset) -> Image:
    assert result.changed is not None
    mask = draw_mask(result.image, result.changed)
    shown = [draw_labels(result.image, labels, dataset.palette) for labels in (result.labels, truth)]
    return np.hstack([result.image, mask, *shown])
