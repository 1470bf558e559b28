"""Training the base network: plain functions over batches of images and labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

IGNORE = 255


def segmentation_loss(logits: Tensor, labels: Tensor, class_weights: Tensor | None = None) -> Tensor:
    """Cross-entropy of logits (N, C, h, w), enlarged to the labels (N, H, W); ignored pixels do not count."""
    full = F.interpolate(logits, size=labels.shape[-2:], mode="bilinear", align_corners=False)
    return F.cross_entropy(full, labels.long(), weight=class_weights, ignore_index=IGNORE)


def train(
    network: nn.Module,
    batches: Iterable[tuple[Tensor, Tensor]],
    num_steps: int,
    learning_rate: float = 4e-3,
    class_weights: Tensor | None = None,
    report: Callable[[int, float], None] = lambda step, loss: None,
) -> None:
    """AdamW under a one-cycle schedule, in place, on `num_steps` batches of (images (N, 3, H, W), labels (N, H, W))."""
    optimiser = torch.optim.AdamW(network.parameters(), lr=learning_rate, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, learning_rate, total_steps=num_steps)
    network.train()
    for step, (images, labels) in zip(range(num_steps), batches, strict=False):
        loss = segmentation_loss(network(images), labels, class_weights)
        if not torch.isfinite(loss):
            raise FloatingPointError(f"the loss is {loss.item()} at step {step}; lower the learning rate")
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
        report(step + 1, loss.item())
    network.eval()
