"""The second stage: a mask generator and a network for partial frames, trained on clips and evaluated on streams."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from stmg.data.clips import UNLABELED, TrainingClips, is_moving
from stmg.data.dataset import Dataset, Video
from stmg.errors import SettingsError
from stmg.evaluation.measure import base_cost, measure_stream, run_beside
from stmg.evaluation.streams import Stream
from stmg.evaluation.way import ONLINE
from stmg.gating.accelerate import AcceleratedNetwork, NetworkOutput, accelerate
from stmg.gating.aggregation import aggregate, downscale, warp_tensor
from stmg.gating.mask_generator import SoftMasks, straight_through
from stmg.models.card import Card
from stmg.runtimes.torch import TorchRuntime
from stmg.segmenter import VideoSegmenter
from stmg.streaming.masks import MASK_GAIN, Masking
from stmg.streaming.result import FrameResult
from stmg.streaming.schedulers import FixedPeriod
from stmg.training.losses import distillation_loss, distortion_map, keep_ratio_loss, reconstruction_loss, upsample
from stmg.training.recipe import Loss, Recipe, Stmg
from stmg.training.stage import (
    ClipBatch,
    Figures,
    Losses,
    SegmentationStage,
    SegmentationTraining,
    load_base,
    load_teacher,
)
from stmg.video.frames import Image
from stmg.video.labels import IGNORE, Labels
from stmg.video.overlay import draw_labels, draw_mask

PERIOD = 4  # one key frame in this many frames of an evaluation; the others are partial
ROWS = 3  # number of frames in a picture


class ClipLabels(NamedTuple):
    """Labels (N, T, H, W) of a batch. Missing ones are filled in."""

    target: Tensor
    """Labels to learn: the true ones if there are any."""
    comparable: Tensor
    """Labels to compare frames by. All labels of a clip come from one source; otherwise a teacher's errors would look
    like changes."""


class StmgTraining(SegmentationTraining):
    """A key frame, then partial frames. Each blends its features with those before it, as in a stream."""

    network: AcceleratedNetwork

    def __init__(
        self,
        network: AcceleratedNetwork,
        loss: Loss,
        settings: Stmg,
        class_weights: Tensor | None = None,
        teacher: nn.Module | None = None,
    ) -> None:
        super().__init__(network, loss, class_weights, teacher)
        assert network.mask_generator is not None
        self.masks = network.mask_generator
        self.settings = settings
        self.shared = network.second is None
        """True if key frames and partial frames share their weights, which are then trained on both."""
        # The base network. The tuple hides it from PyTorch, which would otherwise register it as a submodule.
        self._base = (self.add_frozen(copy.deepcopy(network)) if self.shared else network,)
        network.network.requires_grad_(self.shared)

    def train(self, mode: bool = True) -> StmgTraining:
        """Keep the network for key frames in eval mode, including its batch-norms, unless its weights are shared."""
        super().train(mode)
        if not self.shared:
            self.network.network.eval()
        return self

    def forward(self, batch: ClipBatch) -> Losses:
        frames = [self.normalize(batch.images[:, time]) for time in range(batch.images.shape[1])]
        labels = self._fill_in(batch.labels, frames)
        size = batch.labels.shape[-2:]
        sums: Losses = {}
        with torch.set_grad_enabled(self.shared and torch.is_grad_enabled()):
            key = self.network.full(frames[0])
        if self.shared:
            logits = upsample(key.logits, size)
            soft = self._distillation(logits, self._base_logits(frames[0], size))
            sums["full"] = self.segmentation_loss(logits, labels.target[:, 0]) + self.settings.distill * soft
        features, encoded = key.features, self.masks.encode(frames[0])
        hard_gates = float(torch.rand(())) < self.settings.hard_gates
        for time in range(1, len(frames)):
            flow = batch.flows[:, time - 1] if self.settings.align else None
            before, encoded = warp_tensor(encoded, flow), self.masks.encode(frames[time])
            masks = self._sample_masks(before, encoded, hard_gates)
            previous = [warp_tensor(part, flow) for part in features]
            base_logits = self._base_logits(frames[time], size)
            partial, fresh_logits = self._partial(frames[time], masks.keep, previous, self._spatial_mask(masks))
            features = partial.features
            logits, fresh = upsample(partial.logits, size), upsample(fresh_logits, size)
            target = labels.target[:, time]
            parts = {
                "segmentation": self.segmentation_loss(logits, target),
                "distillation": self._distillation(logits, base_logits),
                # Where the mask takes little from the current frame it teaches little, so teach its own features too.
                "fresh": self.segmentation_loss(fresh, target)
                + self.settings.distill * self._distillation(fresh, base_logits),
                "reconstruction": self._reconstruction(masks, labels.comparable, time, flow),
                "keep_ratio_loss": keep_ratio_loss(1 - masks.probability, self.settings.keep_ratio),
                "keep_ratio": 1 - masks.probability.detach().mean(),
                "changed": masks.changed.detach().mean(),
            }
            for name, value in parts.items():
                sums[name] = sums.get(name, torch.zeros_like(value)) + value / (len(frames) - 1)
        sums["kl"] = self.masks.divergence()
        weights = {
            "full": 1.0,
            "segmentation": 1.0,
            "distillation": self.settings.distill,
            "fresh": self.settings.fresh,
            "reconstruction": self.settings.reconstruction,
            "keep_ratio_loss": self.settings.keep_ratio_weight,
            "kl": self.settings.kl_weight,
        }
        total = sum((weights[name] * value for name, value in sums.items() if name in weights), torch.zeros(()))
        return {"loss": total, **sums}

    def _sample_masks(self, before: Tensor, now: Tensor, hard_gates: bool) -> SoftMasks:
        masks = self.masks.sample(before, now)
        if self.masks.pruning is None or not self.training:
            return masks
        if self.settings.keep_ratio_weight:  # otherwise the prior alone decides how much is kept
            self.masks.pruning.follow(masks.probability, self.settings.keep_ratio)
        if not hard_gates:
            return masks
        return masks._replace(keep=straight_through(masks.probability, self.masks.pruning.threshold))

    def _partial(
        self, image: Tensor, keep: Tensor, previous: list[Tensor], changed: Tensor
    ) -> tuple[NetworkOutput, Tensor]:
        """Compute a partial frame, and its logits without reuse. They are the same if `fresh` is off."""

        def blend(current: list[Tensor]) -> list[Tensor]:
            blended = aggregate(current, previous, changed)
            if not self.settings.fresh:  # the head's batch-norms should only see inputs as in a stream
                return blended
            # Pass both to the head as one batch, because it can only be called through the network.
            alone = aggregate(current, previous, torch.ones_like(changed))
            return [torch.cat(pair) for pair in zip(blended, alone, strict=True)]

        scales = self.settings.partial_scales
        scale = scales[int(torch.randint(len(scales), ()))]
        computed = self.network.partial(downscale(image, scale), keep, blend)
        if not self.settings.fresh:
            return computed, computed.logits
        logits, fresh = computed.logits.chunk(2)
        return NetworkOutput([features.chunk(2)[0] for features in computed.features], logits), fresh

    def _spatial_mask(self, masks: SoftMasks) -> Tensor:
        """The mask that partial frames blend by. As in a stream, it covers more than the label changes."""
        constant = self.settings.constant_mask
        return (
            (MASK_GAIN * masks.changed).clamp(max=1) if constant is None else torch.full_like(masks.changed, constant)
        )

    @torch.no_grad()
    def _base_logits(self, image: Tensor, size: tuple[int, ...]) -> Tensor | None:
        """Logits of the whole base network, to distill from; None if distillation is off."""
        return upsample(self._base[0].full(image).logits, size) if self.settings.distill else None

    def _distillation(self, logits: Tensor, base_logits: Tensor | None) -> Tensor:
        if base_logits is None:
            return logits.new_zeros(())
        return distillation_loss(logits, base_logits, self.loss.temperature).mean()

    def _reconstruction(self, masks: SoftMasks, labels: Tensor, time: int, flow: Tensor | None) -> Tensor:
        if not self.settings.reconstruction or self.settings.constant_mask is not None:
            return masks.changed.new_zeros(())
        height, width = masks.changed.shape[-2:]
        truth = distortion_map(labels[:, time - 1], labels[:, time], flow, (height, width))
        return reconstruction_loss(masks.changed, truth.changed, truth.known, self.settings.miss_weight).mean()

    @torch.no_grad()
    def _fill_in(self, labels: Tensor, frames: list[Tensor]) -> ClipLabels:
        """Fill in the labels of frames without any, from the teacher, or from the base if there is none."""
        unlabeled = labels == UNLABELED
        if not bool(unlabeled.any()):
            return ClipLabels(labels, labels)
        predictions = []
        for frame in frames:
            logits = self.teach(frame)
            logits = self._base[0].full(frame).logits if logits is None else logits
            predictions.append(upsample(logits, labels.shape[-2:]).max(1).indices.to(labels.dtype))
        predicted = torch.stack(predictions, 1)
        incomplete = unlabeled.flatten(1).any(1)[:, None, None, None]
        comparable = torch.where(incomplete & (labels != IGNORE), predicted, labels)
        return ClipLabels(torch.where(unlabeled, predicted, labels), comparable)


class StmgStage(SegmentationStage):
    """Trains a mask generator and a network for partial frames, over a trained base network."""

    def __init__(self, recipe: Recipe, dataset: Dataset, clips: TrainingClips) -> None:
        super().__init__(recipe, dataset, clips)
        if not recipe.stmg.base:
            raise SettingsError(
                "the second stage starts from a trained base network; give its checkpoint: stmg.base=..."
            )
        base, self.card = load_base(recipe.stmg.base, dataset, "")
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
        weights, teacher = self.class_weights(), load_teacher(recipe.loss.teacher, dataset)
        self.training = StmgTraining(network, recipe.loss, recipe.stmg, weights, teacher)

    def evaluate(self, network: nn.Module, device: torch.device) -> Figures:
        """Evaluate as a stream: one key frame in four, the others partial. Empty if no video of the split is moving."""
        assert isinstance(network, AcceleratedNetwork)
        data, videos = self.recipe.data, self._moving_videos()
        if not videos:
            return {}
        segmenter = self._segmenter(network, device)
        meter = measure_stream(segmenter, replace(self.dataset, splits={data.val: videos}), data.val, data.size)
        return {
            **self.accuracy(meter.counts),
            "keep_ratio": meter.kept_share,
            "macs": meter.macs_share(base_cost(segmenter.runtime, data.size)),
        }

    def draw(self, network: nn.Module, device: torch.device) -> Image | None:
        """Draw image, spatial mask, labels and truth of three partial frames."""
        assert isinstance(network, AcceleratedNetwork)
        rows = []
        stream = Stream(ONLINE, self._segmenter(network, device))
        for video in self._moving_videos()[:1]:
            for moment in run_beside([stream], video, self.recipe.data.size, 2 * ROWS * PERIOD):
                result, truth = moment.answers[0].result, moment.truth
                if truth is not None and result.index % (2 * PERIOD) == PERIOD - 1 and result.changed is not None:
                    rows.append(_draw_row(result, truth, self.dataset))
        return np.vstack(rows[:ROWS]) if rows else None

    def finish(self, network: nn.Module) -> tuple[AcceleratedNetwork, Card]:
        """The network unchanged. The card has the settings that it was trained for."""
        assert isinstance(network, AcceleratedNetwork)
        settings = self.recipe.stmg
        card = replace(
            self.make_card(self.card.network),
            motion="dis" if settings.align else "none",
            partial_scale=settings.partial_scales[0],
            constant_mask=settings.constant_mask,
        )
        return network, card if settings.align else replace(card, scheduler={"name": "paper"})

    def _moving_videos(self) -> tuple[Video, ...]:
        """The videos to evaluate on, without stills, which are no stream."""
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
