"""The second stage: the mask generator and the network for partial frames, on clips of adjacent frames."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from stmg.acceleration.accelerate import AcceleratedNetwork, Computed
from stmg.acceleration.aggregation import aggregate
from stmg.acceleration.mask_generator import SoftMasks
from stmg.acceleration.pruning import straight_through
from stmg.config import Loss, Stmg
from stmg.data.clips import UNLABELLED
from stmg.motion import move
from stmg.overlay import IGNORE
from stmg.training.base import Accompanied, Losses, Normalise
from stmg.training.distortion_map import distortion_map
from stmg.training.losses import distillation, enlarged, reconstruction, segmentation, steered


class StmgTraining(Accompanied):
    """Key frame, then partial frames: each blends its features with those before it, as a stream does."""

    def __init__(
        self,
        network: AcceleratedNetwork,
        loss: Loss,
        settings: Stmg,
        class_weights: Tensor | None = None,
        teacher: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if network.mask_generator is None:
            raise ValueError("the second stage trains a mask generator, and this network has none")
        self.network, self.masks = network, network.mask_generator
        self.loss, self.settings = loss, settings
        self.normalise = Normalise()
        self.class_weights: Tensor | None
        self.register_buffer("class_weights", class_weights, persistent=False)
        self.shared = network.second is None
        # The base as it was, and whoever labels frames without labels. In tuples: neither is a part of this module.
        self.frozen = (self.bring(copy.deepcopy(network)) if self.shared else network,)
        self.teacher = () if teacher is None else (self.bring(teacher),)
        network.network.requires_grad_(self.shared)

    def train(self, mode: bool = True) -> StmgTraining:
        """The network for key frames stays as it is, its batch-norms too, unless its weights are shared."""
        super().train(mode)
        if not self.shared:
            self.network.network.eval()
        return self

    def forward(self, batch: dict[str, Tensor]) -> Losses:
        """`images` (N, T, H, W, 3), `labels` (N, T, H, W), `fields` (N, T - 1, h, w, 2) to `loss` and its parts."""
        images = batch["images"]
        frames = [self.normalise(images[:, time]) for time in range(images.shape[1])]
        labels, compared = self._labelled(batch["labels"], frames)
        size = labels.shape[-2:]
        sums: dict[str, Tensor] = {}
        with torch.set_grad_enabled(self.shared and torch.is_grad_enabled()):
            first = self.network.full(frames[0])
        if self.shared:
            full = enlarged(first.logits, size)
            sums["full"] = self._segmentation(full, labels[:, 0])
            sums["full"] = sums["full"] + self.settings.distill * self._distilled(full, self._whole(frames[0], size))
        features, encoded = first.features, self.masks.encode(frames[0])
        decided = float(torch.rand(())) < self.settings.decided
        for time in range(1, len(frames)):
            field = batch["fields"][:, time - 1] if self.settings.align else None
            now = self.masks.encode(frames[time])
            masks = self.masks.sample(move(encoded, field), now)
            if self.masks.pruning is not None and self.training:
                self.masks.pruning.follow(masks.probability, self.settings.keep)
                if decided:
                    masks = masks._replace(keep=straight_through(masks.probability, self.masks.pruning.threshold))
            changed = self._spatial(masks)
            previous = [move(before, field) for before in features]
            whole = self._whole(frames[time], size)
            blended, fresh = self._partial(frames[time], masks.keep, previous, changed)
            features, encoded = blended.features, now
            scores = enlarged(blended.logits, size)
            parts = {
                "segmentation": self._segmentation(scores, labels[:, time]),
                "distillation": self._distilled(scores, whole),
                "fresh": self._fresh(enlarged(fresh, size), labels[:, time], whole),
                "reconstruction": self._reconstruction(masks, compared[:, time - 1], compared[:, time], field),
                "steering": steered(1 - masks.probability, self.settings.keep),
                "kept": 1 - masks.probability.detach().mean(),
                "changed": masks.changed.detach().mean(),
            }
            for name, value in parts.items():
                sums[name] = sums.get(name, torch.zeros_like(value)) + value / (len(frames) - 1)
        sums["divergence"] = self.masks.divergence()
        weights = {
            "full": 1.0,
            "segmentation": 1.0,
            "distillation": self.settings.distill,
            "fresh": self.settings.fresh,
            "reconstruction": self.settings.reconstruction,
            "steering": self.settings.steer,
            "divergence": self.settings.divergence,
        }
        total = sum((weights[name] * value for name, value in sums.items() if name in weights), torch.zeros(()))
        return {"loss": total, **sums}

    def _partial(self, image: Tensor, keep: Tensor, previous: list[Tensor], changed: Tensor) -> tuple[Computed, Tensor]:
        """A partial frame, and the logits it would have had if nothing were reused."""

        def both(current: list[Tensor]) -> list[Tensor]:
            # The head sees them as one batch: it need not be known here how to call it.
            blended = aggregate(current, previous, changed)
            alone = aggregate(current, previous, torch.ones_like(changed))
            return [torch.cat(pair) for pair in zip(blended, alone, strict=True)]

        computed = self.network.partial(self._scaled(image), keep, both)
        logits, fresh = computed.logits.chunk(2)
        return Computed([features.chunk(2)[0] for features in computed.features], logits), fresh

    def _fresh(self, scores: Tensor, labels: Tensor, whole: Tensor | None) -> Tensor:
        """Where little is taken from the current frame little is learned, so its own features are taught as well."""
        return self._segmentation(scores, labels) + self.settings.distill * self._distilled(scores, whole)

    def _spatial(self, masks: SoftMasks) -> Tensor:
        constant = self.settings.constant_mask
        return masks.changed if constant is None else torch.full_like(masks.changed, constant)

    def _scaled(self, image: Tensor) -> Tensor:
        scales = self.settings.partial_scales
        scale = scales[int(torch.randint(len(scales), ()))]
        if scale == 1:
            return image
        return F.interpolate(image, scale_factor=scale, mode="bilinear", align_corners=False)

    def _segmentation(self, scores: Tensor, labels: Tensor) -> Tensor:
        return segmentation(scores, labels, self.class_weights, self.loss.hard_pixels, self.loss.hard_share).mean()

    def _whole(self, image: Tensor, size: tuple[int, ...]) -> Tensor | None:
        """What the whole base network says of a frame, if anybody wants to know."""
        if not self.settings.distill:
            return None
        with torch.no_grad():
            return enlarged(self.frozen[0].full(image).logits, size)

    def _distilled(self, scores: Tensor, whole: Tensor | None) -> Tensor:
        return scores.new_zeros(()) if whole is None else distillation(scores, whole, self.loss.temperature).mean()

    def _reconstruction(self, masks: SoftMasks, before: Tensor, now: Tensor, field: Tensor | None) -> Tensor:
        if not self.settings.reconstruction or self.settings.constant_mask is not None:
            return masks.changed.new_zeros(())
        height, width = masks.changed.shape[-2:]
        truth = distortion_map(before, now, field, (height, width))
        return reconstruction(masks.changed, truth.changed, truth.known, self.settings.missed).mean()

    def _labelled(self, labels: Tensor, frames: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Labels (N, T, H, W) to segment by and to compare; a teacher's, the base if there is no other, fill in.

        Clips are compared in one hand: a teacher's errors against the truth would pass for change.
        """
        bare = labels == UNLABELLED
        if not bool(bare.any()):
            return labels, labels
        with torch.no_grad():
            scores = [self.teacher[0](frame) if self.teacher else self.frozen[0].full(frame).logits for frame in frames]
            found = [enlarged(each, labels.shape[-2:]).max(1).indices.to(labels.dtype) for each in scores]
        told = torch.stack(found, 1)
        some = bare.flatten(1).any(1)[:, None, None, None]
        return torch.where(bare, told, labels), torch.where(some & (labels != IGNORE), told, labels)
