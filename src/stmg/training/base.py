"""The first stage's losses: the base network, on single frames."""

from __future__ import annotations

from torch import Tensor, nn

from stmg.data.clips import UNLABELED
from stmg.gating.accelerate import find_logits
from stmg.training.batches import Batch
from stmg.training.losses import distillation_loss, upsample
from stmg.training.module import Losses, TrainingModule
from stmg.training.recipe import Loss
from stmg.video.labels import IGNORE


class BaseTraining(TrainingModule):
    """A network that segments single frames, the last of each clip; called with a batch, it returns its losses."""

    def __init__(
        self, network: nn.Module, loss: Loss, class_weights: Tensor | None = None, teacher: nn.Module | None = None
    ) -> None:
        super().__init__(network, loss, class_weights, teacher)

    def forward(self, batch: Batch) -> Losses:
        image, labels = self.normalize(batch.images[:, -1]), batch.labels[:, -1]
        labels = labels.masked_fill(labels == UNLABELED, IGNORE)  # those frames are the teacher's
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
            # At the teacher's own size, and from the network's own: at the labels' size it would say no more.
            student = upsample(logits, teacher_logits.shape[-2:])
            losses["distillation"] = distillation_loss(student, teacher_logits, self.loss.temperature).mean()
            total = total + self.loss.distill * losses["distillation"]
        return {"loss": total, **losses}
