import json
from pathlib import Path

import pytest
import torch
from torch import nn

from stmg.gating.measure import count_macs, count_parameters
from stmg.networks import NETWORKS, build
from stmg.networks.ddrnet import SIZES, DDRNet

OFFICIAL = Path(__file__).parent / "official"


@pytest.mark.parametrize(("name", "file"), [("ddrnet23-slim", "23_slim"), ("ddrnet23", "23"), ("ddrnet39", "39")])
def test_tensors_are_named_and_shaped_as_the_official_ones(name, file):
    official = json.loads((OFFICIAL / f"official_ddrnet_{file}_keys.json").read_text())
    network = DDRNet(SIZES[name], num_classes=19, auxiliary=True)
    assert {key: list(value.shape) for key, value in network.state_dict().items()} == official


@pytest.mark.parametrize(
    ("name", "macs", "head", "params"),
    [("ddrnet23-slim", 36.3e9, 2.46e9, 5.7e6), ("ddrnet39", 281.1e9, 19.5e9, 32.4e6)],
)
def test_costs_at_cityscapes_size(name, macs, head, params):
    with torch.device("meta"):
        network = build(name, num_classes=19).eval()
        image = torch.zeros(1, 3, 1024, 2048)
    features = []
    network.final_layer.register_forward_pre_hook(lambda _, inputs: features.append(inputs[0]))
    assert count_macs(lambda: network(image)) == pytest.approx(macs, rel=0.002)
    assert count_macs(lambda: network.final_layer(features[0])) == pytest.approx(head, rel=0.002)
    assert count_parameters(network) == pytest.approx(params, rel=0.005)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("size", [(64, 128), (90, 123), (33, 47)])
def test_any_size_gives_logits_at_a_fraction_of_it(name, size):
    logits = build(name, num_classes=4).eval()(torch.rand(1, 3, *size))
    stride = 8 if name in SIZES else 4
    assert logits.shape == (1, 4, -(-size[0] // stride), -(-size[1] // stride))


def test_auxiliary_head_comes_second():
    network = DDRNet(SIZES["ddrnet23-narrow"], num_classes=4, auxiliary=True).eval()
    logits, auxiliary = network(torch.rand(1, 3, 64, 64))
    assert logits.shape == auxiliary.shape
    assert not torch.equal(logits, auxiliary)


def test_narrow_is_smaller_than_slim_by_about_four():
    slim, narrow = (count_parameters(build(name, 19)) for name in ("ddrnet23-slim", "ddrnet23-narrow"))
    assert 3.5 < slim / narrow < 4.5


def test_gradients_reach_every_parameter():
    network = DDRNet(SIZES["ddrnet23-narrow"], num_classes=4, auxiliary=True)
    sum(part.sum() for part in network(torch.rand(2, 3, 64, 64))).backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_wrong_names_and_counts_are_refused_with_the_right_ones():
    with pytest.raises(ValueError, match="ddrnet23-slim"):
        build("ddrnet", 19)
    with pytest.raises(ValueError, match="at least 2"):
        build("small", 1)


def test_batch_norm_follows_every_convolution_of_a_block():
    block = build("ddrnet23-narrow", 4).layer1[0]
    assert [type(m) for m in block.children()] == [nn.Conv2d, nn.BatchNorm2d, nn.Conv2d, nn.BatchNorm2d]
