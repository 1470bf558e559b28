import cv2
import numpy as np
import openvino
import pytest
import torch

import stmg
from stmg import TorchRuntime, VideoSegmenter
from stmg.errors import ModelError
from stmg.streaming.schedulers import FixedPeriod, Level
from stmg.video.normalization import Normalization
from zoo import panning

SIZE = (64, 96)
KINDS = {"onnx": "onnxruntime", "openvino": "openvino"}

pytestmark = pytest.mark.slow


def test_a_plain_graph_of_somebody_else_runs_without_training(network, tmp_path):
    plain = network.plain().eval()
    path = tmp_path / "plain.onnx"
    torch.onnx.export(plain, (torch.zeros(1, 3, *SIZE),), str(path), dynamo=True, external_data=False, verbose=False)
    frames = panning(4, SIZE)
    ours = VideoSegmenter(TorchRuntime(plain, device="cpu"), scheduler=FixedPeriod(2, Level.CARRY))
    for runtime in KINDS.values():
        theirs = stmg.load(path, runtime=runtime, scheduler=FixedPeriod(2, Level.CARRY), threads=1)
        for one, two in zip(ours.stream(frames), theirs.stream(frames), strict=True):
            assert one.level == two.level
            assert np.mean(one.labels == two.labels) > 0.999
    openvino.save_model(openvino.convert_model(str(path)), str(tmp_path / "plain.xml"), compress_to_fp16=False)
    ours.reset()
    first = stmg.load(tmp_path / "plain.xml", threads=1).step(frames[0])
    assert np.mean(first.labels == ours.step(frames[0]).labels) > 0.999
    (tmp_path / "broken.onnx").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="cannot be loaded"):
        stmg.load(tmp_path / "broken.onnx")


class Turned(torch.nn.Module):
    """Channels last from end to end, as TensorFlow has them, or labels."""

    def __init__(self, plain, labels):
        super().__init__()
        self.plain, self.labels = plain, labels

    def forward(self, image):
        logits = self.plain(image.permute(0, 3, 1, 2))
        return logits.argmax(1, keepdim=True) if self.labels else logits.permute(0, 2, 3, 1)


@pytest.mark.parametrize("labels", [False, True])
def test_a_plain_graph_may_have_channels_last_or_give_labels(network, tmp_path, labels):
    plain = network.plain().eval()
    path = tmp_path / "plain.onnx"
    example = (torch.zeros(1, *SIZE, 3),)
    turned = Turned(plain, labels).eval()
    torch.onnx.export(turned, example, str(path), dynamo=True, external_data=False, verbose=False)
    frame = panning(1, SIZE)[0]
    ours = TorchRuntime(plain, device="cpu")
    logits = ours.full(ours.prepare(frame)).logits
    expected = ours.labels(logits, SIZE)
    if labels:
        expected = cv2.resize(logits[0].argmax(0).byte().numpy(), SIZE[::-1], interpolation=cv2.INTER_NEAREST)
    for runtime in KINDS.values():
        theirs = stmg.load(path, runtime=runtime, threads=1)
        assert theirs.runtime.input_size == SIZE
        assert np.mean(theirs.step(frame).labels == expected) > 0.999


def test_a_plain_graph_is_normalized_as_chosen(network, tmp_path):
    path = tmp_path / "plain.onnx"
    example = (torch.zeros(1, 3, *SIZE),)
    torch.onnx.export(network.plain().eval(), example, str(path), dynamo=True, external_data=False, verbose=False)
    frame = panning(1, SIZE)[0]
    mean, std = (0.5,) * 3, (0.2,) * 3
    ours = TorchRuntime(network.plain(), device="cpu", mean=mean, std=std)
    expected = ours.full(ours.prepare(frame)).logits[0].numpy()
    theirs = stmg.load(path, threads=1, normalize=Normalization(mean, std)).runtime
    assert np.allclose(theirs.full(theirs.prepare(frame)).logits, expected, atol=1e-3)
    other = stmg.load(path, threads=1).runtime
    assert not np.allclose(other.full(other.prepare(frame)).logits, expected, atol=1e-3)


def test_a_graph_that_takes_no_image_is_refused(tmp_path):
    path = tmp_path / "flat.onnx"
    flat = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 3)).eval()
    torch.onnx.export(flat, (torch.zeros(1, 1, 3, 4),), str(path), dynamo=True, external_data=False, verbose=False)
    for runtime in KINDS.values():
        with pytest.raises(ModelError, match="takes no RGB image"):
            stmg.load(path, runtime=runtime)
