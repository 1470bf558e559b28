import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import stmg
from stmg.errors import MissingPackageError, ModelError, SettingsError, install_command
from stmg.gating.accelerate import accelerate
from stmg.models import export as export_module
from stmg.models import graphs as graphs_module
from stmg.models.card import Card
from stmg.models.correctors import describe_corrector, has_corrector, load_corrector_network, save_corrector
from stmg.models.difference import Difference, _relative, compare_export
from stmg.models.graphs import choose_blocks, export_network, single_precision
from stmg.models.quantize import quantize
from stmg.models.spec import ModelSpec
from stmg.networks import build
from stmg.networks.corrector import SHAPES, Corrector
from stmg.runtimes.manifest import MANIFEST, read_manifest
from stmg.runtimes.torch import TorchRuntime
from stmg.streaming.schedulers import FixedPeriod, Level
from zoo import MobileNet, Plain, ResNetWithDecoder, TwoStreams, colors, panning

SIZE = (64, 96)
EXAMPLE = torch.zeros(1, 3, *SIZE)


def compare(network, runtime, frames):
    """The difference of an export and a network, in single precision as graphs are."""
    return compare_export(single_precision(network, Card("any", 5, SIZE)), runtime, frames)


@pytest.mark.slow
def test_it_is_the_network_whole_and_with_blocks_skipped(network, folder):
    segmenter = stmg.load(folder, threads=1)
    difference = compare(network, segmenter.runtime, panning(2, SIZE))
    assert difference.is_rounding
    assert max(difference.logits, difference.features, difference.masks) < 1e-4
    assert difference.labels < 0.001
    assert segmenter.class_names == tuple("abcde")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "to"),
    [
        (ResNetWithDecoder, "onnx"),
        (MobileNet, "openvino"),
        (TwoStreams, "onnx"),
        (TwoStreams, "openvino"),
        (lambda: Plain().double(), "onnx"),
    ],
)
def test_networks_of_users_export_whole_and_with_blocks_skipped(make, to, tmp_path):
    torch.manual_seed(0)
    network = make().eval()
    example = EXAMPLE.to(next(network.parameters()).dtype)
    accelerated = accelerate(network, example, mask_generator=True).to(example.dtype)
    difference = stmg.export(accelerated, tmp_path, to, size=SIZE, partial=panning(2, SIZE))
    assert max(difference.logits, difference.features) < 1e-4
    assert difference.labels < 0.001
    assert stmg.load(tmp_path, threads=1).runtime.num_blocks == len(accelerated.blocks)


@pytest.mark.slow
def test_a_segmenter_is_exported_with_its_settings_and_normalization(tmp_path):
    torch.manual_seed(0)
    runtime = TorchRuntime(accelerate(build("small", 5), EXAMPLE), device="cpu", mean=(0.1,) * 3, std=(0.7,) * 3)
    ours = stmg.VideoSegmenter(runtime, scheduler=FixedPeriod(2), partial_scale=0.5, class_names=tuple("abcde"))
    stmg.export(ours, tmp_path, partial=panning(2, SIZE))
    theirs = stmg.load(tmp_path, threads=1)
    assert theirs.settings.scheduler_for("online") == FixedPeriod(2)
    assert theirs.class_names == tuple("abcde")
    assert theirs.runtime.input_size == SIZE
    frames = panning(4, SIZE)
    for one, two in zip(ours.stream(frames), theirs.stream(frames), strict=True):
        assert one.level == two.level
        assert np.mean(one.labels == two.labels) > 0.99


@pytest.mark.slow
def test_a_name_is_exported_at_the_size_given(tmp_path):
    difference = stmg.export("small-streets", tmp_path, "openvino", size=SIZE)
    assert isinstance(difference, Difference)
    manifest = read_manifest(tmp_path)
    assert (manifest.kind, manifest.size, manifest.bits, manifest.card["network"]) == ("openvino", SIZE, 32, "small")
    assert manifest.graphs["full"].outputs[0] == "logits"


@pytest.mark.slow
@pytest.mark.parametrize("to", ["onnx", "openvino"])
def test_int8_stays_near_whole_and_partial(network, to, tmp_path):
    if to == "openvino":
        pytest.importorskip("nncf")
    frames = panning(4, SIZE)
    difference = stmg.export(network, tmp_path, to, int8=frames, partial=frames)
    assert 1e-4 < difference.logits < 0.5
    assert read_manifest(tmp_path).bits == 8
    levels = [result.level for result in stmg.load(tmp_path, threads=1, scheduler=FixedPeriod(2)).stream(frames)]
    assert Level.PARTIAL in levels


@pytest.mark.slow
def test_without_a_video_for_its_blocks_an_export_holds_whole_frames(network, tmp_path):
    stmg.export(network, tmp_path, check=panning(1, SIZE))
    manifest = read_manifest(tmp_path)
    assert (manifest.blocks, set(manifest.graphs)) == (None, {"full"})
    assert not stmg.load(tmp_path, threads=1).runtime.has_mask_generator


