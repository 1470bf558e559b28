import cv2
import numpy as np
import openvino
import pytest
import torch

import stmg
from stmg import TorchRuntime, VideoSegmenter
from stmg.cli.options import normalisation_of
from stmg.commands.segmenters import segmenter_for
from stmg.scheduler import FixedPeriod, Level
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
        scores = self.plain(image.permute(0, 3, 1, 2))
        return scores.argmax(1, keepdim=True) if self.labels else scores.permute(0, 2, 3, 1)


@pytest.mark.parametrize("labels", [False, True])
def test_a_plain_graph_may_have_channels_last_or_give_labels(network, tmp_path, labels):
    plain = network.plain().eval()
    path = tmp_path / "plain.onnx"
    example = (torch.zeros(1, *SIZE, 3),)
    turned = Turned(plain, labels).eval()
    torch.onnx.export(turned, example, str(path), dynamo=True, external_data=False, verbose=False)
    frame = panning(1, SIZE)[0]
    ours = TorchRuntime(plain, device="cpu")
    scores = ours.full(ours.prepare(frame)).scores
    expected = ours.labels(scores, SIZE)
    if labels:
        expected = cv2.resize(scores[0].argmax(0).byte().numpy(), SIZE[::-1], interpolation=cv2.INTER_NEAREST)
    for runtime in KINDS.values():
        theirs = stmg.load(path, runtime=runtime, threads=1)
        assert theirs.runtime.size == SIZE
        assert np.mean(theirs.step(frame).labels == expected) > 0.999


def test_a_plain_graph_is_normalised_as_it_is_told(network, tmp_path):
    path = tmp_path / "plain.onnx"
    example = (torch.zeros(1, 3, *SIZE),)
    torch.onnx.export(network.plain().eval(), example, str(path), dynamo=True, external_data=False, verbose=False)
    frame = panning(1, SIZE)[0]
    ours = TorchRuntime(network.plain(), device="cpu", mean=(0.5,) * 3, std=(0.2,) * 3)
    expected = ours.full(ours.prepare(frame)).scores[0].numpy()
    told = segmenter_for(str(path), threads=1, normalise=normalisation_of("0.5,0.5,0.5/0.2,0.2,0.2")).runtime
    assert np.allclose(told.full(told.prepare(frame)).scores, expected, atol=1e-3)
    assert normalisation_of("half") == ((0.5,) * 3, (0.5,) * 3)
    assert normalisation_of(None) is None
    for wrong in ("some", "1,1,1", "0,0,0/1,1,0", "0/1"):
        with pytest.raises(ValueError, match="--normalise is imagenet, none"):
            normalisation_of(wrong)
    with pytest.raises(ValueError, match="says itself how it is normalised"):
        segmenter_for("small-streets", normalise=normalisation_of("none"))
