import re
import shutil
import sys
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
import torch
import transformers.utils.hub  # noqa: F401  before the Hub of these tests takes the place of the real one

import hugging_face
import stmg
from stmg.errors import MissingPackageError, ModelError, install_command
from stmg.gating.accelerate import accelerate
from stmg.models import names
from stmg.models.card import CARD
from stmg.models.names import WEIGHTS, find_checkpoint
from stmg.networks import build
from zoo import MobileNet, colors, panning

IMAGE = torch.zeros(1, 3, 64, 96)


class Hub:
    """What of the Hub is used, in a folder."""

    def __init__(self, root):
        self.root = root
        self.calls = []
        self.downloads = 0

    def download(self, repo_id, *, allow_patterns):
        self.downloads += 1
        folder = self.root / repo_id
        if not folder.is_dir():
            raise OSError(f"404: {repo_id}\nis not on the Hub")
        copy = self.root / "downloads" / repo_id
        copy.mkdir(parents=True, exist_ok=True)
        for pattern in allow_patterns:
            for path in folder.glob(pattern):
                shutil.copy(path, copy)
        return str(copy)

    def api(self, token=None):
        hub = self

        class Api:
            def create_repo(self, repo_id, *, private=None, exist_ok=False):
                hub.calls.append((repo_id, private, exist_ok, token))
                (hub.root / repo_id).mkdir(parents=True, exist_ok=exist_ok)
                return f"https://hub.example/{repo_id}"

            def upload_folder(self, *, repo_id, folder_path, commit_message):
                hub.calls.append(commit_message)
                shutil.copytree(folder_path, hub.root / repo_id, dirs_exist_ok=True)

        return Api()


@pytest.fixture
def hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hub = Hub(tmp_path / "hub")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", hub.download)
    monkeypatch.setattr(huggingface_hub, "HfApi", hub.api)
    names._download.cache_clear()
    return hub


@pytest.fixture
def network():
    torch.manual_seed(0)
    return accelerate(build("small", 5), IMAGE, mask_generator=True)


def test_a_network_that_is_pushed_comes_back_from_the_hub(hub, network):
    url = network.push_to_hub("me/streets", private=True, token="secret", commit_message="First")
    assert url == "https://hub.example/me/streets"
    assert hub.calls == [("me/streets", True, True, "secret"), "First"]
    assert {path.name for path in (hub.root / "me/streets").iterdir()} == {WEIGHTS, CARD}
    again = stmg.AcceleratedNetwork.from_pretrained("me/streets")
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in network.state_dict().items())


def test_a_segmenter_that_is_pushed_comes_back_with_its_settings(hub, network):
    segmenter = stmg.VideoSegmenter(network, device="cpu", scheduler="paper", class_names=tuple("abcde"))
    segmenter.push_to_hub("me/streets")
    again = stmg.VideoSegmenter.from_pretrained("me/streets", device="cpu", fusion=0.0)
    assert isinstance(again, stmg.VideoSegmenter)
    assert (again.class_names, again.settings.fusion) == (segmenter.class_names, 0)
    assert again.settings.scheduler_for("online") == segmenter.settings.scheduler_for("online")
    frame = panning(1, (64, 96))[0]
    assert np.array_equal(again.step(frame).labels, segmenter.step(frame).labels)


def test_an_id_is_requested_once(hub, network):
    network.push_to_hub("me/streets")
    stmg.load("me/streets", device="cpu")
    stmg.load("me/streets", device="cpu")
    assert hub.downloads == 1


def test_only_the_checkpoint_is_downloaded(hub, network):
    network.push_to_hub("me/streets")
    (hub.root / "me/streets" / "movie.mp4").write_bytes(b"large")
    assert {path.name for path in find_checkpoint("me/streets").iterdir()} == {WEIGHTS, CARD}


