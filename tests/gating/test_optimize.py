"""Folded and compiled networks give the same output as the original."""

import copy
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import stmg
from stmg.errors import ModelError
from stmg.gating.accelerate import accelerate
from stmg.gating.optimize import WholeNetwork, compile_full, fold_batch_norm
from stmg.gating.outputs import find_logits
from stmg.networks import build
from zoo import MobileNet, Plain, ResNetWithDecoder, TwoStreams

IMAGE = torch.rand(1, 3, 64, 96)


def stirred(network):
    """Batch-norms that do something, as after training."""
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
            nn.init.uniform_(module.weight, 0.8, 1.2)
            nn.init.normal_(module.bias, 0, 0.1)
    return network.eval()


@pytest.mark.parametrize("make", [lambda: build("ddrnet23-narrow", 5), ResNetWithDecoder, MobileNet])
def test_folding_keeps_the_output_and_removes_the_norms(make):
    network = accelerate(stirred(make()), IMAGE).network
    folded = copy.deepcopy(network)
    num_norms = sum(isinstance(module, nn.BatchNorm2d) for module in network.modules())
    number = fold_batch_norm(folded, IMAGE)
    assert number > num_norms / 2
    assert sum(isinstance(module, nn.BatchNorm2d) for module in folded.modules()) == num_norms - number
    with torch.no_grad():
        expected, got = (find_logits(one(IMAGE)) for one in (network, folded))
    assert torch.allclose(got, expected, atol=1e-4 * float(expected.abs().max()))


def test_one_pair_that_cannot_be_folded_does_not_keep_the_others():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.norm_one = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
            self.two, self.norm_two = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)

        def forward(self, x):
            y = self.one(x)
            return self.norm_two(self.two(self.norm_one(y).relu() + y))

    network = stirred(Mixed())
    before = network(IMAGE)
    assert fold_batch_norm(network, IMAGE) == 1
    assert torch.allclose(network(IMAGE), before, atol=1e-4)


def test_a_convolution_that_is_used_twice_is_not_folded():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3, padding=1)
            self.norm = nn.BatchNorm2d(4)

        def forward(self, x):
            y = self.conv(x)
            return self.norm(y) + y

    network = stirred(Shared())
    before = network(IMAGE)
    assert fold_batch_norm(network, IMAGE) == 0
    assert torch.equal(network(IMAGE), before)


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
