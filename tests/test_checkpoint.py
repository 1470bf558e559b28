import json

import numpy as np
import pytest
import torch

import stmg
from stmg.acceleration.accelerate import accelerate
from stmg.checkpoint import CARD, WEIGHTS, find, load_network
from stmg.networks import build
from stmg.scheduler import FixedPeriod
from zoo import MobileNet, panning

IMAGE = torch.rand(1, 3, 64, 96)


def card_for(network, name="small", **more):
    return stmg.Card(name, network.num_classes, (64, 96), **more)


@pytest.fixture
def saved(tmp_path):
    network = accelerate(build("small", 5), IMAGE)
    stmg.save(tmp_path / "model", network, card_for(network, class_names=tuple("abcde"), palette=((1, 2, 3),) * 5))
    return tmp_path / "model", network


@pytest.mark.parametrize(("generator", "two"), [(False, False), (True, False), (True, True)])
def test_what_is_saved_is_loaded_exactly(tmp_path, generator, two):
    network = accelerate(build("small", 5), IMAGE, mask_generator=generator, two_weight_sets=two)
    if two:
        with torch.no_grad():
            network.second.head.inner[3].bias.add_(1)
    stmg.save(tmp_path, network, card_for(network))
    again, card = load_network(tmp_path)
    assert card.mask_generator == generator
    state = again.state_dict()
    assert set(state) == set(network.state_dict())
    assert all(torch.equal(value, state[name]) for name, value in network.state_dict().items())


def test_a_segmenter_is_loaded_with_its_colours_and_settings(saved):
    folder, _ = saved
    segmenter = stmg.load(folder, device="cpu", scheduler=FixedPeriod(2), motion="none")
    assert segmenter.class_names == tuple("abcde")
    assert segmenter.palette.tolist() == [[1, 2, 3]] * 5
    assert segmenter.scheduler == FixedPeriod(2)
    assert segmenter.step(panning(1)[0]).labels.shape == (96, 128)


def test_half_precision_takes_half_the_room_and_changes_little(tmp_path, saved):
    folder, network = saved
    stmg.save(tmp_path / "half", network, card_for(network), half=True)
    assert (tmp_path / "half" / WEIGHTS).stat().st_size < 0.6 * (folder / WEIGHTS).stat().st_size
    frame = panning(1)[0]
    one, two = (stmg.load(path, device="cpu").step(frame).labels for path in (folder, tmp_path / "half"))
    assert (one == two).mean() > 0.98


def test_a_users_own_network_is_given_back_to_the_loader(tmp_path):
    model = MobileNet().eval()
    network = accelerate(model, IMAGE)
    stmg.save(tmp_path, network, card_for(network, name="my own"))
    again, _ = load_network(tmp_path, model=MobileNet())
    with torch.no_grad():
        assert torch.equal(again(IMAGE)[0], model(IMAGE)[0])
    with pytest.raises(ValueError, match=r"is of a network of your own; hand it over: stmg.load\(.*model=...\)"):
        load_network(tmp_path)


def test_tied_weights_are_saved(tmp_path):
    model = MobileNet()
    model.tied = model.classifier
    stmg.save(tmp_path, accelerate(model, IMAGE), stmg.Card("mine", 5, (64, 96)))
    again, _ = load_network(tmp_path, model=model)
    with torch.no_grad():
        assert torch.equal(again(IMAGE)[0], model.eval()(IMAGE)[0])


def test_a_checkpoint_of_another_network_is_refused(saved):
    folder, _ = saved
    content = json.loads((folder / CARD).read_text())
    (folder / CARD).write_text(json.dumps({**content, "num_classes": 7}))
    with pytest.raises(ValueError, match="another network than small"):
        stmg.load(folder)


def test_damaged_checkpoints_are_refused_in_one_line(saved, tmp_path):
    folder, _ = saved
    weights = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(weights[: len(weights) // 2])
    with pytest.raises(ValueError, match="cannot be read"):
        stmg.load(folder)
    (folder / CARD).write_text("{")
    with pytest.raises(ValueError, match="is damaged"):
        stmg.load(folder)
    (folder / CARD).unlink()
    with pytest.raises(ValueError, match="is no checkpoint"):
        stmg.load(folder)
    with pytest.raises(ValueError, match="no checkpoint at"):
        find(tmp_path / "nowhere")


def test_a_save_that_fails_leaves_the_old_checkpoint_whole(saved, monkeypatch):
    folder, network = saved
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("stmg.checkpoint.serialised", full)
    with pytest.raises(OSError, match="No space"):
        stmg.save(folder, network, card_for(network))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert isinstance(stmg.load(folder).palette, np.ndarray)