def test_the_blocks_of_partial_frames_are_those_that_half_of_a_video_keeps(network):
    runtime, frames = single_precision(network, Card("small", 5, SIZE)), panning(4, SIZE)
    encoded = [runtime.encode(runtime.prepare(frame)) for frame in frames]
    kept = [runtime.compare(encoded[n], encoded[n + 1], None).keep for n in range(3)]
    votes = [sum(each[block] for each in kept) for block in range(runtime.num_blocks)]
    assert choose_blocks(runtime, frames, 1.0) == tuple(2 * number >= 3 for number in votes)
    with pytest.raises(SettingsError, match="give at least 2 frames to choose blocks on; got 1"):
        choose_blocks(runtime, frames[:1], 1.0)


def test_partial_frames_that_would_save_nothing_are_refused():
    runtime = TorchRuntime(accelerate(build("small", 5), EXAMPLE), device="cpu")
    with pytest.raises(SettingsError, match="no mask generator, so its partial frames would run every block"):
        choose_blocks(runtime, panning(2, SIZE), 1.0)
    assert all(choose_blocks(runtime, panning(2, SIZE), 0.5))  # a smaller frame saves


def test_int8_needs_frames(tmp_path):
    with pytest.raises(SettingsError, match="INT8 needs frames to calibrate on"):
        quantize(tmp_path / "full.onnx", "onnx", [])


@pytest.mark.slow
def test_an_export_that_differs_by_more_than_rounding_is_no_export(tmp_path, monkeypatch):
    far = Difference(logits=0.2, features=0.0, labels=0.0, masks=0.0)
    monkeypatch.setattr(export_module, "compare_export", lambda *_: far)
    with pytest.raises(ModelError, match=r"more than rounding explains \(logits 2.0e-01"):
        stmg.export(Plain(), tmp_path, size=SIZE)
    assert not (tmp_path / MANIFEST).exists()


@pytest.mark.parametrize(
    ("difference", "expected"),
    [
        (Difference(1e-5, 1e-5, 0.001, 1e-5), True),
        (Difference(0.01, 0, 0, 0), False),
        (Difference(0, 0.01, 0, 0), False),
        (Difference(0, 0, 0.02, 0), False),
        (Difference(0, 0, 0, 1), False),
    ],
)
def test_rounding_is_distinguished_from_more(difference, expected):
    assert difference.is_rounding == expected


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("both", [False, True])
def test_what_is_no_number_differs_from_everything(value, both):
    ours, theirs = np.ones((2, 3, 3), np.float32), np.ones((2, 3, 3), np.float32)
    theirs[0, 0, 0] = value
    if both:
        ours[0, 0, 0] = value
    assert not Difference(max(0.0, _relative(ours, theirs)), 0.0, 0.0, 0.0).is_rounding


@pytest.mark.slow
def test_a_comparison_sees_other_weights(network, folder):
    other = accelerate(build("small", 5), EXAMPLE, mask_generator=True)
    runtime = stmg.load(folder, threads=1).runtime
    assert not compare(other, runtime, panning(2, SIZE)).is_rounding
    with pytest.raises(SettingsError, match="no frames to compare"):
        compare(other, runtime, [])


@pytest.mark.slow
def test_an_export_that_fails_does_not_leave_half_of_another(folder, tmp_path, monkeypatch):
    copied = Path(shutil.copytree(folder, tmp_path / "copied"))
    monkeypatch.setattr(torch.onnx, "export", lambda *_, **__: 1 / 0)
    with pytest.raises(ModelError, match="full cannot be exported: division by zero"):
        export_network(accelerate(build("small", 5), EXAMPLE), Card("small", 5, SIZE), SIZE, "onnx", copied)
    with pytest.raises(ModelError, match="is not a checkpoint"):
        stmg.load(copied)


@pytest.mark.slow
def test_what_cannot_be_exported_names_what_stands_in_the_way(tmp_path):
    class Odd(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.head = torch.nn.Conv2d(3, 4, 1)

        def forward(self, image):
            logits = self.head(image)
            return torch.from_numpy(np.sort(logits.detach().numpy())) if logits.mean() > 9 else logits

    with pytest.raises(ModelError, match="full cannot be exported: "):
        stmg.export(Odd(), tmp_path, size=SIZE)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("small", {"to": "coreml"}, "exported to onnx or openvino, not to 'coreml'"),
        ("small-streets", {"card": Card("small", 11, SIZE)}, "card cannot be used with small-streets"),
        (
            stmg.ModelSpec("small", {"precision": "bf16"}),
            {},
            "precision cannot be used with small: exports do not hold it",
        ),
        (
            stmg.ModelSpec("small", {"runtime": "openvino"}),
            {},
            "runtime cannot be used with small: exports do not hold it",
        ),
        (stmg.ModelSpec("small", {"compile": True}), {}, "compile cannot be used with small: exports do not hold it"),
        (stmg.ModelSpec("small", {"device": "cuda"}), {}, "device cannot be used with small: exports do not hold it"),
        (stmg.ModelSpec("small", {"fusion": 0.0}), {}, "fusion cannot be used with small: exports"),
        (colors, {}, "export takes a name, .*, not a function"),
        (stmg.VideoSegmenter(colors), {}, "only PyTorch networks can be saved and exported"),
    ],
)
def test_what_cannot_be_honored_is_refused_by_name(tmp_path, model, options, message):
    with pytest.raises((SettingsError, ModelError), match=message):
        stmg.export(model, tmp_path, size=SIZE, **options)
    assert not list(tmp_path.iterdir())


