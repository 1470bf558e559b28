"""The corrector: a small network for frames that the large one did not see; the paper's aggregation, lightly.

From the frame, an earlier frame warped onto it and the earlier one's logits, warped too, it predicts where those no
longer hold (`mask`) and what is there instead (`new`): logits = (1 - mask) * warped + mask * new.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from stmg.streaming.correction import GRID


class Corrector(nn.Module):
    """Logits (N, C, h, w) and a mask (N, 1, h, w) at an eighth of the frame, from images (N, H, W, 3) at its half.

    num_classes: C, at least 2.
    width: channels at an eighth of the frame; the cost grows with its square.
    """

    def __init__(self, num_classes: int, width: int = 48) -> None:
        super().__init__()
        self.num_classes, self.width = num_classes, width
        self.stem = nn.Sequential(_conv(6, width // 2, stride=2), _conv(width // 2, width, stride=2))
        self.join = _conv(width + num_classes + 1, width, kernel=1)
        self.fine = _Residual(width)
        self.coarse = nn.Sequential(_conv(width, 2 * width, stride=2), _Residual(2 * width))
        self.context = nn.Linear(2 * width, 2 * width)
        self.up = nn.Sequential(nn.Conv2d(2 * width, width, 1, bias=False), nn.BatchNorm2d(width))
        self.out = nn.Sequential(_conv(width, width), nn.Conv2d(width, num_classes + 1, 1))
        last = self.out[-1]
        assert isinstance(last, nn.Conv2d)
        assert last.bias is not None
        nn.init.constant_(last.bias[-1:], -2.0)  # it starts close to leaving everything as it is

    def forward(self, image: Tensor, before: Tensor, warped: Tensor) -> tuple[Tensor, Tensor]:
        """`image` and `before` are of bytes: the frame, and the earlier one warped onto it."""
        now, then = (each.permute(0, 3, 1, 2).float() / 64 - 2 for each in (image, before))
        size = warped.shape[-2:]
        difference = now - then
        unlike = F.interpolate(difference.abs().mean(1, keepdim=True), size=size, mode="bilinear", align_corners=False)
        x = self.stem(torch.cat([now, difference], 1))
        x = F.interpolate(x, size=size, mode="bilinear", align_corners=False) if x.shape[-2:] != size else x
        x = self.fine(self.join(torch.cat([x, warped.softmax(1), unlike], 1)))
        y = self.coarse(x)
        y = y + self.context(y.mean((2, 3)))[:, :, None, None]
        x = F.relu(x + F.interpolate(self.up(y), size=size, mode="bilinear", align_corners=False))
        out = self.out(x)
        mask = out[:, -1:].sigmoid()
        return (1 - mask) * warped + mask * out[:, :-1], mask


def fit_width(macs: float, num_classes: int, size: tuple[int, int]) -> int:
    """The width, a multiple of 8 from 16 to 96, whose cost at a frame size comes closest to `macs` from below."""
    widths = range(16, 97, 8)
    fitting = [width for width in widths if count_macs(width, num_classes, size) <= macs]
    return max(fitting, default=widths[0])


def count_macs(width: int, num_classes: int, size: tuple[int, int]) -> int:
    """Multiply-accumulates of a corrector on a frame of (H, W)."""
    cells = (size[0] // GRID) * (size[1] // GRID)
    stem = 4 * cells * (6 * width // 2) * 9 + cells * (width // 2) * width * 9
    fine = cells * (width * (width + num_classes + 1) + 2 * 9 * width * width)
    coarse = cells // 4 * (9 * width * 2 * width + 2 * 9 * 4 * width * width + 2 * width * width)
    return stem + fine + coarse + cells * (9 * width * width + width * (num_classes + 1))


class _Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = _conv(width, width)
        self.second = nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.second(self.first(x)))


def _conv(inputs: int, outputs: int, stride: int = 1, kernel: int = 3) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))
