import copy
import math
import threading

import pytest
import torch
from torch import nn

from stmg.errors import ModelError
from stmg.gating.accelerate import accelerate
from stmg.gating.measure import MacCounter
from stmg.gating.outputs import find_logits
from stmg.networks import build
from zoo import MobileNet, Plain, ResNetWithDecoder, TwoStreams

IMAGE = torch.randn(1, 3, 64, 96)


def segformer():
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    sizes = [8, 16, 24, 32]
    config = SegformerConfig(num_labels=5, hidden_sizes=sizes, decoder_hidden_size=16, num_attention_heads=[1, 1, 2, 4])
    return SegformerForSemanticSegmentation(config)


FOUND = {
    "ddrnet23-slim": (lambda: build("ddrnet23-slim", 5), 6, "final_layer", 1),
    "ddrnet39": (lambda: build("ddrnet39", 5), 17, "final_layer", 1),
    "small": (lambda: build("small", 5), 5, "head", 1),
    "resnet18 with a decoder": (ResNetWithDecoder, 4, "decoder", 4),
    "segformer": (segformer, 4, "decode_head", 4),
    "inverted residuals": (MobileNet, 3, "classifier", 1),
    "blocks of tuples": (TwoStreams, 2, "head", 1),
}


@pytest.mark.parametrize("name", FOUND)
def test_blocks_and_head_are_found(name):
    make, num_blocks, head, num_maps = FOUND[name]
    network = accelerate(make().eval(), IMAGE)
    assert (len(network.blocks), network.head) == (num_blocks, head)
    assert len(network.full(IMAGE).features) == num_maps
    assert all(block.macs > 0 and block.params > 0 for block in network.blocks)
    assert network.notes == ()


@pytest.mark.parametrize("name", FOUND)
def test_open_gates_are_the_untouched_network_bit_for_bit(name):
    model = FOUND[name][0]().eval()
    network = accelerate(model, IMAGE)
    everything = (True,) * len(network.blocks)
    with torch.no_grad():
        expected = find_logits(model(IMAGE))
        assert torch.equal(find_logits(network(IMAGE)), expected)
        assert torch.equal(network.full(IMAGE).logits, expected)
        assert torch.equal(network.partial(IMAGE, everything).logits, expected)
        fresh = network.partial(IMAGE, everything, blend=lambda features: features)
        assert torch.equal(fresh.logits, expected)


@pytest.mark.parametrize("name", FOUND)
def test_closed_gates_do_not_call_their_blocks_and_are_the_identity(name):
    network = accelerate(FOUND[name][0]().eval(), IMAGE)
    called, seen = [], {}
    for block in network.blocks:
        gate = network.network.get_submodule(block.name)
        gate.inner.register_forward_hook(lambda *_, name=block.name: called.append(name))
        gate.register_forward_hook(
            lambda _, args, kwargs, output, name=block.name: seen.update({name: (args, kwargs, output)}),
            with_kwargs=True,
        )
    with torch.no_grad():
        network.partial(IMAGE, (False,) * len(network.blocks))
    assert called == []
    assert len(seen) == len(network.blocks)
    for args, kwargs, output in seen.values():
        leaves = torch.utils._pytree.tree_leaves((args, kwargs))
        outputs = [leaf for leaf in torch.utils._pytree.tree_leaves(output) if leaf is not None]
        assert all(any(out is leaf for leaf in leaves) for out in outputs)


@pytest.mark.parametrize("name", FOUND)
def test_executed_macs_are_those_of_the_open_blocks(name):
    network = accelerate(FOUND[name][0]().eval(), IMAGE)
    costs = network.costs(IMAGE)
    keep = tuple(index % 2 == 0 for index in range(len(network.blocks)))
    with torch.no_grad(), MacCounter() as meter:
        network.partial(IMAGE, keep)
    assert meter.macs == costs.of_pass(keep)
    assert meter.macs < costs.network


def test_first_of_each_stage_and_single_blocks_stay():
    names = [block.name for block in accelerate(build("ddrnet23-slim", 5), IMAGE).blocks]
    assert sorted(names) == ["layer1.1", "layer2.1", "layer3.1", "layer3_.1", "layer4.1", "layer4_.1"]
    names = [block.name for block in accelerate(MobileNet(), IMAGE).blocks]
    assert names == ["features.3", "features.4", "features.6"]


def test_the_users_model_is_left_alone():
    model = build("small", 5).train()
    before = copy.deepcopy(model.state_dict())
    network = accelerate(model, IMAGE)
    assert model.training
    assert [type(m).__name__ for m in model.stage1] == ["BasicBlock", "BasicBlock"]
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    with torch.no_grad():
        next(network.network.parameters()).zero_()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_names_of_tensors_survive_gating_and_weights_come_back_out():
    model = build("small", 5).eval()
    network = accelerate(model, IMAGE)
    assert set(network.network.state_dict()) == set(model.state_dict())
    other = build("small", 5).eval()
    network.network.load_state_dict(other.state_dict())
    plain = network.plain()
    assert type(plain.stage1[1]) is type(model.stage1[1])
    with torch.no_grad():
        assert torch.equal(plain(IMAGE), other(IMAGE))


