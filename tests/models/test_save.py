import gc
import json
import shutil

import numpy as np
import pytest
import torch
from torch import nn

import stmg
from clips import clip
from stmg.errors import ModelError, SettingsError
from stmg.gating.accelerate import accelerate
from stmg.models.card import CARD, read_card
from stmg.models.names import WEIGHTS, find_checkpoint
from stmg.models.torch_models import load_network
from stmg.networks import build
from stmg.networks.corrector import SHAPES, Corrector
from stmg.runtimes.manifest import MANIFEST
from stmg.runtimes.torch_corrector import TorchCorrector
from stmg.streaming.masks import Masking
from stmg.streaming.schedulers import FixedPeriod, Level
from zoo import MobileNet, colors, panning

IMAGE = torch.rand(1, 3, 64, 96)


def card_for(network, name="small", **more):
    return stmg.Card(name, network.num_classes, (64, 96), **more)


@pytest.fixture
def saved(tmp_path):
    network = accelerate(build("small", 5), IMAGE)
    stmg.save(network, tmp_path / "model", card_for(network, class_names=tuple("abcde"), palette=((1, 2, 3),) * 5))
    return tmp_path / "model", network


@pytest.mark.parametrize(("generator", "two"), [(False, False), (True, False), (True, True)])
def test_what_is_saved_is_loaded_exactly(tmp_path, generator, two):
    network = accelerate(build("small", 5), IMAGE, mask_generator=generator, two_weight_sets=two)
    if two:
        with torch.no_grad():
            network.second.head.inner[3].bias.add_(1)
    stmg.save(network, tmp_path, card_for(network))
    again, card = load_network(tmp_path)
    assert card.mask_generator == generator
    state = again.state_dict()
    assert set(state) == set(network.state_dict())
    assert all(torch.equal(value, state[name]) for name, value in network.state_dict().items())


def test_a_segmenter_is_loaded_with_its_colors_and_settings(saved):
    folder, _ = saved
    segmenter = stmg.load(folder, device="cpu", scheduler=FixedPeriod(2), motion="none")
    assert segmenter.class_names == tuple("abcde")
    assert segmenter.palette.tolist() == [[1, 2, 3]] * 5
    assert segmenter.settings.scheduler == FixedPeriod(2)
    assert segmenter.step(panning(1, (64, 96))[0]).labels.shape == (64, 96)


@pytest.mark.parametrize(("bits", "share"), [(16, 0.6), (8, 0.35)])
def test_fewer_bits_take_less_room_and_change_little(tmp_path, saved, bits, share):
    folder, network = saved
    stmg.save(network, tmp_path / "short", card_for(network), bits=bits)
    assert (tmp_path / "short" / WEIGHTS).stat().st_size < share * (folder / WEIGHTS).stat().st_size
    frame = panning(1, (64, 96))[0]
    one, two = (stmg.load(path, device="cpu").step(frame).labels for path in (folder, tmp_path / "short"))
    assert (one == two).mean() > 0.98


def test_a_users_own_network_is_given_back_to_the_loader(tmp_path):
    model = MobileNet().eval()
    network = accelerate(model, IMAGE)
    stmg.save(network, tmp_path, card_for(network, name="my own"))
    again, _ = load_network(tmp_path, model=MobileNet())
    with torch.no_grad():
        assert torch.equal(again(IMAGE)[0], model(IMAGE)[0])
    with pytest.raises(
        ValueError, match=r"is of a network of your own; say what builds it: --network .*stmg.load\(.*model=...\)"
    ):
        load_network(tmp_path)


def test_tied_weights_are_saved(tmp_path):
    model = MobileNet()
    model.tied = model.classifier
    stmg.save(accelerate(model, IMAGE), tmp_path, stmg.Card("mine", 5, (64, 96)))
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
    with pytest.raises(ValueError, match="is not a checkpoint"):
        stmg.load(folder)
    with pytest.raises(ValueError, match="no checkpoint at"):
        find_checkpoint(tmp_path / "nowhere")


