import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from stmg.errors import ModelError
from stmg.gating.accelerate import accelerate
from stmg.gating.residual import HOOKED, explain_unlisted
from stmg.segmenter import VideoSegmenter
from zoo import Plain, panning

IMAGE = torch.randn(1, 3, 64, 96)


class Odd(nn.Module):
    """A network of two blocks with something unusual about it."""

    def __init__(self, head=None):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 4, 1)
        self.blocks = nn.Sequential(*[Residual() for _ in range(3)])
        self.head = head or nn.Conv2d(8, 5, 1)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.skip = nn.Sequential()
        self.conv = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8))

    def forward(self, x):
        return self.skip(x) + self.conv(x)


def test_a_head_that_writes_on_its_input_does_not_spoil_the_features():
    network = accelerate(Odd(nn.Sequential(nn.ReLU(inplace=True), nn.Conv2d(8, 5, 1))), IMAGE, head="head")
    with torch.no_grad():
        assert float(network.full(IMAGE).features[0].min()) < 0


def test_a_network_that_writes_on_a_blocks_output_does_not_write_on_its_input():
    class Writes(Odd):
        def forward(self, x):
            a = self.blocks[0](self.stem(x))
            b = self.blocks[1](a)
            b += 1
            return self.head(a + b)

    network = accelerate(Writes(), IMAGE, blocks=["blocks.1"])
    with torch.no_grad():
        a = network.network.blocks[0](network.network.stem(IMAGE))
        expected = network.network.head(a + (a + 1))
        assert torch.equal(network.partial(IMAGE, (False,)).logits, expected)


class Collecting(Odd):
    """Takes what its blocks give from a hook, as transformers' backbones do."""

    def __init__(self):
        super().__init__()
        self.collected = []
        for block in self.blocks:
            block.register_forward_hook(lambda _, args, output: self.collected.append(output))

    def forward(self, x):
        self.collected.clear()
        self.blocks(self.stem(x))
        return self.head(self.pick())

    def pick(self):
        return self.collected[2]

    def __deepcopy__(self, memo):  # a hook is of the network that registered it
        copied = type(self)()
        copied.load_state_dict(self.state_dict())
        return copied


class CollectingOdd(Collecting):
    """Does not fall over when one is missing."""

    def pick(self):
        return self.collected[-1]


@pytest.mark.parametrize("kind", [Collecting, CollectingOdd])
def test_blocks_whose_outputs_are_collected_by_hooks_are_not_listed(kind):
    network = accelerate(kind().eval(), IMAGE)
    assert network.blocks == ()
    assert explain_unlisted(network, (64, 96))[HOOKED] == ("blocks.1", "blocks.2")
    with torch.no_grad():
        assert torch.equal(network.full(IMAGE).logits, network.network(IMAGE))
    with pytest.raises(ModelError, match=r"blocks\.2 cannot be skipped: the network collects"):
        accelerate(kind().eval(), IMAGE, blocks=["blocks.2"])


@pytest.mark.parametrize("name", ["DPT", "Beit"])
def test_backbones_of_transformers_that_collect_by_hooks_are_carried_as_any_other(name):
    import transformers

    own = {
        "DPT": {"backbone_out_indices": [0, 1, 2, 3], "neck_hidden_sizes": [8] * 4, "fusion_hidden_size": 8},
        "Beit": {"out_indices": [1, 2, 3, 4], "patch_size": 16},
    }
    config = getattr(transformers, f"{name}Config")(
        hidden_size=16, num_hidden_layers=4, num_attention_heads=2, intermediate_size=16, image_size=64, **own[name]
    )
    model = getattr(transformers, f"{name}ForSemanticSegmentation")(config).eval()
    video = panning(6, (64, 64))
    segmenter = VideoSegmenter(model)
    assert segmenter.runtime.num_blocks == 0
    for mode in ("offline", "online", "realtime"):
        assert len(list(segmenter.another(mode=mode).stream(video))) == 6


