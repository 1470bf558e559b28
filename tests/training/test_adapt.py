"""adapt: from the name of any model to a folder with the model and its corrector."""

import json
import sys

import numpy as np
import onnx
import pytest
import torch
from safetensors.torch import load_file

import stmg
from clips import clip
from commands import is_one_line, run_stmg, start_stmg
from graphs import save_one_channel
from stmg.errors import MissingPackageError, ModelError, install_command
from stmg.models.correctors import has_corrector, load_corrector, read_corrector_card
from stmg.models.model_files import list_graph_files
from stmg.models.spec import ModelSpec
from stmg.runtimes.manifest import MANIFEST
from stmg.streaming.schedulers import FixedPeriod, Level
from stmg.training.adapt import identify, list_videos
from stmg.training.corrector_run import AdaptSettings, find_size
from trainings import hold_at
from waiting import PATIENCE, Held
from zoo import panning

SIZE = (96, 128)
QUICK = ("--steps", 4, "--pairs", 16, "--longest", 3)


@pytest.fixture(scope="module")
def drive(tmp_path_factory):
    return clip(tmp_path_factory.mktemp("drive") / "drive.mp4", 20, SIZE)


@pytest.fixture
def few_checks(monkeypatch):
    """From the command line: four clips held out instead of forty."""
    monkeypatch.setitem(AdaptSettings.__init__.__kwdefaults__, "checks", 4)


def test_a_folder_that_holds_an_export_is_not_adapted_into(tmp_path):
    (tmp_path / MANIFEST).touch()
    with pytest.raises(ModelError, match="holds an export, which would be loaded instead"):
        stmg.adapt("small-streets", "drive.mp4", tmp_path)


def test_another_network_does_not_go_on_with_a_run(tmp_path):
    model, other = tmp_path / "model.tflite", tmp_path / "other.tflite"
    model.write_bytes(b"one")
    other.write_bytes(b"two")
    first = identify(ModelSpec(str(model)))
    assert identify(ModelSpec(str(other))) != first
    assert identify(ModelSpec(str(model), {"threads": 1})) == first
    model.write_bytes(b"another")
    assert identify(ModelSpec(str(model))) != first


def test_videos_are_trained_on_at_the_size_at_which_a_stream_computes_them(tmp_path):
    segmenter = stmg.load("small-streets")
    own = segmenter.settings.model_size
    wide = (2 * own[0] * 3 // 4, 2 * own[1])
    for name, length, size in (("a", 6, wide), ("b", 9, (2 * own[0], 2 * own[1])), ("c", 6, wide)):
        clip(tmp_path / f"{name}.mp4", length, size)
    videos = list_videos([tmp_path])
    assert find_size(videos, segmenter.size_for) == segmenter.size_for(wide) != own
    assert find_size(videos, segmenter.another(size=own).size_for) == own  # the user's own wish


def test_only_what_is_to_be_trained_on_is_looked_at(drive):
    names = [video.name for video in list_videos(["street:0-1", drive])]
    assert names == ["street 0", "street 1", "drive"]


@pytest.mark.usefixtures("few_checks")
def test_a_checkpoint_is_adapted_from_the_command_line(tmp_path, drive, monkeypatch):
    monkeypatch.setattr("stmg.training.corrector.MAX_CHANGE_LEFT", 1e9)  # whatever it learned in four steps
    done = run_stmg("adapt", "small-streets", "--on", drive, "--size", "96x128", "--out", tmp_path / "out", *QUICK)
    assert done.returncode == 0, done.stderr
    assert "to use it: stmg segment VIDEO --model" in done.stdout
    assert "% of the network" in " ".join(done.stdout.split())
    segmenter = stmg.load(tmp_path / "out")
    assert segmenter.settings.corrector is not None
    assert stmg.load(tmp_path / "out", corrector="none").settings.corrector is None
    every = segmenter.another(scheduler=FixedPeriod(4, Level.CARRY))
    results = list(every.stream(panning(6, SIZE), mode="online"))
    assert any(result.cost.macs == read_corrector_card(tmp_path / "out").macs for result in results[1:])
    assert not (tmp_path / "out" / "adapt" / "pairs").exists()
    stmg.export(tmp_path / "out", tmp_path / "exported", size=(64, 96))
    exported = stmg.load(tmp_path / "exported")
    assert type(exported.settings.corrector).__name__ == "GraphCorrector"
    assert read_corrector_card(tmp_path / "exported").size == (64, 96)
    assert len(list(exported.stream(panning(4, (64, 96)), mode="online"))) == 4
    stmg.export("small-streets", tmp_path / "exported", size=(64, 96))
    assert not has_corrector(tmp_path / "exported")


@pytest.mark.usefixtures("few_checks")
def test_a_black_box_in_onnx_is_adapted_and_runs_without_torch(tmp_path, drive, monkeypatch):
    monkeypatch.setattr("stmg.training.corrector.MAX_CHANGE_LEFT", 1e9)
    graph = save_one_channel(tmp_path / "net.onnx", sigmoid=False, size=SIZE)
    done = run_stmg("adapt", graph, "--on", drive, "--out", tmp_path / "out", "--normalize", "none", *QUICK)
    assert done.returncode == 0, done.stderr
    assert "the network's MACs are not known: --cost could not be honored" in done.stdout
    for runtime in ("onnxruntime", "openvino"):
        segmenter = stmg.load(tmp_path / "out", runtime=runtime)
        assert type(segmenter.settings.corrector).__name__ == "GraphCorrector"
        assert len(list(segmenter.stream(panning(5, SIZE), mode="offline"))) == 5
    done = run_stmg("segment", drive, "--model", tmp_path / "out", "--out", tmp_path / "segmented", "--save", "records")
    assert done.returncode == 0, done.stderr
    by_torch = load_corrector(tmp_path / "out")
    rng = np.random.default_rng(0)
    pictures = [rng.integers(0, 255, (48, 64, 3), np.uint8) for _ in range(2)]
    logits = rng.standard_normal((12, 16, by_torch.num_classes)).astype(np.float32)
    by_graph = segmenter.settings.corrector
    for one, two in zip(by_torch.correct(*pictures, logits), by_graph.correct(*pictures, logits), strict=True):
        assert np.allclose(one, two, atol=1e-4)


def test_a_corrector_that_is_no_help_is_not_kept(tmp_path, drive):
    command = ("adapt", "small-streets", "--on", drive, "--size", "96x128", "--out", tmp_path / "out")
    done = run_stmg(*command, "--cost", "0.1%", *QUICK)
    assert done.returncode == 0, done.stderr
    assert "more than --cost 0.1%: there is no smaller corrector" in done.stdout
    if "no help" in done.stdout:
        assert not has_corrector(tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 100000}, "width is from 2 to 512"),
        ({"graph": {"file": "../net.onnx", "mean": [0, 0, 0], "std": [1, 1, 1]}}, "is no name inside the folder"),
        ({"size": "large"}, "size"),
    ],
)
def test_a_damaged_card_is_reported(tmp_path, change, message):
    card = {"num_classes": 3, "width": 16, "size": [96, 128], "macs": 1, "params": 1, "motion": "dis"}
    (tmp_path / "corrector.json").write_text(json.dumps({**card, **change}))
    with pytest.raises(ModelError, match=message):
        read_corrector_card(tmp_path)


