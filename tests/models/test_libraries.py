import sys
import types

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import hugging_face
import stmg
from stmg.errors import MissingPackageError, ModelError, SettingsError
from stmg.models import names
from stmg.models.model_files import list_model_files
from stmg.models.spec import ModelSpec
from zoo import panning

SIZE = (64, 96)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, image):
        return F.interpolate(self.conv(image), scale_factor=0.5)


@pytest.fixture
def network():
    torch.manual_seed(0)
    return Network().eval()


def labels_of(model, **options):
    segmenter = stmg.load(model, device="cpu", scheduler="always-key", fusion=0, **options)
    return segmenter.step(panning(1, SIZE)[0]).labels


def expected(network):
    segmenter = stmg.VideoSegmenter(network, device="cpu", scheduler="always-key", fusion=0)
    return segmenter.step(panning(1, SIZE)[0]).labels


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torchscript_runs(tmp_path, network):
    path = tmp_path / "model.pt"
    torch.jit.script(network).save(path)
    assert np.array_equal(labels_of(path), expected(network))
    assert list_model_files(ModelSpec(str(path))) == [path]
    assert not np.array_equal(labels_of(path, normalize="bytes"), expected(network))


@pytest.mark.parametrize("is_dynamic", [True, False])
def test_what_torch_export_saved_runs_at_the_size_it_was_exported_for(tmp_path, network, is_dynamic):
    height, width = (torch.export.Dim(name, min=16, max=512) for name in ("height", "width"))
    shapes = {"image": {2: 2 * height, 3: 2 * width}} if is_dynamic else None
    program = torch.export.export(network, (torch.zeros(1, 3, 32, 48),), dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "model.pt2")
    runtime = stmg.load(tmp_path / "model.pt2", device="cpu").runtime
    assert runtime.input_size == (None if is_dynamic else (32, 48))
    labels = labels_of(tmp_path / "model.pt2")
    assert labels.shape == SIZE
    if is_dynamic:
        assert np.array_equal(labels, expected(network))
    for mode in ("online", "offline", "realtime"):
        assert len(list(stmg.load(tmp_path / "model.pt2", device="cpu").stream(panning(3, SIZE), mode=mode))) == 3


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".bin"])
def test_weights_alone_say_what_to_add(tmp_path, network, suffix):
    path = tmp_path / f"weights{suffix}"
    torch.save(network.state_dict(), path)
    with pytest.raises(ModelError, match=rf"holds weights alone; add the network: .* --weights .*weights\{suffix}$"):
        stmg.load(path)


class Attack:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_code_in_a_file_is_never_run(tmp_path, network):
    path = tmp_path / "model.pth"
    torch.save({"model": Attack(tmp_path / "was_here")}, path)
    with pytest.raises(ModelError, match="holds more than tensors, so opening it could run code"):
        stmg.load(path)
    program = torch.export.export(network, (torch.zeros(1, 3, 32, 48),))
    program._example_inputs = ((Attack(tmp_path / "was_here"),), {})
    torch.export.save(program, tmp_path / "model.pt2")
    with pytest.raises(ModelError, match=r"model\.pt2 cannot be read by torch\.export\.load"):
        stmg.load(tmp_path / "model.pt2")
    assert not (tmp_path / "was_here").exists()


def test_a_file_that_is_none_is_one_line(tmp_path):
    for name in ("model.pt", "model.pt2"):
        (tmp_path / name).write_bytes(b"nothing")
        with pytest.raises(ModelError, match=r"cannot be read|holds more than tensors"):
            stmg.load(tmp_path / name)
    with pytest.raises(ModelError, match=r"nothing\.pt does not exist"):
        stmg.load(tmp_path / "nothing.pt")


@pytest.fixture
def torchvision(monkeypatch, network):
    """What of torchvision is used."""
    models = types.ModuleType("torchvision.models")
    segmentation = types.ModuleType("torchvision.models.segmentation")
    transforms = types.SimpleNamespace(resize_size=[90], mean=[0.1, 0.2, 0.3], std=[0.4, 0.5, 0.6])
    weights = types.SimpleNamespace(
        transforms=lambda: transforms, meta={"categories": ["__background__", "aeroplane", "bicycle", "bird"]}
    )
    models.list_models = lambda module: ["deeplabv3_resnet50"] if module is segmentation else []
    models.get_model_weights = lambda name: types.SimpleNamespace(DEFAULT=weights)
    models.get_model = lambda name, weights, progress: network
    for name, module in (("torchvision", types.ModuleType("torchvision")), ("torchvision.models", models)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "torchvision.models.segmentation", segmentation)


