"""A small residual network that trains in minutes on a CPU: for the demo, the tests and slow machines."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from stmg.networks.ddrnet import BasicBlock


class SmallNet(nn.Module):
    """Logits (N, num_classes, H/4, W/4) for an image (N, 3, H, W), from detail at 1/4 and context at 1/8 and 1/16."""

    def __init__(self, num_classes: int, planes: int = 16) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, planes, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(planes),
            nn.ReLU(inplace=True),
        )
        fine, middle, coarse = planes * 2, planes * 3, planes * 5
        self.stage1 = _stage(planes, fine, num_blocks=2)
        self.stage2 = _stage(fine, middle, num_blocks=3)
        self.stage3 = _stage(middle, coarse, num_blocks=3)
        self.whole = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(coarse, coarse, 1))
        self.to_middle = nn.Conv2d(coarse, middle, 1)
        self.to_fine = nn.Conv2d(middle, fine, 1)
        self.head = nn.Sequential(
            nn.Conv2d(fine, fine, 3, padding=1, bias=False),
            nn.BatchNorm2d(fine),
            nn.ReLU(inplace=True),
            nn.Conv2d(fine, num_classes, 1),
        )

    def forward(self, image: Tensor) -> Tensor:
        detail = self.stage1(self.stem(image))
        middle = self.stage2(detail)
        context = self.stage3(middle)
        context = self.to_middle(context + self.whole(context))
        context = self.to_fine(F.relu(middle + _resize_like(context, middle)))
        logits: Tensor = self.head(F.relu(detail + _resize_like(context, detail)))
        return logits


def _stage(inputs: int, planes: int, num_blocks: int) -> nn.Sequential:
    later = [BasicBlock(planes, planes) for _ in range(num_blocks - 1)]
    return nn.Sequential(BasicBlock(inputs, planes, stride=2), *later)


def _resize_like(x: Tensor, like: Tensor) -> Tensor:
    return F.interpolate(x, size=like.shape[-2:], mode="bilinear", align_corners=False)