def test_a_missing_tool_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(graphs_module, "find_spec", lambda name: None if name == "onnxscript" else sys)
    with pytest.raises(
        MissingPackageError, match=re.escape(f"exporting needs onnxscript: {install_command('export')}")
    ):
        stmg.export("small", tmp_path, size=SIZE)


def test_an_export_does_not_write_over_the_corrector_of_another_model(tmp_path):
    module = Corrector(5, SHAPES[0])
    save_corrector(module, describe_corrector(module, SIZE, "dis", between=True), tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(SettingsError, match="holds the corrector of another model; choose another folder"):
        stmg.export("small-streets", tmp_path, size=SIZE)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.fixture
def quick(monkeypatch):
    """An export that writes two files and nothing to be compared."""
    same = Difference(0.0, 0.0, 0.0, 0.0)

    def write(network, card, size, to, folder, **_):
        (folder / "full.onnx").write_text("new")
        (folder / MANIFEST).write_text("new")

    monkeypatch.setattr(export_module, "export_network", write)
    monkeypatch.setattr(export_module, "_compare", lambda *_: same)


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_an_export_takes_the_place_of_an_earlier_one_only_when_all_is_well(tmp_path, quick, monkeypatch):
    earlier = {MANIFEST: "old", "full.onnx": "old", "notes.md": "mine"}
    for name, text in earlier.items():
        (tmp_path / name).write_text(text)
    far = Difference(0.2, 0.0, 0.0, 0.0)
    for name, broken in (("_compare", lambda *_: far), ("_export_corrector", lambda *_, **__: 1 / 0)):
        with monkeypatch.context() as patch:
            patch.setattr(export_module, name, broken)
            with pytest.raises((ModelError, ZeroDivisionError)):
                stmg.export("small-streets", tmp_path, size=SIZE)
            assert contents(tmp_path) == earlier
            with pytest.raises((ModelError, ZeroDivisionError)):
                stmg.export("small-streets", tmp_path / "other", size=SIZE)
            assert not (tmp_path / "other").exists()
    stmg.export("small-streets", tmp_path, size=SIZE)
    assert contents(tmp_path) == {MANIFEST: "new", "full.onnx": "new", "notes.md": "mine"}


def test_a_corrector_that_was_trained_beside_an_export_outlives_another_export(tmp_path, quick):
    module = Corrector(5, SHAPES[0])
    trained, out = tmp_path / "trained", tmp_path / "out"
    for folder in (trained, out):
        save_corrector(module, describe_corrector(module, SIZE, "dis", between=True), folder)
    (out / MANIFEST).write_text("old")
    before = {path: path.read_bytes() for path in out.iterdir()}
    for corrector in (None, str(trained)):
        with pytest.raises(SettingsError, match="holds the corrector of another model; choose another folder"):
            stmg.export(ModelSpec("small-streets", {"corrector": corrector}), out, size=SIZE)
    assert {path: path.read_bytes() for path in out.iterdir()} == before
    stmg.export(ModelSpec("small-streets", {"corrector": str(out)}), out, size=SIZE)  # it is the one that is wanted
    with pytest.raises(SettingsError, match="holds the corrector of another model"):
        stmg.export("small-streets", out, size=SIZE)


def test_a_corrector_that_came_with_an_export_goes_with_it(tmp_path, quick):
    module, trained, out = Corrector(5, SHAPES[0]), tmp_path / "trained", tmp_path / "out"
    save_corrector(module, describe_corrector(module, SIZE, "dis", between=True), trained)
    for _ in range(2):
        stmg.export(ModelSpec("small-streets", {"corrector": str(trained)}), out, size=SIZE)
        assert has_corrector(out)
    stmg.export("small-streets", out, size=SIZE)
    assert sorted(contents(out)) == sorted((MANIFEST, "full.onnx"))


def test_frames_that_cannot_be_read_leave_no_export(tmp_path):
    with pytest.raises(stmg.StmgError):
        stmg.export("small-streets", tmp_path / "out", size=SIZE, check=str(tmp_path / "none.mp4"))
    assert not (tmp_path / "out").exists()


def test_the_size_of_a_spec_is_the_size_of_its_export(tmp_path):
    stmg.export(ModelSpec("small-streets", {"size": SIZE}), tmp_path)
    assert read_manifest(tmp_path).size == SIZE


def test_a_corrector_outlives_an_export_into_its_own_folder(tmp_path):
    module = Corrector(5, SHAPES[0])
    save_corrector(module, describe_corrector(module, SIZE, "dis", between=True), tmp_path)
    export_module._export_corrector(ModelSpec("model"), tmp_path, SIZE, tmp_path)
    kept = load_corrector_network(tmp_path).state_dict()
    assert all(torch.equal(value, kept[name]) for name, value in module.state_dict().items())
