import numpy as np
import pytest
import torch

from stmg.errors import ModelError, SettingsError
from stmg.runtimes import make_runtime
from stmg.runtimes.callable import CallableRuntime
from stmg.runtimes.engines import ENGINES
from stmg.runtimes.exported import ExportedRuntime
from stmg.runtimes.graph import GraphRuntime
from stmg.runtimes.torch import TorchRuntime
from stmg.segmenter import VideoSegmenter
from stmg.streaming.runtime import Output, Runtime
from stmg.streaming.schedulers import FixedPeriod, Level
from zoo import colors, panning

SIZE = (64, 96)


@pytest.fixture(params=["torch", "callable", "exported", "graph"])
def runtime(request, network, tmp_path):
    if request.param == "torch":
        return TorchRuntime(network, device="cpu")
    if request.param == "callable":
        return CallableRuntime(colors)
    engine = ENGINES["onnxruntime"](1)
    if request.param == "exported":
        return ExportedRuntime(request.getfixturevalue("export_to")("onnx"), engine)
    path, example = tmp_path / "graph.onnx", (torch.zeros(1, 3, *SIZE),)
    torch.onnx.export(network.plain().eval(), example, str(path), dynamo=True, external_data=False, verbose=False)
    return GraphRuntime(path, engine)


@pytest.mark.slow
def test_every_runtime_has_every_member(runtime):
    assert isinstance(runtime, Runtime)
    assert runtime.description
    assert runtime.input_size in (None, SIZE)
    assert runtime.num_classes in (None, 5)
    assert (runtime.num_blocks > 0) == runtime.has_mask_generator
    assert isinstance(runtime.notes, tuple)
    prepared = runtime.prepare(panning(1, SIZE)[0])
    logits = runtime.full(prepared).logits
    share = np.full((4, 4), 0.5, np.float32)
    assert runtime.labels(runtime.fuse(logits, logits, None, share), SIZE).shape == SIZE
    assert runtime.probability(logits, SIZE) is None  # of several classes
    assert runtime.threshold == 0.5
    assert runtime.cost(SIZE, Level.CARRY, (False,) * runtime.num_blocks, 1.0, False).macs == 0


def test_a_runtime_stays_itself_and_anything_else_gets_one(network):
    runtime = CallableRuntime(colors)
    assert make_runtime(runtime) is runtime
    assert isinstance(make_runtime(colors), CallableRuntime)
    assert isinstance(make_runtime(network, "cpu"), TorchRuntime)


def test_what_is_no_network_and_a_device_for_another_runtime_are_refused():
    with pytest.raises(ModelError, match="a network is a torch module, a function from an RGB image to logits"):
        make_runtime(3)
    for network in (colors, CallableRuntime(colors)):
        with pytest.raises(SettingsError, match="device='cuda' is for PyTorch networks"):
            make_runtime(network, "cuda")


class Chip(Runtime):
    input_size, num_classes = (48, 64), 3

    def full(self, image):
        return Output(colors(image))


@pytest.mark.parametrize("mode", ["online", "offline", "realtime"])
def test_a_runtime_needs_one_method(mode):
    frames = panning(5, SIZE)
    results = list(VideoSegmenter(Chip(), motion="dis").stream(frames, mode=mode))
    assert [result.labels.shape for result in results] == [SIZE] * 5
    assert np.mean(results[0].labels == frames[0].argmax(2)) > 0.9 or mode == "realtime"
    with pytest.raises(TypeError, match="full"):
        type("Nothing", (Runtime,), {})()


def test_a_runtime_that_computes_frames_whole_says_so_where_a_partial_one_is_wanted():
    with pytest.raises(SettingsError, match="Chip computes frames whole or not at all; choose a scheduler"):
        list(VideoSegmenter(Chip(), scheduler=FixedPeriod(2)).stream(panning(2, SIZE)))


def brightness(image):
    """Logits of one channel, which are within 0 and 1 where the image is gray enough."""
    return 8 * (image.astype(np.float32).mean(2)[None] / 255 - 0.5)


GRAY, BLACK = np.full((*SIZE, 3), 140, np.uint8), np.zeros((*SIZE, 3), np.uint8)


def test_the_same_frame_gives_the_same_probability_whatever_came_before():
    alone = VideoSegmenter(brightness).step(GRAY).probability
    after = VideoSegmenter(brightness)
    after.step(BLACK)
    after.reset()
    assert np.array_equal(after.step(GRAY).probability, alone)
    assert alone.mean() > 0.55  # a sigmoid of its logit, which is within 0 and 1


@pytest.mark.parametrize(("last", "found"), [(torch.nn.Identity(), "logits"), (torch.nn.Sigmoid(), "probability")])
def test_one_channel_is_read_as_it_was_when_the_model_was_opened(last, found):
    torch.manual_seed(0)
    runtime = TorchRuntime(torch.nn.Sequential(torch.nn.Conv2d(3, 1, 3, padding=1), last), device="cpu")
    assert runtime.activation == found
    assert any(f"foreground above 0.5: {found}" in note for note in runtime.notes)


def test_a_function_that_fails_on_the_test_image_is_to_state_its_activation():
    def picky(image):
        assert image.max() < 200
        return brightness(image)

    with pytest.raises(ModelError, match="state with activation whether the network gives logits or probability"):
        VideoSegmenter(picky).step(GRAY)
    assert VideoSegmenter(CallableRuntime(picky, "logits")).step(GRAY).probability.mean() > 0.5