def test_a_head_that_is_called_twice_is_no_head():
    class Twice(Odd):
        def forward(self, x):
            y = self.blocks(self.stem(x))
            return self.head(y) + self.head(y.flip(-1))

    assert accelerate(Twice(), IMAGE).head is None
    with pytest.raises(ValueError, match="called more than once"):
        accelerate(Twice(), IMAGE, head="head")


def test_a_wrapped_network_is_not_its_own_head():
    network = accelerate(nn.Sequential(Plain()), IMAGE)
    assert network.head is None
    assert len(network.notes) == 2


def test_a_block_that_writes_on_its_input_is_not_taken_for_residual():
    class Squeeze(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 8, 1))

        def forward(self, x):
            return x.mul_(torch.sigmoid(self.gate(x)))

    network = Odd()
    network.blocks = nn.Sequential(Squeeze(), Squeeze())
    assert accelerate(network, IMAGE).blocks == ()


def test_blocks_with_layers_in_between_and_an_empty_first_child_are_found():
    network = Odd()
    network.blocks = nn.Sequential(Residual(), nn.Dropout(0.1), Residual(), nn.Dropout(0.1), Residual())
    assert [block.name for block in accelerate(network, IMAGE).blocks] == ["blocks.2", "blocks.4"]


def test_a_module_under_two_names_is_gated_under_both():
    network = Odd()
    network.alias = network.blocks[1]
    network.forward = None
    network.__class__ = type("Aliased", (Odd,), {"forward": lambda self, x: self.head(self.alias(self.stem(x)))})
    del network.forward
    gated = accelerate(network, IMAGE, blocks=["blocks.1"])
    calls = []
    gated.network.alias.inner.register_forward_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        gated.partial(IMAGE, (False,))
    assert calls == []


def test_wrapped_compiled_and_scripted_networks():
    model = Odd().eval()
    assert len(accelerate(nn.DataParallel(model), IMAGE).blocks) == 2
    assert len(accelerate(AveragedModel(model), IMAGE).blocks) == 2
    assert len(accelerate(torch.compile(model), IMAGE).blocks) == 2
    scripted = accelerate(torch.jit.script(model), IMAGE)
    assert (scripted.blocks, scripted.head) == ((), None)
    with torch.no_grad():
        assert torch.equal(scripted.full(IMAGE).logits, model(IMAGE))


def test_a_network_that_does_not_run_on_the_example_says_why():
    class Needs(Odd):
        def forward(self, *, pixels):
            return super().forward(pixels)

    with pytest.raises(ValueError, match="forward takes the image alone"):
        accelerate(Needs(), IMAGE)


def test_blocks_inside_each_other_are_refused():
    with pytest.raises(ValueError, match=r"'blocks.1' lies inside block 'blocks'"):
        accelerate(Odd(), IMAGE, blocks=["blocks", "blocks.1"])


class Negated(nn.Module):
    """A wrapper of a user's own, that calls the network inside by the name that PyTorch's wrappers have for it."""

    def __init__(self, network):
        super().__init__()
        self.module = network

    def forward(self, x):
        return -self.module(x)[:, :2]


def test_a_wrapper_of_ones_own_is_part_of_the_network():
    model = Negated(Odd()).eval()
    network = accelerate(model, IMAGE)
    assert (network.num_classes, len(network.blocks)) == (2, 2)
    with torch.no_grad():
        assert torch.equal(network(IMAGE), model(IMAGE))
        wrapped = accelerate(nn.DataParallel(torch.compile(model)), IMAGE)
        assert torch.equal(wrapped(IMAGE), model(IMAGE))


def test_what_a_head_writes_on_its_input_shows_whatever_the_example():
    model = Odd(nn.Sequential(nn.ReLU(inplace=True), nn.Conv2d(8, 5, 1)))
    for module in (model.stem, *(block.conv[0] for block in model.blocks)):
        nn.init.zeros_(module.bias)  # so that zeros stay zeros
    network = accelerate(model, torch.zeros_like(IMAGE), head="head")
    with torch.no_grad():
        assert float(network.full(IMAGE).features[0].min()) < 0
