"""adapt: a corrector from videos without labels, for any network."""

import json
import shutil
import threading
from contextlib import nullcontext
from dataclasses import replace

import cv2
import numpy as np
import onnx
import pytest
import torch

import stmg
from clips import clip
from commands import is_one_line, run_stmg
from graphs import save_one_channel
from stmg.checkpoints.correctors import has_corrector, load_corrector, read_corrector_card
from stmg.checkpoints.model_files import list_graph_files
from stmg.checkpoints.resolve import ModelSpec
from stmg.errors import DataError, ModelError, SettingsError
from stmg.runtimes.callable import CallableRuntime
from stmg.runtimes.manifest import MANIFEST
from stmg.segmenter import VideoSegmenter
from stmg.streaming.motion import DisMotion
from stmg.training.adapt.clips import ClipSource
from stmg.training.adapt.model import identify, list_videos
from stmg.training.adapt.pairs import Pair, PairStore, find_flow
from stmg.training.adapt.settings import AdaptSettings
from stmg.training.adapt.train import train_corrector
from zoo import colors, panning, streets

SIZE = (96, 128)
CPU = torch.device("cpu")
EXAMPLE = Pair(*(np.zeros((8, 8, 3), np.uint8),) * 2, *(np.zeros((2, 2, 2), np.float32),) * 2)
FEW = AdaptSettings(steps=6, pairs=16, batch=4, checks=2, longest=4)


def videos():
    return streets(20, SIZE).videos("val")[:1]


def by_darkness(image):
    """Two classes, by the brightness of a cell."""
    small = cv2.resize(image, (SIZE[1] // 8, SIZE[0] // 8), interpolation=cv2.INTER_AREA).mean(2) / 20 - 6
    return np.stack([small, -small]).astype(np.float32)


def segmenter():
    return VideoSegmenter(by_darkness, motion="dis")


def run(folder, settings=FEW, on_progress=lambda progress: None):
    return train_corrector(segmenter(), videos(), folder, SIZE, settings, CPU, on_progress)


def weights(adapted):
    return torch.cat([value.flatten().float() for value in adapted.module.state_dict().values()])


def test_the_same_seed_gives_the_same_corrector(tmp_path):
    one, two = (run(tmp_path / name) for name in ("one", "two"))
    assert torch.equal(weights(one), weights(two))
    assert one.steps == 6
    assert one.check.clips == 2


def test_an_interrupted_run_goes_on_and_ends_alike(tmp_path, monkeypatch):
    monkeypatch.setattr("stmg.training.adapt.train.SAVE_EVERY", 2)
    whole = run(tmp_path / "whole")

    def interrupt(progress):
        if progress.what == "training":
            raise KeyboardInterrupt

    monkeypatch.setattr("stmg.training.adapt.train.REPORT_EVERY", 4)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "part", on_progress=interrupt)
    assert torch.equal(weights(run(tmp_path / "part")), weights(whole))


def test_a_folder_of_other_settings_or_videos_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("stmg.training.adapt.train.SAVE_EVERY", 2)
    run(tmp_path)
    with pytest.raises(SettingsError, match="is of other settings"):
        run(tmp_path, AdaptSettings(steps=7, pairs=16, batch=4))
    others = streets(20, SIZE).videos("val")[1:2]
    with pytest.raises(SettingsError, match="is of other settings, videos or another model"):
        train_corrector(segmenter(), others, tmp_path, SIZE, FEW, CPU)
    shutil.rmtree(tmp_path / "pairs")
    with pytest.raises(SettingsError, match="is gone"):
        run(tmp_path)


def test_the_number_of_pairs_may_follow_from_the_time_and_an_interrupted_run_goes_on_with_them(tmp_path, monkeypatch):
    timed = replace(FEW, pairs=None, minutes=0.05)

    interrupted = threading.Event()

    def interrupt(progress):
        if progress.what == "watching" and progress.total:
            interrupted.set()

    with monkeypatch.context() as patch:
        patch.setattr("stmg.training.adapt.train.defer_interrupt", lambda: nullcontext(interrupted))
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, timed, interrupt)
    store = np.load(tmp_path / "pairs" / "image.npy", mmap_mode="r")
    before = store[0].copy()
    assert before.any()
    run(tmp_path, timed)
    assert np.array_equal(np.load(tmp_path / "pairs" / "image.npy", mmap_mode="r")[0], before)


