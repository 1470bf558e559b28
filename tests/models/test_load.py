import builtins
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import stmg
from stmg.errors import MissingPackageError, ModelError, SettingsError, install_command
from stmg.gating.accelerate import accelerate
from stmg.models.load import load, refuse_size, resolve
from stmg.models.spec import ModelSpec, as_spec
from stmg.models.torch_models import resolve_network
from stmg.networks import build
from stmg.runtimes.callable import CallableRuntime
from stmg.runtimes.exported import ExportedRuntime
from stmg.runtimes.graph import GraphRuntime
from stmg.runtimes.manifest import GraphFile, Manifest, write_manifest
from stmg.runtimes.torch import TorchRuntime
from stmg.streaming.cost import NetworkCost
from stmg.streaming.schedulers import FixedPeriod, Level
from stmg.video.normalization import Normalization
from zoo import panning

SIZE = (64, 96)
NORMALIZATION = Normalization((0.5,) * 3, (0.2,) * 3)
USER_CODE = """
import numpy as np
from torch import nn

def network():
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1))

def black_box():
    return lambda image: image.astype(np.float32).transpose(2, 0, 1)
"""


def pretend_export(folder, kind):
    """What looks like an export until its graphs are opened."""
    folder.mkdir()
    (folder / "full").write_bytes(b"")
    manifest = Manifest(
        id="1",
        kind=kind,
        bits=32,
        size=SIZE,
        graphs={"full": GraphFile("full", ("image",), ("logits",))},
        costs=NetworkCost(1, (), 1, 0, 1, (), 0),
        card={"network": "small", "num_classes": 5, "size": SIZE},
    )
    write_manifest(folder, manifest)
    return str(folder)


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """A model of each kind; the exports and the graph only look like some."""
    folder = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    network = build("small", 5)
    save_file(network.state_dict(), folder / "weights.safetensors")
    (folder / "user.py").write_text(USER_CODE)
    (folder / "graph.onnx").write_bytes(b"")
    return {
        "shipped": "small-streets",
        "checkpoint": str(stmg.save(accelerate(network, torch.zeros(1, 3, *SIZE)), folder / "checkpoint")),
        "export": pretend_export(folder / "onnx", "onnx"),
        "openvino export": pretend_export(folder / "openvino", "openvino"),
        "graph": str(folder / "graph.onnx"),
        "network": "small",
        "function": f"{folder / 'user.py'}:network",
        "black box": f"{folder / 'user.py'}:black_box",
        "weights": folder / "weights.safetensors",
    }


@pytest.fixture(scope="module")
def real_names(names, tmp_path_factory, export_to):
    """A model of each kind that can be run."""
    graph = tmp_path_factory.mktemp("graph") / "graph.onnx"
    network, example = build("small", 5).eval(), (torch.zeros(1, 3, *SIZE),)
    torch.onnx.export(network, example, str(graph), dynamo=True, external_data=False, verbose=False)
    exports = {"export": str(export_to("onnx")), "openvino export": str(export_to("openvino"))}
    return {**names, **exports, "graph": str(graph)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "more", "runtime"),
    [
        ("shipped", {}, TorchRuntime),
        ("checkpoint", {"precision": "bf16", "device": "cpu", "runtime": "torch"}, TorchRuntime),
        ("export", {}, ExportedRuntime),
        ("export", {"runtime": "openvino", "size": SIZE, "device": "cpu", "precision": "fp32"}, ExportedRuntime),
        ("openvino export", {}, ExportedRuntime),
        ("graph", {"normalize": NORMALIZATION}, GraphRuntime),
        ("network", {"untrained": True}, TorchRuntime),
        ("function", {"normalize": NORMALIZATION, "size": (32, 48)}, TorchRuntime),
        ("black box", {}, CallableRuntime),
    ],
)
def test_every_kind_of_name_becomes_a_segmenter(real_names, kind, more, runtime):
    spec = ModelSpec(real_names[kind], {"threads": 1, "scheduler": FixedPeriod(2), "fusion": 0.0, **more})
    segmenter = resolve(spec)
    assert type(segmenter.runtime) is runtime
    assert segmenter.settings.scheduler == FixedPeriod(2)
    assert segmenter.settings.fusion == 0
    assert segmenter.step(panning(1, SIZE)[0]).labels.shape == SIZE


@pytest.mark.slow
def test_what_is_given_arrives(real_names, monkeypatch):
    names = real_names
    threads = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    monkeypatch.setattr("cv2.setNumThreads", threads.append)
    runtime = resolve(ModelSpec(names["checkpoint"], {"precision": "bf16", "threads": 2})).runtime
    assert (runtime.precision, threads) == ("bf16", [2, 2])
    runtime = resolve(ModelSpec(names["export"], {"threads": 2})).runtime
    assert runtime.engine.threads == 2
    runtime = load(names["graph"], threads=2, normalize=NORMALIZATION).runtime
    assert (runtime.engine.threads, runtime.normalization) == (2, NORMALIZATION)
    runtime = resolve(ModelSpec(names["function"], {"normalize": NORMALIZATION})).runtime
    assert runtime.normalization == NORMALIZATION
    compiled = []
    monkeypatch.setattr(TorchRuntime, "compile", lambda runtime: compiled.append(runtime))
    assert resolve(ModelSpec(names["checkpoint"], {"compile": True})).runtime in compiled


