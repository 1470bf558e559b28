from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import stmg
from stmg.errors import ModelError
from stmg.gating.accelerate import accelerate
from stmg.gating.compilation import WholeNetwork, compile_full
from stmg.networks import build
from zoo import MobileNet, Plain, ResNetWithDecoder, TwoStreams

SIZE = (64, 96)


class WritesOnItsInput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Conv2d(3, 8, 3, padding=1), _InPlace()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


class _InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.classify = nn.Conv2d(8, 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(x.relu_())


@pytest.mark.parametrize("make", [ResNetWithDecoder, MobileNet, TwoStreams, WritesOnItsInput, Plain])
def test_in_one_piece_it_gives_what_it_gave(make):
    torch.manual_seed(0)
    image = torch.rand(1, 3, *SIZE)
    network = accelerate(make(), image)
    with torch.inference_mode():
        expected, (features, logits) = network.full(image), WholeNetwork(network)(image)
    torch.testing.assert_close(logits, expected.logits)
    assert len(features) == len(expected.features)
    for mine, theirs in zip(features, expected.features, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_it_shares_the_weights():
    network = accelerate(build("small", 5), torch.zeros(1, 3, *SIZE))
    mine = {tensor.data_ptr() for tensor in WholeNetwork(network).parameters()}
    assert mine == {tensor.data_ptr() for tensor in network.network.parameters()}


def test_a_compiled_stream_gives_the_same_labels(monkeypatch):
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))  # needs no C++ compiler
    network = accelerate(build("small", 5), torch.zeros(1, 3, *SIZE))
    frames = [np.random.default_rng(n).integers(0, 255, (*SIZE, 3), np.uint8) for n in range(3)]
    plain, faster = (stmg.VideoSegmenter(stmg.TorchRuntime(network)) for _ in range(2))
    faster.runtime.compile()
    assert faster.runtime.compiled
    for frame in frames:
        assert np.array_equal(plain.step(frame).labels, faster.step(frame).labels)


def test_a_compiler_that_fails_is_one_line(monkeypatch):
    def broken(*_):
        raise OSError("no compiler")

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=broken))
    full = compile_full(accelerate(build("small", 5), torch.zeros(1, 3, *SIZE)))
    with pytest.raises(ModelError, match=r"torch.compile does not work here, do without: .*no compiler"):
        full(torch.zeros(1, 3, *SIZE))
