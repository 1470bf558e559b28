"""Features are warped and blended where nothing changed."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from stmg.gating.aggregation import aggregate, downscale, warp_tensor
from stmg.streaming.flow import warp


def test_a_mask_of_zero_gives_the_previous_features_back_and_one_the_current():
    now, before = torch.rand(1, 4, 6, 8), torch.rand(1, 4, 6, 8)
    assert torch.equal(aggregate([now], [before], torch.zeros(1, 1, 3, 4))[0], before)
    assert torch.equal(aggregate([now], [before], torch.ones(1, 1, 3, 4))[0], now)


@pytest.mark.parametrize("scale", [0.76, 0.7, 0.6875, 0.55])
def test_features_of_a_smaller_frame_lie_on_those_of_the_whole(scale):
    network = nn.AvgPool2d(16, ceil_mode=True)  # rounds the size of its maps up, as strided convolutions do
    image = torch.linspace(0, 30, 480).expand(1, 1, 352, 480)  # rises by 1 from cell to cell
    whole, everything = network(image), torch.ones(1, 1, 1, 1)

    def offset(smaller: torch.Tensor) -> float:
        (blended,) = aggregate([network(smaller)], [whole], everything)
        return float((blended - whole)[..., 2:-2].abs().max())

    assert offset(downscale(image, scale)) < 0.02
    if scale == 0.76:  # the test can fail: at that scale alone maps are off by a quarter of a cell
        assert offset(F.interpolate(image, scale_factor=scale, mode="bilinear")) > 0.2


@pytest.mark.parametrize("size", [(6, 8), (12, 16), (45, 60)])
def test_tensors_and_arrays_warp_alike(size):
    rng = np.random.default_rng(0)
    flow = rng.normal(0, 0.05, (6, 8, 2)).astype(np.float32)
    values = rng.random((*size, 3)).astype(np.float32)
    tensor = torch.from_numpy(values).permute(2, 0, 1)[None]
    warped = warp_tensor(tensor, flow)[0].permute(1, 2, 0).numpy()
    assert np.allclose(warped, warp(values, flow), atol=0.03)  # OpenCV samples at 1/32 of a pixel


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_features_warp_as_precisely(dtype):
    values = torch.arange(480, dtype=torch.float32).expand(1, 1, 4, 480) / 480
    still = np.zeros((2, 4, 2), np.float32)
    assert torch.allclose(warp_tensor(values.to(dtype), still).float(), values.to(dtype).float(), atol=1e-6)
