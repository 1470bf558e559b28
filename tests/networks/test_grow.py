import pytest
import torch

from stmg.networks import build, pretrain
from stmg.networks.grow import can_grow, grow


def trained(name):
    """A network whose batch-norms have seen something, so that no two channels are alike."""
    torch.manual_seed(1)
    network = build(name, 5)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.normal_(module.bias, std=0.2)
            torch.nn.init.normal_(module.running_mean, std=0.2)
            torch.nn.init.uniform_(module.running_var, 0.5, 1.5)
    return network.eval()


@pytest.mark.parametrize(
    ("small", "large"),
    [("ddrnet23-narrow", "ddrnet23-slim"), ("ddrnet23-slim", "ddrnet23"), ("ddrnet23-slim", "ddrnet39")],
)
def test_a_grown_network_computes_what_the_smaller_one_does(small, large):
    source, network = trained(small), build(large, 5).eval()
    network.load_state_dict(grow(network, source.state_dict()))
    image = torch.randn(1, 3, 64, 96)
    with torch.no_grad():
        expected, logits = source(image), network(image)
    assert expected.std() > 0.01
    torch.testing.assert_close(logits, expected, atol=1e-3 * float(expected.std()), rtol=1e-3)


def test_copies_of_a_channel_learn_different_things():
    source, network = trained("ddrnet23-narrow"), build("ddrnet23-slim", 5)
    network.load_state_dict(grow(network, source.state_dict()))
    network(torch.randn(2, 3, 64, 64)).square().mean().backward()
    gradient = network.layer1[0].conv1.weight.grad
    assert (gradient[0] - gradient[1]).abs().max() > 0.01 * gradient.abs().max()


def test_only_a_smaller_ddrnet_grows():
    slim = build("ddrnet23-slim", 5).state_dict()
    assert can_grow(build("ddrnet39", 5, auxiliary=True), slim)
    assert not can_grow(build("ddrnet23-slim", 5), slim)
    assert not can_grow(build("ddrnet23-narrow", 5), slim)
    assert not can_grow(build("small", 5), slim)
    assert not can_grow(build("ddrnet39", 5), build("small", 5).state_dict())


def test_a_recipe_grows_the_checkpoint_that_it_starts_from(tmp_path):
    from safetensors.torch import save_file

    source, network = trained("ddrnet23-narrow"), build("ddrnet23-slim", 5).eval()
    save_file(source.state_dict(), tmp_path / "small.safetensors")
    pretrain(network, "ddrnet23-slim", str(tmp_path / "small.safetensors"))
    image = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        expected = source(image)
        torch.testing.assert_close(network(image), expected, atol=1e-3 * float(expected.std()), rtol=1e-3)


def test_an_auxiliary_head_that_the_smaller_one_did_not_have_learns():
    source, network = trained("ddrnet23-slim"), build("ddrnet39", 5, auxiliary=True).train()
    network.load_state_dict(grow(network, source.state_dict()))
    *_, extra = network(torch.randn(2, 3, 64, 64))
    extra.square().mean().backward()
    assert network.conv1[0].weight.grad.abs().max() > 0
