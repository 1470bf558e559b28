"""A small residual network: trains in a minute on a CPU; for the demo, the tests, and machines with little to spare."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from stmg.networks.ddrnet import BasicBlock


class SmallNet(nn.Module):
    """Logits (N, num_classes, H/8, W/8) for an image (N, 3, H, W), from detail at 1/8 and context at 1/16."""

    def __init__(self, num_classes: int, planes: int = 16) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, planes, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(planes),
            nn.ReLU(inplace=True),
        )
        self.stage1 = _stage(planes, planes * 2, num_blocks=2)
        self.stage2 = _stage(planes * 2, planes * 3, num_blocks=3)
        self.stage3 = _stage(planes * 3, planes * 5, num_blocks=3)
        self.whole = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(planes * 5, planes * 5, 1))
        self.lateral = nn.Conv2d(planes * 5, planes * 3, 1)
        self.head = nn.Sequential(
            nn.Conv2d(planes * 3, planes * 3, 3, padding=1, bias=False),
            nn.BatchNorm2d(planes * 3),
            nn.ReLU(inplace=True),
            nn.Conv2d(planes * 3, num_classes, 1),
        )

    def forward(self, image: Tensor) -> Tensor:
        detail = self.stage2(self.stage1(self.stem(image)))
        context = self.stage3(detail)
        context = self.lateral(context + self.whole(context))
        context = F.interpolate(context, size=detail.shape[-2:], mode="bilinear", align_corners=False)
        logits: Tensor = self.head(detail + context)
        return logits


def _stage(inputs: int, planes: int, num_blocks: int) -> nn.Sequential:
    later = [BasicBlock(planes, planes) for _ in range(num_blocks - 1)]
    return nn.Sequential(BasicBlock(inputs, planes, stride=2), *later)