def test_of_videos_too_short_to_hold_out_their_end_the_last_ones_are_held_out():
    short = list(streets(4, SIZE).videos("val")) * 2
    source = ClipSource(short, CallableRuntime(by_darkness), DisMotion(), SIZE, 3, 0.0, 0)
    assert [len(part.frames) for part in source.held_out] == [4] * max(1, round(0.2 * len(short)))
    assert len(source.learned) + len(source.held_out) == len(short)
    assert source.get_held_out(0) is not None


def test_a_video_too_short_to_check_on_is_refused_before_anything_is_learned(tmp_path):
    (short,) = streets(6, SIZE).videos("val")[:1]
    with pytest.raises(DataError, match="nothing is left to check a corrector on: give a longer video, or several"):
        train_corrector(segmenter(), [short], tmp_path, SIZE, FEW, CPU)


def test_fewer_pairs_than_a_batch_are_drawn_again(tmp_path):
    store = PairStore(tmp_path, 3, EXAMPLE)
    for number in range(5):
        store.put(number, EXAMPLE)
    assert len(store.draw(5, 4, np.random.default_rng(0))[0]) == 4


def test_a_folder_that_holds_an_export_is_not_adapted_into(tmp_path):
    (tmp_path / MANIFEST).touch()
    with pytest.raises(ModelError, match="holds an export, which would be loaded instead"):
        stmg.adapt("small-streets", "drive.mp4", tmp_path)


def test_a_number_of_pairs_leaves_the_steps_to_the_time(tmp_path):
    adapted = run(tmp_path, AdaptSettings(pairs=20, batch=4, longest=4, checks=2, minutes=0.001))
    assert adapted.steps == 50


def test_no_more_pairs_are_watched_and_reported_than_can_be_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("stmg.training.adapt.pairs.MOST_PAIRS", 16)
    watched = []
    adapted = run(tmp_path, replace(FEW, pairs=1000), watched.append)
    assert adapted.pairs == 16
    assert [(each.done, each.total) for each in watched if each.what == "watching"] == [(10, 16), (20, 16)]


def test_the_motion_of_the_codec_cannot_be_learned_from(tmp_path):
    segmenter = VideoSegmenter(by_darkness, motion="codec")
    with pytest.raises(stmg.SettingsError, match="motion codec is of a video as it streams"):
        train_corrector(segmenter, videos(), tmp_path, SIZE, AdaptSettings(), CPU)


def test_another_network_does_not_go_on_with_a_run(tmp_path):
    model, other = tmp_path / "model.tflite", tmp_path / "other.tflite"
    model.write_bytes(b"one")
    other.write_bytes(b"two")
    first = identify(ModelSpec(name=str(model)))
    assert identify(ModelSpec(name=str(other))) != first
    assert identify(ModelSpec(name=str(model), threads=1)) == first
    model.write_bytes(b"another")
    assert identify(ModelSpec(name=str(model))) != first


def test_of_many_videos_some_are_held_out_whole():
    many = list(streets(30, SIZE).videos("val")) * 5
    source = ClipSource(many, CallableRuntime(by_darkness), DisMotion(), SIZE, 3, 0.0, 0)
    assert [len(part.frames) for part in source.learned] == [30] * 8
    assert [len(part.frames) for part in source.held_out] == [30] * 2


def test_it_learns_to_mend_what_motion_leaves(tmp_path):
    adapted = train_corrector(
        VideoSegmenter(by_darkness, motion="none"),
        videos(),
        tmp_path,
        SIZE,
        AdaptSettings(steps=150, pairs=100, batch=8, longest=6, checks=6),
        CPU,
    )
    assert adapted.check.helps
    assert adapted.check.carried.corrected < 0.8 * adapted.check.carried.uncorrected
    assert adapted.check.between.corrected < adapted.check.between.uncorrected


def test_clips_are_the_same_each_time_and_held_out_ones_are_later():
    source = ClipSource(videos(), CallableRuntime(colors), DisMotion(), SIZE, 3, 0.5, seed=1)
    one, two = source.get(3), source.get(3)
    assert all(np.array_equal(a, b) for a, b in zip(one.images, two.images, strict=True))
    held = source.get_held_out(0)
    last = [videos()[0].image(index, SIZE) for index in range(16, 20)]
    assert held is not None
    assert all(any(np.array_equal(image, other) for other in last) for image in held.images)


def test_only_what_is_to_be_trained_on_is_looked_at(drive):
    names = [video.name for video in list_videos(["street:0-1", drive])]
    assert names == ["street 0", "street 1", "drive"]