def test_a_save_that_fails_leaves_the_old_checkpoint_whole(saved, monkeypatch):
    folder, network = saved
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("stmg.models.save.write_tensors", fail)
    with pytest.raises(OSError, match="No space"):
        stmg.save(network, folder, card_for(network))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert isinstance(stmg.load(folder).palette, np.ndarray)


def test_the_names_of_the_readme_are_each_others_inverse(tmp_path):
    network = accelerate(build("small", 5), IMAGE)
    frame = panning(1, (64, 96))[0]
    expected = stmg.VideoSegmenter(network, device="cpu").step(frame).labels
    loaded = stmg.load(stmg.save(network, tmp_path / "package"), device="cpu")  # a network of the package by itself
    assert np.array_equal(loaded.step(frame).labels, expected)
    mine = MobileNet().eval()
    stmg.save(accelerate(mine, IMAGE), tmp_path / "mine")
    expected = stmg.VideoSegmenter(accelerate(mine, IMAGE), device="cpu").step(frame).labels
    loaded = stmg.load(tmp_path / "mine", model=MobileNet(), device="cpu")
    assert np.array_equal(loaded.step(frame).labels, expected)


@pytest.mark.parametrize("motion", ["none", "dis", "dis-fine"])
def test_a_segmenter_is_saved_with_its_settings_and_normalization(tmp_path, motion):
    network = accelerate(build("small", 5), IMAGE, mask_generator=True)
    runtime = stmg.TorchRuntime(network, device="cpu", mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6))
    settings = stmg.Settings(
        scheduler=FixedPeriod(3, Level.CARRY),
        motion=motion,
        masking=Masking(spatial=0.8),
        partial_scale=0.5,
        fusion=0.25,
        palette=[[9, number, 0] for number in range(5)],
        class_names=tuple("abcde"),
    )
    segmenter = stmg.VideoSegmenter(runtime, settings=settings)
    again = stmg.load(stmg.save(segmenter, tmp_path), device="cpu")
    for mode in ("online", "offline"):
        assert again.settings.scheduler_for(mode) == segmenter.settings.scheduler_for(mode)
    for name in ("masking", "partial_scale", "fusion", "class_names"):
        assert getattr(again.settings, name) == getattr(segmenter.settings, name)
    assert type(again.settings.motion) is type(segmenter.settings.motion)
    assert np.array_equal(again.palette, segmenter.palette)
    assert again.runtime.normalization == runtime.normalization
    frames = panning(4, (64, 96))
    for one, two in zip(segmenter.stream(frames), again.stream(frames), strict=True):
        assert np.array_equal(one.labels, two.labels)


def test_a_shipped_model_survives_being_loaded_and_saved(tmp_path):
    segmenter = stmg.load("small-streets", device="cpu")
    again = stmg.load(stmg.save(segmenter, tmp_path), device="cpu")
    frame = panning(1, (64, 96))[0]
    assert np.array_equal(segmenter.step(frame).labels, again.step(frame).labels)
    assert again.settings.scheduler == segmenter.settings.scheduler
    assert again.class_names == segmenter.class_names


def weights_in_memory():
    gc.collect()
    return sum(each.numel() for each in gc.get_objects() if type(each) is torch.nn.Parameter)


def test_the_weights_of_a_checkpoint_are_in_memory_once(saved):
    before = weights_in_memory()
    segmenter = stmg.load(saved[0], device="cpu")
    running = sum(each.numel() for each in segmenter.runtime.network.parameters())
    assert weights_in_memory() - before == running


def test_a_loaded_segmenter_is_saved_again_and_again_with_the_weights_it_was_loaded_with(saved):
    folder, network = saved
    segmenter = stmg.load(folder, device="cpu")
    for _ in range(2):
        stmg.save(segmenter, folder)
        again, _ = load_network(folder)
        assert all(torch.equal(value, again.state_dict()[name]) for name, value in network.state_dict().items())
    stmg.save(accelerate(build("small", 5), IMAGE), folder)  # other weights, under the same name
    with pytest.raises(ModelError, match="model has changed on disk since it was loaded; load it again"):
        stmg.save(segmenter, folder)


