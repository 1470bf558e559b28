"""Tensors are warped as arrays are, at any precision."""

import numpy as np
import pytest
import torch

from stmg.gating.warping import warp_tensor
from stmg.streaming.flow import warp


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