def test_images_of_a_folder_are_set_in_motion(tmp_path):
    for index, image in enumerate(panning(5, SIZE)):
        cv2.imwrite(str(tmp_path / f"{index}.png"), image)
    (video,) = list_videos([tmp_path])
    source = ClipSource([video], CallableRuntime(colors), DisMotion(), SIZE, 3, 0.0, seed=1)
    for clip_of_it in (source.get(0), source.get_held_out(0)):
        assert len(clip_of_it.images) == 4
        assert not np.array_equal(clip_of_it.images[0], clip_of_it.images[3])


def test_flows_lead_both_ways_along_a_clip():
    source = ClipSource(videos(), CallableRuntime(colors), DisMotion(), SIZE, 3, 0.0, seed=1)
    pan = source._follow(panning(4, SIZE, step=4))
    back, ahead = find_flow(pan, 3, 0), find_flow(pan, 0, 3)
    assert abs(np.median(back[..., 0]) + np.median(ahead[..., 0])) < 0.01
    assert abs(np.median(back[..., 0])) > 0.05
    assert find_flow(pan, 2, 2) is None


@pytest.fixture(scope="module")
def drive(tmp_path_factory):
    return clip(tmp_path_factory.mktemp("drive") / "drive.mp4", 20, SIZE)


QUICK = ("--steps", 4, "--pairs", 16, "--longest", 3)


@pytest.fixture
def few_checks(monkeypatch):
    """From the command line: four clips held out instead of forty."""
    monkeypatch.setitem(AdaptSettings.__init__.__kwdefaults__, "checks", 4)


@pytest.mark.usefixtures("few_checks")
def test_a_checkpoint_is_adapted_from_the_command_line(tmp_path, drive, monkeypatch):
    monkeypatch.setattr("stmg.training.adapt.check.HELP", 1e9)  # whatever it learned in four steps
    done = run_stmg("adapt", "small-streets", "--on", drive, "--size", "96x128", "--out", tmp_path / "out", *QUICK)
    assert done.returncode == 0, done.stderr
    assert "to use it: stmg segment VIDEO --model" in done.stdout
    assert "% of the network" in " ".join(done.stdout.split())
    segmenter = stmg.load(tmp_path / "out")
    assert segmenter.settings.corrector is not None
    assert stmg.load(tmp_path / "out", corrector="none").settings.corrector is None
    results = list(segmenter.stream(panning(6, SIZE), mode="online"))
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
    monkeypatch.setattr("stmg.training.adapt.check.HELP", 1e9)
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
def test_a_damaged_card_is_said(tmp_path, change, message):
    card = {"num_classes": 3, "width": 16, "size": [96, 128], "macs": 1, "params": 1, "motion": "dis"}
    (tmp_path / "corrector.json").write_text(json.dumps({**card, **change}))
    with pytest.raises(ModelError, match=message):
        read_corrector_card(tmp_path)


def test_what_cannot_be_adapted_is_one_line(tmp_path, drive):
    done = run_stmg("adapt", "small-streets", "--on", tmp_path / "nowhere.mp4", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert is_one_line(done.stderr)


def test_a_corrector_to_start_from_is_refused_and_none_is_not(tmp_path, drive):
    command = ("adapt", "small-streets", "--out", tmp_path / "out", "--corrector")
    done = run_stmg(*command, tmp_path, "--on", drive)
    assert (done.returncode, is_one_line(done.stderr), "leave out --corrector" in done.stderr) == (2, True, True)
    assert "nowhere.mp4" in run_stmg(*command, "none", "--on", tmp_path / "nowhere.mp4").stderr


def test_it_trains_on_a_gpu_if_there_is_one(tmp_path, drive, monkeypatch):
    monkeypatch.setattr("stmg.training.adapt.model.find_device", {None: "where there is a GPU"}.__getitem__)
    monkeypatch.setattr("stmg.training.adapt.model.train_corrector", lambda *given: pytest.exit(given[5]))
    with pytest.raises(pytest.exit.Exception, match="where there is a GPU"):
        stmg.adapt(ModelSpec(name="small-streets", size=SIZE), drive, tmp_path, FEW)


def test_a_graph_is_copied_with_the_weights_beside_it(tmp_path):
    weights = onnx.numpy_helper.from_array(np.zeros((64, 64), np.float32), "weights")
    graph = onnx.helper.make_graph([], "empty", [], [], [weights])
    options = {"save_as_external_data": True, "location": "net.onnx.data", "size_threshold": 0}
    onnx.save(onnx.helper.make_model(graph), tmp_path / "net.onnx", **options)
    assert [path.name for path in list_graph_files(tmp_path / "net.onnx")] == ["net.onnx", "net.onnx.data"]