class EveryThird(FixedPeriod):
    """A scheduler of a user's own."""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scheduler": EveryThird(3)}, "scheduler .* is your own"),
        ({"masking": Masking(pruning="random")}, "masking .* is an ablation"),
    ],
)
def test_settings_that_no_card_can_hold_are_refused(tmp_path, options, message):
    segmenter = stmg.VideoSegmenter(accelerate(build("small", 5), IMAGE), device="cpu", **options)
    with pytest.raises(SettingsError, match=message):
        stmg.save(segmenter, tmp_path)
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_saved_is_refused(tmp_path, saved):
    _, network = saved
    with pytest.raises(SettingsError, match=r"the network first and the folder second: stmg.save\(network, folder\)"):
        stmg.save(tmp_path, network)
    with pytest.raises(ModelError, match=r"not a SmallNet; first: stmg.accelerate"):
        stmg.save(build("small", 5), tmp_path)
    with pytest.raises(ModelError, match="only PyTorch networks can be saved"):
        stmg.save(stmg.VideoSegmenter(colors), tmp_path)


def test_a_segmenter_is_saved_with_its_corrector_which_no_other_network_takes_over(saved, tmp_path):
    folder, network = saved
    torch.manual_seed(0)
    corrector = TorchCorrector(Corrector(5, SHAPES[0]), torch.device("cpu"), between=False)
    segmenter = stmg.load(folder, corrector="none").another(corrector=corrector)
    again = stmg.load(stmg.save(segmenter, tmp_path / "both")).settings.corrector
    assert again.between is False
    for name, value in corrector.module.state_dict().items():
        assert torch.equal(again.module.state_dict()[name], value)
    with pytest.raises(SettingsError, match="holds the corrector of another model"):
        stmg.save(network, tmp_path / "both")
    stmg.save(stmg.load(tmp_path / "both"), tmp_path / "both")


def test_a_plain_network_is_saved_for_any_size_and_computed_at_that_of_the_video(tmp_path):
    sizes = set()

    class Watched(nn.Conv2d):
        def forward(self, image):
            sizes.add(tuple(image.shape[-2:]))
            return super().forward(image)

    video = clip(tmp_path / "large.mp4", 2, size=(720, 960))
    folder = tmp_path / "own"
    segmenter = stmg.VideoSegmenter(Watched(3, 2, 1))
    for _ in range(2):  # what was loaded is saved again
        assert read_card(stmg.save(segmenter, folder)).size is None
        segmenter = stmg.load(folder, model=Watched(3, 2, 1), motion="dis")
    sizes.clear()
    assert {result.labels.shape for result in segmenter.stream(video)} == {(720, 960)}
    assert sizes == {(720, 960)}


def test_a_network_is_saved_for_the_size_that_was_given(tmp_path):
    network = build("small", 5)
    meant = stmg.VideoSegmenter(network, model_size=(64, 96))
    assert read_card(stmg.save(meant, tmp_path / "meant")).size == (64, 96)
    sized = stmg.VideoSegmenter(network, size=(96, 160))
    assert read_card(stmg.save(sized, tmp_path / "sized")).size == (96, 160)


def test_a_folder_that_holds_an_export_is_not_saved_into(tmp_path):
    (tmp_path / MANIFEST).touch()
    with pytest.raises(ModelError, match="holds an export, which would be loaded instead; choose another folder"):
        stmg.save(accelerate(MobileNet(), IMAGE), tmp_path)


def test_a_checkpoint_may_be_named_like_a_network(saved, tmp_path, monkeypatch):
    shutil.copytree(saved[0], tmp_path / "named" / "small")
    monkeypatch.chdir(tmp_path / "named")
    assert stmg.load("small").runtime.num_classes == saved[1].num_classes
