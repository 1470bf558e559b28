import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import stmg
from stmg.errors import ModelError
from stmg.networks.ddrnet import SIZES, DDRNet
from stmg.networks.foreign import load_foreign, read_state_dict

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
