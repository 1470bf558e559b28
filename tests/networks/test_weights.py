"""Foreign weights load exactly or raise; packed weights are restored up to rounding."""

import errno
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import stmg
from stmg.errors import ModelError, SettingsError
from stmg.networks.ddrnet import SIZES, DDRNet
from stmg.networks.weights import load_foreign, pack, read_state_dict, unpack, write_state, write_tensors

HEADS = ("final_layer.", "seghead_extra.")


def narrow(num_classes=19, auxiliary=False):
    return DDRNet(SIZES["ddrnet23-narrow"], num_classes, auxiliary).eval()


@pytest.mark.parametrize("prefix", ["", "module.", "model.", "module.model."])
@pytest.mark.parametrize("wrapper", [None, "state_dict"])
def test_an_official_checkpoint_loads_exactly(tmp_path, prefix, wrapper):
    official, ours = narrow(auxiliary=True), narrow()
    state = {prefix + name: value for name, value in official.state_dict().items()}
    torch.save({wrapper: state, "epoch": 7} if wrapper else state, tmp_path / "official.pth")
    report = load_foreign(ours, read_state_dict(tmp_path / "official.pth"), HEADS)
    image = torch.rand(1, 3, 64, 96)
    assert torch.equal(ours(image), official(image)[0])
    assert report.fresh == ()
    assert {name.split(".")[0] for name in report.unused} == {"seghead_extra"}


def test_imagenet_weights_leave_the_head_fresh(tmp_path):
    official, ours = narrow(), narrow()
    state = {k: v for k, v in official.state_dict().items() if not k.startswith(("final_layer", "spp"))}
    state["linear.weight"] = torch.rand(1000, 8)
    save_file(state, tmp_path / "imagenet.safetensors")
    before = ours.final_layer.conv2.weight.clone()
    report = load_foreign(ours, read_state_dict(tmp_path / "imagenet.safetensors"), (*HEADS, "spp."))
    assert torch.equal(ours.layer4[0].conv1.weight, official.layer4[0].conv1.weight)
    assert torch.equal(ours.final_layer.conv2.weight, before)
    assert report.unused == ("linear.weight",)
    assert "final_layer.conv2.weight" in report.fresh


def test_another_class_count_is_reported_not_loaded():
    ours = narrow(num_classes=11)
    report = load_foreign(ours, narrow(num_classes=19).state_dict(), HEADS)
    assert set(report.fresh) == {"final_layer.conv2.weight", "final_layer.conv2.bias"}
    assert ours.final_layer.conv2.bias.shape == (11,)


def test_another_network_is_refused_by_name_and_shape():
    slim = DDRNet(SIZES["ddrnet23-slim"], 19).state_dict()
    with pytest.raises(ValueError, match=r"another network: conv1\.0\.weight is 32x3x3x3, the network's 16x3x3x3"):
        load_foreign(narrow(), slim, HEADS)
    with pytest.raises(ValueError, match="is missing"):
        load_foreign(narrow(), {"something": torch.zeros(1)}, HEADS)


def test_weights_that_are_not_finite_are_refused():
    state = narrow().state_dict()
    state["layer1.0.conv1.weight"][0, 0, 0, 0] = float("nan")
    with pytest.raises(ValueError, match=r"not finite.*layer1\.0\.conv1\.weight"):
        load_foreign(narrow(), state, HEADS)


