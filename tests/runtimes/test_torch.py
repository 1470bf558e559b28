import threading
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from stmg.gating.accelerate import accelerate
from stmg.networks import build
from stmg.runtimes.torch import TorchRuntime
from stmg.segmenter import VideoSegmenter
from stmg.streaming.masks import Masks
from zoo import panning

SIZE = (96, 128)
EXAMPLE = torch.zeros(1, 3, *SIZE)


def test_folding_changes_no_label_that_is_not_a_tie(model, plain):
    folded = TorchRuntime(accelerate(model, EXAMPLE), device="cpu")
    frame = panning(1, SIZE)[0]
    one, two = (VideoSegmenter(runtime).step(frame).labels for runtime in (plain, folded))
    assert (one == two).mean() > 0.999


def test_a_plain_module_is_accelerated_on_the_way(model):
    result = VideoSegmenter(model, device="cpu").step(panning(1, SIZE)[0])
    assert result.kept_blocks == 5
    assert result.plot().shape == (*SIZE, 3)


def test_one_class_is_there_where_it_scores_above_zero():
    frame = panning(1, SIZE)[0]
    green = frame[:, :, 1].astype(np.float32) - 128
    result = VideoSegmenter(lambda image: green[None]).step(frame)
    assert np.array_equal(result.labels, green > 0)
    network = nn.Sequential(nn.Conv2d(3, 1, 3, padding=1))
    labels = VideoSegmenter(network, device="cpu").step(frame).labels
    assert set(np.unique(labels)) == {0, 1}


def test_logits_that_are_not_finite_are_refused_when_they_come():
    network = nn.Sequential(nn.Conv2d(3, 2, 1), nn.Threshold(1e9, float("nan")))
    with pytest.raises(ValueError, match="logits are not finite"):
        VideoSegmenter(network, device="cpu").step(panning(1, SIZE)[0])


def test_a_network_that_fits_one_size_and_a_network_in_half_precision():
    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3, 4, 1)
            self.places = nn.Parameter(torch.randn(1, 4, 24, 32))

        def forward(self, x):
            return self.conv(x) + self.places

    for model, dtype in ((Fixed(), torch.float32), (build("small", 3).to(torch.bfloat16), torch.bfloat16)):
        network = accelerate(model, torch.zeros(1, 3, *SIZE, dtype=dtype))
        results = list(VideoSegmenter(network, device="cpu").stream(panning(2, SIZE)))
        assert results[1].labels.shape == SIZE


def test_the_callers_model_stays_where_it_is(model):
    before = {name: value.data_ptr() for name, value in model.state_dict().items()}
    TorchRuntime(model, device="cpu")
    assert {name: value.data_ptr() for name, value in model.state_dict().items()} == before


def test_an_unknown_device_is_refused(model):
    with pytest.raises(ValueError, match="no device 'quantum' here"):
        TorchRuntime(model, device="quantum")


def test_weights_that_are_not_finite_are_refused():
    broken = build("small", 3)
    with torch.no_grad():
        broken.head[3].bias[0] = float("nan")
    with pytest.raises(ValueError, match=r"not finite, first in network\.head\.3\.bias"):
        TorchRuntime(broken, device="cpu")


def test_autocast_gives_labels_too(model):
    runtime = TorchRuntime(accelerate(model, EXAMPLE, mask_generator=True), device="cpu", precision="bf16")
    results = list(VideoSegmenter(runtime, scheduler="paper").stream(panning(3, SIZE)))
    assert {result.labels.shape for result in results} == {SIZE}


def test_a_head_whose_batch_norm_is_folded_does_not_write_on_the_features():
    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
            self.head = nn.Sequential(nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Conv2d(8, 4, 1))
            nn.init.normal_(self.head[0].bias)

        def forward(self, x):
            return self.head(self.body(x))

    network = accelerate(Norm().eval(), EXAMPLE)
    assert network.head == "head"
    masks = Masks((), np.full((24, 32), 0.3, np.float32))
    one, two = panning(2, SIZE, step=20)
    logits = []
    for runtime in (TorchRuntime(network, device="cpu", optimize=optimize) for optimize in (True, False)):
        features = runtime.full(runtime.prepare(one)).features
        assert float(features[0].min()) < 0
        logits.append(runtime.partial(runtime.prepare(two), masks, features, None, 1.0).logits)
    assert torch.allclose(*logits, atol=1e-4)


@pytest.mark.parametrize(("optimize", "count"), [(True, 1), (False, 4)])
def test_frames_that_are_computed_side_by_side_share_the_threads(optimize, count):
    """Unless the network is to stay as it is, bit for bit."""
    before, counts = torch.get_num_threads(), []
    model = build("small", 5).eval()
    runtime = TorchRuntime(model, device="cpu", optimize=optimize)
    note = lambda *_: counts.append((threading.current_thread().name, torch.get_num_threads()))  # noqa: E731
    runtime.network.network.register_forward_hook(note)  # later than the runtime looks for hooks
    segmenter = VideoSegmenter(runtime)
    torch.set_num_threads(4)
    try:
        list(segmenter.stream(panning(3, SIZE), mode="offline"))
    finally:
        torch.set_num_threads(before)
    assert {threads for name, threads in counts if name.startswith("stmg-offline")} == {count}


def test_a_read_only_image_is_taken_without_a_warning(model):
    image = panning(1, SIZE)[0]
    runtime = TorchRuntime(model, device="cpu")
    expected = runtime.prepare(image)
    image.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(runtime.prepare(image), expected)