def test_weights_of_elsewhere_decide_the_classes_of_a_network(names):
    spec = ModelSpec("small", {"weights": names["weights"]})
    ours = resolve(spec)
    assert ours.runtime.num_classes == 5
    theirs = load(names["checkpoint"])
    frame = panning(1, SIZE)[0]
    assert np.array_equal(ours.step(frame).labels, theirs.step(frame).labels)


def test_weights_without_a_head_are_refused(names, tmp_path):
    tensors = {name: value for name, value in build("small", 5).state_dict().items() if not name.startswith("head")}
    save_file(tensors, tmp_path / "headless.safetensors")
    with pytest.raises(ModelError, match="it was not trained to segment"):
        resolve(ModelSpec("small", {"weights": tmp_path / "headless.safetensors"}))


CANNOT = {
    "weights": Path("w.pth"),
    "runtime": "torch",
    "device": "cuda",
    "precision": "bf16",
    "normalize": NORMALIZATION,
    "compile": True,
    "model": torch.nn.Identity(),
}
REFUSED = {
    "shipped": ("weights", "normalize"),
    "checkpoint": ("weights", "normalize"),
    "export": ("weights", "runtime", "precision", "normalize", "compile", "model"),
    "openvino export": ("weights", "runtime", "precision", "normalize", "compile", "model"),
    "graph": ("weights", "runtime", "precision", "compile", "model"),
    "network": ("model",),
    "function": ("model",),
    "black box": (*CANNOT,),
}


@pytest.mark.parametrize(
    ("kind", "argument"), [(kind, argument) for kind, arguments in REFUSED.items() for argument in arguments]
)
def test_what_cannot_be_honored_is_refused_by_name(names, kind, argument):
    options = {argument: CANNOT[argument]}
    model = options.pop("model", None)
    spec = ModelSpec(names[kind], {"untrained": True, **options})
    with pytest.raises(SettingsError, match=rf"^{argument}\b.* cannot be used with {names[kind]}"):
        resolve(spec, model)


@pytest.mark.parametrize("kind", ["shipped", "checkpoint", "network", "function", "black box"])
def test_a_model_that_is_not_exported_is_for_pytorch(names, kind):
    with pytest.raises(SettingsError, match=r"runtime openvino cannot be used .* not exported; first: stmg export"):
        resolve(ModelSpec(names[kind], {"runtime": "openvino", "untrained": True}))


def test_onnxruntime_does_not_read_what_is_for_openvino(names):
    with pytest.raises(SettingsError, match="exported for openvino; openvino reads both"):
        resolve(ModelSpec(names["openvino export"], {"runtime": "onnxruntime"}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"runtime": "tensorrt"}, "runtime is one of torch, onnxruntime, openvino, litert; got 'tensorrt'"),
        ({"threads": 0}, "threads is from 1 to"),
        ({"schedule": 3}, "there is no setting 'schedule'"),
        ({"fusion": 2}, "fusion is at least 0 and below 1"),
    ],
)
def test_a_spec_is_checked_where_it_is_built(options, message):
    with pytest.raises(SettingsError, match=message):
        ModelSpec("small-streets", options)


def test_other_mistakes_are_refused(names, tmp_path):
    with pytest.raises(SettingsError, match="small is a network without weights"):
        load("small")
    with pytest.raises(SettingsError, match="precision is one of fp32, bf16, fp16; got 'fp8'"):
        load(names["checkpoint"], precision="fp8")
    with pytest.raises(SettingsError, match=r"model is a torch\.nn\.Module; got a str"):
        load(names["checkpoint"], model="mine")
    with pytest.raises(ModelError, match="no checkpoint at nothing"):
        load("nothing")
    with pytest.raises(ModelError, match="is not a checkpoint"):
        load(tmp_path)


def test_a_checkpoint_of_a_network_of_ones_own_needs_the_network(names, tmp_path):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1))
    stmg.save(accelerate(model, torch.zeros(1, 3, *SIZE)), tmp_path)
    with pytest.raises(
        SettingsError, match=r"is of a network of your own; say what builds it: --network .*stmg.load\(.*model=...\)"
    ):
        load(tmp_path)
    assert load(tmp_path, model=model).runtime.num_classes == 4


def test_a_model_is_a_spec_a_name_or_a_path():
    spec = ModelSpec("folder", {"threads": 1})
    assert as_spec(spec) is spec
    assert as_spec(Path("folder")) == as_spec("folder") == ModelSpec("folder")


def test_an_export_has_one_size(names):
    spec = ModelSpec(names["export"], {"size": (32, 32)})
    for use in (refuse_size, resolve):
        with pytest.raises(SettingsError, match=r"size: .* is exported for 64x96"):
            use(spec)