def test_files_that_are_no_checkpoints_are_refused_in_one_line(tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        read_state_dict(tmp_path / "none.pth")
    (tmp_path / "text.pth").write_text("hello")
    with pytest.raises(ValueError, match=r"cannot be read|more than tensors"):
        read_state_dict(tmp_path / "text.pth")
    torch.save({"epoch": 3}, tmp_path / "empty.pth")
    with pytest.raises(ValueError, match="holds no tensors"):
        read_state_dict(tmp_path / "empty.pth")
    for content in ([torch.zeros(2)], torch.zeros(2), 5, 0, {0: torch.zeros(2)}):
        torch.save(content, tmp_path / "nameless.pt")
        with pytest.raises(ModelError, match="holds no tensors under names"):
            read_state_dict(tmp_path / "nameless.pt")


def test_a_pickled_module_is_refused_without_being_opened(tmp_path):
    torch.save(nn.Linear(2, 2), tmp_path / "module.pth")
    with pytest.raises(ValueError, match="could run code"):
        read_state_dict(tmp_path / "module.pth")


class Wrapped(nn.Module):
    """A network that has a part of the same name as a wrapper's prefix."""

    def __init__(self):
        super().__init__()
        self.model = nn.Linear(2, 2)


def test_prefixes_go_only_where_the_network_has_none_of_its_own(tmp_path):
    one, two = Wrapped(), Wrapped()
    torch.save({f"module.{name}": value for name, value in one.state_dict().items()}, tmp_path / "wrapped.pth")
    load_foreign(two, read_state_dict(tmp_path / "wrapped.pth"))
    assert torch.equal(one.model.weight, two.model.weight)


def test_a_checkpoint_of_ours_is_read_as_any_other(tmp_path):
    first, second = narrow(), narrow()
    stmg.save(stmg.accelerate(first, torch.zeros(1, 3, 64, 64)), tmp_path)
    load_foreign(second, read_state_dict(tmp_path / "model.safetensors"))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


TENSORS = {
    "conv.weight": torch.linspace(-3, 5, 4 * 3 * 9).reshape(4, 3, 3, 3),
    "norm.weight": torch.linspace(0.5, 2, 4),
    "norm.steps": torch.tensor(7),
    "empty.weight": torch.zeros(2, 3),
}


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_what_was_packed_comes_back_but_for_rounding(bits):
    again = unpack(pack(TENSORS, bits))
    assert again.keys() == TENSORS.keys()
    for name, value in TENSORS.items():
        step = value.abs().max() * {8: 1 / 254, 16: 1 / 1024, 32: 0}[bits] + 1e-12
        assert (again[name].float() - value.float()).abs().max() <= step


def test_each_channel_has_its_own_scale():
    weight = torch.stack((torch.full((3, 3), 1000.0), torch.full((3, 3), 0.001)))
    assert torch.allclose(unpack(pack({"weight": weight}, 8))["weight"], weight, rtol=1e-6)


def test_scales_of_another_number_of_channels_are_refused():
    packed = pack(TENSORS, 8)
    packed["conv.weight.scale"] = torch.ones(3)
    with pytest.raises(ModelError, match="3 scales for 4 channels"):
        unpack(packed)


def test_a_parameter_that_is_called_scale_is_left_alone():
    tensors = {"layer.scale": torch.ones(2, 2), "layer": torch.ones(2)}
    assert unpack(tensors).keys() == tensors.keys()


def test_other_numbers_of_bits_are_refused():
    with pytest.raises(SettingsError, match="bits is one of 8, 16, 32"):
        pack(TENSORS, 4)


def test_a_packed_file_is_read_as_the_weights_it_was_made_of(tmp_path):
    weights = {"conv.weight": torch.linspace(-3, 5, 4 * 3 * 9).reshape(4, 3, 3, 3)}
    save_file(pack(weights, 8), tmp_path / "model.safetensors")
    read = read_state_dict(tmp_path / "model.safetensors")
    assert list(read) == ["conv.weight"]
    assert torch.allclose(read["conv.weight"], weights["conv.weight"], atol=0.03)


WRITTEN = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([True, False])}


def test_what_is_read_is_what_was_written(tmp_path):
    write_tensors(WRITTEN, tmp_path / "tensors.safetensors")
    write_state({"step": 3, "tensors": WRITTEN}, tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    assert state["step"] == 3
    for read in (load_file(tmp_path / "tensors.safetensors"), state["tensors"]):
        assert read.keys() == WRITTEN.keys()
        assert all(torch.equal(read[name], value) for name, value in WRITTEN.items())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("write", [write_tensors, write_state])
def test_a_full_disk_is_reported_in_the_words_of_the_system(write):
    with pytest.raises(OSError, match="No space left") as caught:
        write(WRITTEN, Path("/dev/full"))
    assert caught.value.errno == errno.ENOSPC
