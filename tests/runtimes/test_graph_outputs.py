"""Graph files of one channel, of several outputs and of TensorFlow Lite: the right output, read the right way."""

import numpy as np
import pytest

import stmg
from graphs import SIZE, brightness, save_one_channel, save_several_outputs, save_tflite
from stmg.errors import SettingsError
from zoo import texture

ENGINES = ["onnxruntime", "openvino"]
PLAIN = {"normalize": "none", "threads": 1}
IMAGE = texture(*SIZE)


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("is_sigmoid", [False, True])
@pytest.mark.parametrize("channels_last", [False, True])
def test_logits_and_probabilities_are_told_apart(tmp_path, engine, is_sigmoid, channels_last):
    path = save_one_channel(tmp_path / "one.onnx", sigmoid=is_sigmoid, channels_last=channels_last)
    segmenter = stmg.load(path, runtime=engine, **PLAIN)
    assert segmenter.runtime.activation == ("probability" if is_sigmoid else "logits")
    result = segmenter.step(IMAGE)
    assert np.allclose(result.probability, sigmoid(brightness(IMAGE)), atol=1e-5)
    assert np.array_equal(result.labels, result.probability > 0.5)
    assert 0.1 < result.labels.mean() < 0.9


@pytest.mark.parametrize("engine", ENGINES)
def test_without_a_sigmoid_the_values_tell(tmp_path, engine):
    path = save_one_channel(tmp_path / "mean.onnx", sigmoid=False, clip=True)
    segmenter = stmg.load(path, runtime=engine, **PLAIN)
    assert any("state it with activation" in note for note in segmenter.runtime.notes)
    assert np.allclose(segmenter.step(IMAGE).probability, IMAGE.mean(2) / 255, atol=1e-5)
    stated = stmg.load(path, runtime=engine, activation="logits", threshold=0.6, **PLAIN).step(IMAGE)
    assert np.allclose(stated.probability, sigmoid(IMAGE.mean(2) / 255), atol=1e-5)
    assert np.array_equal(stated.labels, stated.probability > 0.6)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_first_of_the_largest_maps_is_used_and_named(tmp_path, engine):
    segmenter = stmg.load(save_several_outputs(tmp_path / "seven.onnx"), runtime=engine, **PLAIN)
    assert segmenter.runtime.output.name == "1959"
    (note,) = (note for note in segmenter.runtime.notes if "1959" in note)
    for name in ("score", "1955", "side8", "side4", "side2", "last"):
        assert name in note
    assert np.allclose(segmenter.step(IMAGE).probability, sigmoid(brightness(IMAGE)), atol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("output", ["last", 6, "6"])
def test_another_output_is_chosen_by_name_or_number(tmp_path, engine, output):
    segmenter = stmg.load(save_several_outputs(tmp_path / "seven.onnx"), runtime=engine, output=output, **PLAIN)
    assert np.allclose(segmenter.step(IMAGE).probability, sigmoid(brightness(IMAGE, 1)), atol=1e-5)
    labels = stmg.load(tmp_path / "seven.onnx", runtime=engine, output="1955", **PLAIN).step(IMAGE)
    assert labels.probability is None
    assert np.array_equal(labels.labels, IMAGE.argmax(2))


@pytest.mark.parametrize("output", ["d0", 7, "-1"])
def test_an_output_that_is_not_there_is_refused_with_those_that_are(tmp_path, output):
    path = save_several_outputs(tmp_path / "seven.onnx")
    with pytest.raises(SettingsError, match=r"no output '?(d0|7|-1)'?; there are 0 score 1x3x1x1, 1 1955 .* 6 last"):
        stmg.load(path, output=output)


def test_what_is_for_one_channel_is_refused_for_others_before_the_first_frame(tmp_path):
    path = save_several_outputs(tmp_path / "seven.onnx")
    for options in ({"activation": "logits"}, {"threshold": 0.4}):
        with pytest.raises(SettingsError, match=f"{next(iter(options))}=.* is for networks of one channel"):
            stmg.load(path, output="score", **options)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_graph_of_any_size_works_at_the_size_of_the_frame(tmp_path, engine):
    path = save_one_channel(tmp_path / "free.onnx", sigmoid=True, size=None)
    image = texture(40, 72)
    result = stmg.load(path, runtime=engine, **PLAIN).step(image)
    assert np.allclose(result.probability, sigmoid(brightness(image)), atol=1e-5)


def test_a_tflite_file_runs_through_openvino(tmp_path):
    path = save_tflite(tmp_path / "one.tflite")
    segmenter = stmg.load(path, **PLAIN)
    assert segmenter.runtime.engine.name == "openvino"
    assert segmenter.runtime.input_size == SIZE
    assert segmenter.runtime.activation == "probability"
    assert np.allclose(segmenter.step(IMAGE).probability, sigmoid(IMAGE.mean(2) / 255), atol=1e-5)
    with pytest.raises(SettingsError, match=r"openvino reads \.tflite files"):
        stmg.load(path, runtime="onnxruntime")
