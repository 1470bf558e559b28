import pytest
import torch
from safetensors.torch import save_file

from stmg.errors import ModelError, SettingsError
from stmg.networks.foreign import read_state_dict
from stmg.networks.packing import pack, unpack

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
