"""The second stage: a mask generator and a network for partial frames, trained on clips and evaluated on streams."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import nn

from stmg.data.clips import TrainingClips, is_moving
from stmg.data.dataset import Dataset, Video
from stmg.errors import ModelError, SettingsError
from stmg.evaluation.measuring.streams import base_cost, run_stream, stream_figures
from stmg.gating.accelerate import AcceleratedNetwork, accelerate
from stmg.models.card import Card
from stmg.models.store import load_network
from stmg.runtimes.normalization import Normalization
from stmg.runtimes.torch import TorchRuntime
from stmg.segmenter import VideoSegmenter
from stmg.streaming.masks import Masking
from stmg.streaming.schedulers import FixedPeriod
from stmg.streaming.state import FrameResult
from stmg.training.recipe import Recipe
from stmg.training.stage import Figures, accuracy_figures, class_weights_of, make_card
from stmg.training.stmg import StmgTraining
from stmg.training.teachers import load_teacher
from stmg.video.frames import Image
from stmg.video.labels import Labels
from stmg.video.overlay import draw_labels, draw_mask

PERIOD = 4  # frames from one key frame to the next in an evaluation; those between are partial
ROWS = 3  # frames in a picture


class StmgStage:
    """A mask generator and a network for partial frames, over a trained base network."""

    def __init__(self, recipe: Recipe, dataset: Dataset, clips: TrainingClips) -> None:
        self.recipe, self.dataset = recipe, dataset
        if not recipe.stmg.base:
            raise SettingsError(
                "the second stage starts from a trained base network; give its checkpoint: stmg.base=..."
            )
        base, self.card = load_network(recipe.stmg.base)
        if base.num_classes != dataset.num_classes:
            raise ModelError(
                f"{recipe.stmg.base} has {base.num_classes} classes, {dataset.name} has {dataset.num_classes}"
            )
        if self.card.normalization != Normalization():
            raise ModelError(f"{recipe.stmg.base} needs another normalization than ImageNet's, which is trained with")
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
        network.mask_generator.steer(1 - recipe.stmg.keep_ratio, recipe.stmg.distortion_aware)
        if base.mask_generator is not None and (base.second is None) == (network.second is None):
            network.load_state_dict(base.state_dict())
        weights = class_weights_of(recipe, dataset, clips)
        teacher = load_teacher(recipe.loss.teacher, dataset)
        self.training = StmgTraining(network, recipe.loss, recipe.stmg, weights, teacher)

    def evaluate(self, network: nn.Module, device: torch.device) -> Figures:
        """As a stream, one key frame in four, the others partial; nothing if no video of the split moves."""
        assert isinstance(network, AcceleratedNetwork)
        data, videos = self.recipe.data, self._moving_videos()
        if not videos:
            return {}
        segmenter = self._segmenter(network, device)
        figures = stream_figures(segmenter, replace(self.dataset, splits={data.val: videos}), data.val, data.size)
        return {
            **accuracy_figures(figures.counts, self.dataset),
            "keep_ratio": figures.kept_share,
            "macs": figures.macs_share(base_cost(segmenter, data.size)),
        }

    def draw(self, network: nn.Module, device: torch.device) -> Image | None:
        """Image, spatial mask, labels and truth of three partial frames."""
        assert isinstance(network, AcceleratedNetwork)
        rows = []
        segmenter, videos = self._segmenter(network, device), self._moving_videos()[:1]
        for result, truth in run_stream(segmenter, videos, self.recipe.data.size, 2 * ROWS * PERIOD):
            if truth is not None and result.index % (2 * PERIOD) == PERIOD - 1 and result.changed is not None:
                rows.append(_draw_row(result, truth, self.dataset))
        return np.vstack(rows[:ROWS]) if rows else None

    def finish(self, network: nn.Module) -> tuple[AcceleratedNetwork, Card]:
        """As it is; the card says how it was trained to be used."""
        assert isinstance(network, AcceleratedNetwork)
        settings = self.recipe.stmg
        card = replace(
            make_card(self.card.network, self.recipe, self.dataset),
            motion="dis" if settings.align else "none",
            partial_scale=settings.partial_scales[0],
            constant_mask=settings.constant_mask,
        )
        return network, card if settings.align else replace(card, scheduler={"name": "paper"})

    def _moving_videos(self) -> tuple[Video, ...]:
        """The videos to evaluate on: stills are not a stream."""
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


def _draw_row(result: FrameResult, truth: Labels, dataset: Dataset) -> Image:
    assert result.changed is not None
    mask = draw_mask(result.image, result.changed)
    overlays = [draw_labels(result.image, labels, dataset.palette) for labels in (result.labels, truth)]
    return np.hstack([result.image, mask, *overlays])