def test_torchvision_is_loaded_with_its_weights_and_classes(torchvision):
    segmenter = stmg.load("torchvision:deeplabv3_resnet50", device="cpu")
    assert segmenter.class_names == ("background", "aeroplane", "bicycle", "bird")
    assert segmenter.palette.tolist() == [[0, 0, 0], [128, 0, 0], [0, 128, 0], [128, 128, 0]]
    assert segmenter.runtime.normalization == stmg.Normalization((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    assert segmenter.settings.model_size == (90, 160)
    assert list_model_files(ModelSpec("torchvision:deeplabv3_resnet50")) == []
    with pytest.raises(ModelError, match="no segmentation network resnet50; it has deeplabv3_resnet50"):
        stmg.load("torchvision:resnet50")


@pytest.mark.parametrize("name", ["torchvision:deeplabv3_resnet50", "smp:folder"])
def test_a_library_that_is_not_installed_is_named(monkeypatch, name):
    for module in ("torchvision", "segmentation_models_pytorch"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingPackageError, match=rf"{name} needs .*: pip install "):
        stmg.load(name)


@pytest.mark.parametrize("space", ["RGB", "BGR"])
def test_smp_folders_are_loaded_with_the_normalization_of_their_encoder(tmp_path, monkeypatch, network, space):
    network.config = {"encoder_name": "resnet18"}
    stated = {"input_space": space, "input_range": [0, 255], "mean": [51, 51, 51], "std": [102, 102, 102]}
    smp, loaded = types.ModuleType("segmentation_models_pytorch"), []
    smp.from_pretrained = lambda folder, encoder_weights: loaded.append((folder, encoder_weights)) or network
    smp.encoders = types.SimpleNamespace(get_preprocessing_params=lambda name: stated)
    monkeypatch.setitem(sys.modules, "segmentation_models_pytorch", smp)
    segmenter = stmg.load(f"smp:{tmp_path}", device="cpu", scheduler="always-key", fusion=0)
    assert loaded == [(str(tmp_path), None)]
    assert np.allclose((segmenter.runtime.normalization.mean, segmenter.runtime.normalization.std), ((0.2,), (0.4,)))
    frame = panning(1, SIZE)[0]
    shown = frame if space == "RGB" else frame[:, :, ::-1]
    image = torch.from_numpy((shown / 255 - 0.2) / 0.4).permute(2, 0, 1)[None].float()
    with torch.no_grad():
        labels = F.interpolate(network(image), SIZE, mode="bilinear").argmax(1)[0].numpy()
    assert np.array_equal(segmenter.step(frame).labels, labels)


def test_a_folder_of_smp_says_its_name(tmp_path):
    (tmp_path / "config.json").write_text('{"_model_class": "Unet"}')
    with pytest.raises(ModelError, match=r"is of segmentation_models_pytorch; load it as smp:"):
        stmg.load(tmp_path)


def test_a_pipeline_of_transformers_is_taken(tmp_path):
    import transformers

    processor = hugging_face.make_processor("Segformer", image_mean=[0.4, 0.5, 0.6], size={"height": 64, "width": 96})
    model = hugging_face.make_segformer()
    pipeline = transformers.ImageSegmentationPipeline(model=model, image_processor=processor)
    segmenter = stmg.VideoSegmenter(pipeline, device="cpu", scheduler="always-key", fusion=0)
    assert segmenter.class_names == tuple(hugging_face.LABELS.values())
    assert (segmenter.settings.model_size, segmenter.runtime.normalization.mean) == ((64, 96), (0.4, 0.5, 0.6))
    model.save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    assert np.array_equal(segmenter.step(panning(1, SIZE)[0]).labels, labels_of(tmp_path))


def test_a_name_is_for_load():
    with pytest.raises(SettingsError, match=r"for a name, stmg\.load: stmg\.load\('lite0-camvid'\)"):
        stmg.VideoSegmenter("lite0-camvid")


def test_a_file_of_code_lists_its_functions_and_is_not_run(tmp_path):
    path = tmp_path / "nets.py"
    path.write_text("import nowhere\ndef build(): pass\nclass Net: pass\ndef _hidden(): pass\n")
    with pytest.raises(ModelError, match=rf"name the function that returns the network: {path}:build, {path}:Net$"):
        stmg.load(path)


def test_what_is_found_nowhere_says_what_can_be_named():
    with pytest.raises(ModelError, match=r"a Hub id .*, a file .*, torchvision:NETWORK, smp:FOLDER or nets"):
        names.find_checkpoint("nothing-like-it")