def test_what_cannot_be_adapted_is_one_line(tmp_path, drive):
    done = run_stmg("adapt", "small-streets", "--on", tmp_path / "nowhere.mp4", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert is_one_line(done.stderr)


def test_it_trains_on_a_gpu_if_there_is_one(tmp_path, drive, monkeypatch):
    monkeypatch.setattr("stmg.training.adapt.find_device", {None: "where there is a GPU"}.__getitem__)
    monkeypatch.setattr("stmg.training.adapt.train_corrector", lambda *given, **options: pytest.exit(given[4]))
    with pytest.raises(pytest.exit.Exception, match="where there is a GPU"):
        stmg.adapt(ModelSpec("small-streets", {"size": SIZE}), drive, tmp_path)


def test_a_graph_is_copied_with_the_weights_beside_it(tmp_path):
    weights = onnx.numpy_helper.from_array(np.zeros((64, 64), np.float32), "weights")
    graph = onnx.helper.make_graph([], "empty", [], [], [weights])
    options = {"save_as_external_data": True, "location": "net.onnx.data", "size_threshold": 0}
    onnx.save(onnx.helper.make_model(graph), tmp_path / "net.onnx", **options)
    assert [path.name for path in list_graph_files(tmp_path / "net.onnx")] == ["net.onnx", "net.onnx.data"]


def test_a_missing_package_is_reported_before_anything_is_opened(tmp_path, monkeypatch):
    graph = save_one_channel(tmp_path / "net.onnx", sigmoid=False)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingPackageError) as error:
        stmg.adapt(stmg.ModelSpec(str(graph), {"runtime": "openvino"}), tmp_path / "nowhere.mp4", tmp_path / "out")
    assert install_command("export") in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_killed_run_goes_on_as_if_it_had_not_been(tmp_path, drive):
    command = ("adapt", "small-streets", "--on", drive, "--size", "64x96", "--pairs", 16, "--longest", 3, "--steps", 8)
    code = """
import stmg.training.corrector, stmg.training.corrector_run
stmg.training.corrector.MAX_CHANGE_LEFT = 1e9
stmg.training.corrector_run.SAVE_EVERY = 3
stmg.training.corrector_run.AdaptSettings.__init__.__kwdefaults__["checks"] = 2
"""
    held = Held(tmp_path)
    hold = hold_at(6, held, "stmg.training.corrector.CorrectorTraining")
    victim = start_stmg(*command, "--out", tmp_path / "killed", before=code + hold)
    held.wait(victim)
    victim.kill()
    victim.communicate(timeout=PATIENCE)
    assert torch.load(tmp_path / "killed" / "adapt" / "state.pt", weights_only=True)["progress"]["step"] == 3
    for name in ("whole", "killed"):
        process = start_stmg(*command, "--out", tmp_path / name, before=code)
        _, error = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, error
    one, two = (load_file(tmp_path / name / "corrector.safetensors") for name in ("whole", "killed"))
    assert all(torch.equal(one[name], two[name]) for name in one)