def test_soft_gates_blend_block_and_identity():
    network = accelerate(build("small", 5), IMAGE)
    number, blocks = 2, len(network.blocks)
    image = torch.randn(number, 3, 64, 96)
    with torch.no_grad():
        opened = network.partial(image, torch.ones(number, blocks)).logits
        closed = network.partial(image, torch.zeros(number, blocks)).logits
        mixed = network.partial(image, torch.tensor([[1.0] * blocks, [0.0] * blocks])).logits
        assert torch.allclose(opened, network.partial(image, (True,) * blocks).logits, atol=1e-5)
        assert torch.allclose(closed, network.partial(image, (False,) * blocks).logits, atol=1e-5)
    assert torch.allclose(mixed[0], opened[0], atol=1e-5)
    assert torch.allclose(mixed[1], closed[1], atol=1e-5)


def test_a_half_open_gate_is_the_value_computed_by_hand():
    network = accelerate(build("small", 5), IMAGE)
    gate = network.network.get_submodule(network.blocks[0].name)
    x = torch.rand(1, 32, 8, 8)
    keep = torch.full((1, len(network.blocks)), 0.25)
    from stmg.gating.gates import Pass, running

    with torch.no_grad(), running(Pass(keep=keep)):
        out = gate(x)
    with torch.no_grad():
        assert torch.allclose(out, x + 0.25 * (gate.inner(x) - x))


def test_gradients_reach_soft_gates():
    network = accelerate(build("small", 5), IMAGE)
    keep = torch.full((1, len(network.blocks)), 0.5, requires_grad=True)
    network.partial(IMAGE, keep).logits.square().sum().backward()
    assert (keep.grad != 0).all()


def test_two_threads_over_one_set_of_weights_do_not_disturb_each_other():
    network = accelerate(build("small", 5).eval(), IMAGE)
    closed, opened = (False,) * len(network.blocks), (True,) * len(network.blocks)
    expected = {keep: network.partial(IMAGE, keep).logits.detach() for keep in (closed, opened)}
    wrong = []

    def run(keep):
        with torch.no_grad():
            outputs = [network.partial(IMAGE, keep).logits for _ in range(30)]
        wrong.extend(keep for logits in outputs if not torch.equal(logits, expected[keep]))

    threads = [threading.Thread(target=run, args=(keep,)) for keep in (closed, opened, closed)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_second_set_of_weights_is_a_second_set():
    network = accelerate(build("small", 5), IMAGE, two_weight_sets=True)
    keep = (True,) * len(network.blocks)
    with torch.no_grad():
        assert torch.equal(network.partial(IMAGE, keep).logits, network.full(IMAGE).logits)
        for parameter in network.second.parameters():
            parameter.mul_(1.1)
        assert not torch.equal(network.partial(IMAGE, keep).logits, network.full(IMAGE).logits)


def test_a_network_without_blocks_or_head_says_so_and_still_blends():
    network = accelerate(Plain(), IMAGE)
    assert (network.blocks, network.head) == ((), None)
    assert "no residual block" in network.notes[0]
    assert "no head" in network.notes[1]
    half = network.partial(IMAGE, (), blend=lambda maps: [maps[0] / 2])
    assert torch.allclose(half.logits, network.full(IMAGE).logits / 2)


def test_named_blocks_and_heads_override():
    network = accelerate(ResNetWithDecoder(), IMAGE, blocks=["layer2.1"], head="decoder.classify")
    assert [block.name for block in network.blocks] == ["layer2.1"]
    assert network.full(IMAGE).features[0].shape[1] == 16


def test_wrong_names_list_the_right_ones():
    with pytest.raises(ValueError, match=r"no head 'clasifier'; there are: classifier"):
        accelerate(MobileNet(), IMAGE, head="clasifier")
    with pytest.raises(ValueError, match=r"no block 'features.33'; there are: features.3, features.4"):
        accelerate(MobileNet(), IMAGE, blocks=["features.33"])
    with pytest.raises(ValueError, match="another shape"):
        accelerate(MobileNet(), IMAGE, blocks=["features.2"])
    with pytest.raises(ValueError, match="no 'logits'; it is a mapping with out"):
        accelerate(ResNetWithDecoder(), IMAGE, output="logits")


def test_a_head_that_takes_no_maps_is_refused():
    class Tokens(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 8, 8)
            self.head = nn.Linear(8, 5)

        def forward(self, x):
            y = self.conv(x)
            tokens = self.head(y.flatten(2).transpose(1, 2))
            return tokens.transpose(1, 2).reshape(len(x), 5, *y.shape[-2:])

    with pytest.raises(ValueError, match="does not take feature maps"):
        accelerate(Tokens(), IMAGE, head="head")
    assert accelerate(Tokens(), IMAGE).head is None


def test_blocks_are_timed_only_where_that_is_wanted():
    assert all(math.isnan(block.ms) for block in accelerate(build("small", 5), IMAGE).blocks)
    assert all(block.ms > 0 for block in accelerate(build("small", 5), IMAGE, timed=True).blocks)


def test_wrong_examples_are_refused():
    with pytest.raises(ValueError, match="image batch"):
        accelerate(MobileNet(), torch.zeros(3, 64, 64))
    with pytest.raises(ModelError, match="VideoSegmenter"):
        accelerate(lambda image: image, IMAGE)


def test_output_objects_and_positions():
    class Output:
        logits = torch.zeros(1, 2, 3, 4)

    assert find_logits(Output()).shape == (1, 2, 3, 4)
    assert find_logits([torch.zeros(5), torch.zeros(1, 2, 3, 4)]).shape == (1, 2, 3, 4)
    assert find_logits((torch.zeros(1, 9, 3, 4), torch.zeros(1, 2, 3, 4)), 1).shape == (1, 2, 3, 4)
    with pytest.raises(ValueError, match="no logits of shape"):
        find_logits(torch.zeros(1, 2, 3))
