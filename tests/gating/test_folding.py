import copy

import pytest
import torch
from torch import nn

from stmg.gating.accelerate import accelerate, find_logits
from stmg.gating.folding import fold_batch_norm
from stmg.networks import build
from zoo import MobileNet, ResNetWithDecoder

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