def test_a_large_checkpoint_is_found_in_a_checkout_then_in_the_cache_then_on_the_hub(
    hub, network, tmp_path, monkeypatch
):
    monkeypatch.setattr(names, "_checkout", lambda: tmp_path / "checkout")
    monkeypatch.setattr(names, "user_cache_path", lambda *_, **__: tmp_path / "cache")
    with pytest.raises(ModelError, match=r"copy weights/ddrnet39-camvid of the repository to .*cache"):
        find_checkpoint("ddrnet39-camvid")
    network.push_to_hub("me/ddrnet39-camvid")
    with pytest.raises(ModelError, match="or set STMG_HUB to the account of the Hub that has it"):
        find_checkpoint("ddrnet39-camvid")
    monkeypatch.setenv("STMG_HUB", "me")
    assert find_checkpoint("ddrnet39-camvid").parent.name == "me"
    for place in ("cache/weights", "checkout"):
        folder = network.save_pretrained(tmp_path / place / "ddrnet39-camvid")
        assert find_checkpoint("ddrnet39-camvid") == folder


def test_save_pretrained_is_save_and_from_pretrained_takes_folders_and_shipped_names(tmp_path, network):
    folder = network.save_pretrained(tmp_path / "model", bits=16)
    assert folder == tmp_path / "model"
    assert stmg.load(folder, device="cpu").runtime.num_classes == 5
    assert stmg.AcceleratedNetwork.from_pretrained("small-streets").num_classes == 11
    mine = MobileNet().eval()
    accelerate(mine, IMAGE).save_pretrained(tmp_path / "mine")
    again = stmg.AcceleratedNetwork.from_pretrained(tmp_path / "mine", model=MobileNet())
    with torch.no_grad():
        assert torch.equal(again(IMAGE)[0], mine(IMAGE)[0])


def test_a_card_goes_with_a_network(tmp_path, network):
    network.save_pretrained(tmp_path, card=stmg.Card("small", 5, (64, 96), class_names=tuple("abcde")))
    assert stmg.load(tmp_path, device="cpu").class_names == tuple("abcde")


def test_trouble_with_the_hub_is_one_line(hub, network, monkeypatch):
    with pytest.raises(ModelError, match=r"me/nothing could not be downloaded from the Hub: 404: me/nothing$"):
        stmg.load("me/nothing")

    def refuse(*_, **__):
        raise PermissionError("401: who are you?\nlog in")

    monkeypatch.setattr(huggingface_hub, "HfApi", lambda token=None: type("Api", (), {"create_repo": refuse})())
    with pytest.raises(ModelError, match=r"me/streets could not be pushed to the Hub: 401: who are you\?$"):
        network.push_to_hub("me/streets")


def test_without_the_package_the_extra_is_named(network, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for use in (lambda: stmg.load("me/streets"), lambda: network.push_to_hub("me/streets")):
        with pytest.raises(MissingPackageError, match=re.escape(install_command("hub"))):
            use()


def test_what_looks_like_a_path_is_none_of_the_hub(hub, tmp_path):
    (tmp_path / "runs").mkdir()
    for name in ("runs/missing", "./missing", str(tmp_path / "missing"), "a/b/c"):
        with pytest.raises(ModelError, match="no checkpoint at"):
            find_checkpoint(name)
    assert not Path(hub.root / "downloads").exists()


def test_a_black_box_has_no_weights_to_save(tmp_path):
    with pytest.raises(ModelError, match="only PyTorch networks can be saved"):
        stmg.VideoSegmenter(colors).save_pretrained(tmp_path)


def test_a_model_of_transformers_is_requested_once_with_only_what_it_needs(hub):
    folder = hub.root / "them/segformer"
    hugging_face.make_segformer().save_pretrained(folder)
    hugging_face.make_processor("Segformer").save_pretrained(folder)
    (folder / "tf_model.h5").write_bytes(b"large")
    one, two = (stmg.load("them/segformer", device="cpu") for _ in range(2))
    assert one.class_names == two.class_names == tuple(hugging_face.LABELS.values())
    assert hub.downloads == 1
    names = {path.name for path in find_checkpoint("them/segformer").iterdir()}
    assert names == {"config.json", "preprocessor_config.json", WEIGHTS}


def test_pickled_weights_are_downloaded_only_where_there_are_no_others(hub):
    folder = hub.root / "them/older"
    model = hugging_face.make_segformer()
    model.save_pretrained(folder)
    (folder / WEIGHTS).unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    assert stmg.load("them/older", device="cpu").runtime.num_classes == 5
    assert hub.downloads == 2