def test_the_network_behind_a_name_is_given_with_its_card(names):
    network, card = resolve_network(ModelSpec("small"), num_classes=7)
    assert (network.num_classes, card.network, card.num_classes) == (7, "small", 7)
    network, card = resolve_network(ModelSpec(names["checkpoint"], {"size": (32, 32)}), timed=True)
    assert (network.example_size, card.size) == ((32, 32), SIZE)
    assert all(block.ms > 0 for block in network.blocks)
    _, card = resolve_network(ModelSpec(names["function"], {"normalize": NORMALIZATION, "size": SIZE}))
    assert (card.normalization, card.size, card.num_classes) == (NORMALIZATION, SIZE, 4)
    for kind in ("checkpoint", "function"):
        with pytest.raises(SettingsError, match="the number of classes cannot be chosen"):
            resolve_network(ModelSpec(names[kind]), num_classes=7)
    with pytest.raises(ModelError, match=r"not a torch\.nn\.Module"):
        resolve_network(ModelSpec(names["black box"]))
    for kind in ("export", "graph"):
        with pytest.raises(ModelError, match="is exported already"):
            resolve_network(ModelSpec(names[kind]))


def test_an_untrained_network_is_the_same_each_time():
    one, two = (resolve_network(ModelSpec("small", {"untrained": True}))[0] for _ in range(2))
    assert all(torch.equal(value, two.state_dict()[name]) for name, value in one.state_dict().items())


def test_without_pytorch_a_checkpoint_names_the_extra(monkeypatch):
    original = builtins.__import__

    def import_without_torch(name, *arguments):
        if name == "stmg.models.torch_models":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
        return original(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", import_without_torch)
    with pytest.raises(
        MissingPackageError, match=re.escape(f"everything else needs PyTorch: {install_command('torch')}")
    ):
        load("small-streets")


FOREGROUND_CODE = """
import numpy as np
from torch import nn

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 1, 3, padding=1), nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, image):
        return self.one(image), self.two(image)

def network():
    return Two()

def black_box():
    return lambda image: image.mean(2, keepdims=True).transpose(2, 0, 1) / 255
"""


def test_output_activation_and_threshold_reach_whatever_runs(tmp_path):
    (tmp_path / "own.py").write_text(FOREGROUND_CODE)
    network, black_box = (f"{tmp_path / 'own.py'}:{name}" for name in ("network", "black_box"))
    soft = resolve(
        ModelSpec(network, {"device": "cpu", "activation": "probability", "threshold": 0.2, "size": SIZE})
    ).runtime
    assert (soft.foreground.activation, soft.threshold) == ("probability", 0.2)
    for output in (1, "1"):
        assert resolve(ModelSpec(network, {"device": "cpu", "output": output, "size": SIZE})).runtime.num_classes == 4
    frame = panning(1, SIZE)[0]
    result = resolve(ModelSpec(black_box, {"threshold": 0.7})).step(frame)
    assert np.array_equal(result.labels, frame.mean(2) / 255 > 0.7)


def test_an_export_keeps_what_was_stated_of_one_channel(tmp_path):
    (tmp_path / "own.py").write_text(FOREGROUND_CODE)
    name = f"{tmp_path / 'own.py'}:network"
    spec = ModelSpec(name, {"activation": "probability", "threshold": 0.2, "size": SIZE, "output": 0})
    stmg.export(spec, tmp_path / "export", size=SIZE)
    runtime = load(tmp_path / "export").runtime
    assert (runtime.foreground.activation, runtime.threshold) == ("probability", 0.2)
    assert load(tmp_path / "export", threshold=0.6).runtime.threshold == 0.6


def test_what_has_one_output_or_several_classes_refuses_them(tmp_path):
    (tmp_path / "own.py").write_text(FOREGROUND_CODE)
    for name in ("lite0-camvid", f"{tmp_path / 'own.py'}:black_box"):
        with pytest.raises(SettingsError, match="output cannot be used with"):
            load(name, output=1, device="cpu")
    pretend_export(tmp_path / "export", "onnx")
    with pytest.raises(SettingsError, match="output cannot be used with"):
        load(tmp_path / "export", output=1)
    for options in ({"activation": "logits"}, {"threshold": 0.4}):
        with pytest.raises(SettingsError, match="is for networks of one channel"):
            load("lite0-camvid", device="cpu", **options)


class Scaled(torch.nn.Module):
    """A network without a convolution or a matrix product."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1, 3, 1, 1))

    def forward(self, image):
        return image * self.scale


@pytest.mark.parametrize("prepare", [lambda network: network, torch.jit.script])
def test_a_network_that_cannot_be_counted_costs_none_and_not_nothing(prepare):
    segmenter = stmg.VideoSegmenter(prepare(Scaled().eval()), device="cpu", scheduler=FixedPeriod(2, Level.CARRY))
    first, second = (segmenter.step(frame) for frame in panning(2, SIZE))
    assert (first.macs, second.macs) == (None, 0)
