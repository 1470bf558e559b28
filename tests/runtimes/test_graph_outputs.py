"""Outputs of graph files: one channel, several outputs, and TensorFlow Lite."""

import numpy as np
import onnx
import pytest

import stmg
from graphs import SIZE, brightness, save_one_channel, save_several_outputs, save_tflite, save_yolo
from stmg.errors import ModelError, SettingsError
from zoo import texture

ENGINES = ["onnxruntime", "openvino"]
PLAIN = {"normalize": "none", "threads": 1}
IMAGE = texture(*SIZE)


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("is_sigmoid", [False, True])
@pytest.mark.parametrize("channels_last", [False, True])
def test_logits_and_probabilities_are_distinguished(tmp_path, engine, is_sigmoid, channels_last):
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
    with pytest.raises(SettingsError, match=r"\.tflite files are for openvino and litert"):
        stmg.load(path, runtime="onnxruntime")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ({"last": "Relu"}, "ends in a ReLU"),  # inverse depth: even where all of it is below 1
        ({"half": 0.0, "scale": 80.0}, r"numbers from \S+ to \S+ on a test image.*looks like depth"),
    ],
)
def test_depth_is_refused_with_what_to_state_if_it_is_none(tmp_path, engine, graph, message):
    path = save_one_channel(tmp_path / "depth.onnx", **graph)
    with pytest.raises(ModelError, match=f"{message}.*state activation: logits or probability"):
        stmg.load(path, runtime=engine, **PLAIN)
    stated = stmg.load(path, runtime=engine, activation="logits", **PLAIN)
    assert stated.step(IMAGE).probability is not None


def test_logits_that_are_all_above_zero_on_one_image_are_no_depth(tmp_path):
    path = save_one_channel(tmp_path / "bright.onnx", half=0.01, scale=80.0)  # below 0 where an image is black
    assert stmg.load(path, **PLAIN).runtime.activation == "logits"


def test_depth_of_a_function_is_refused():
    segmenter = stmg.VideoSegmenter(lambda image: image[None, :, :, 0].astype(np.float32) / 4)
    with pytest.raises(ModelError, match="looks like depth"):
        segmenter.step(IMAGE)


def test_a_table_of_boxes_alone_is_refused(tmp_path):
    table, prototypes = np.zeros((84, 126), np.float32), np.zeros((32, 12, 16), np.float32)
    path = save_yolo(tmp_path / "boxes.onnx", table, prototypes, size=SIZE)
    for options in ({}, {"output": "output0"}):
        with pytest.raises(ModelError, match="no map of classes but a table, of boxes it seems"):
            stmg.load(without_output(path, "output1") if not options else path, **options, **PLAIN)
    assert stmg.load(path, output="output1", **PLAIN).runtime.num_classes == 32  # who asks for it gets it


def without_output(path, name):
    model = onnx.load(str(path))
    model.graph.output.remove(next(each for each in model.graph.output if each.name == name))
    onnx.save(model, str(path.with_stem("alone")))
    return path.with_stem("alone")


@pytest.mark.parametrize("engine", ["openvino", "litert"])
def test_signed_bytes_stand_for_the_numbers_that_the_file_says(tmp_path, engine):
    path = save_tflite(tmp_path / "int8.tflite", int8=True)
    segmenter = stmg.load(path, runtime=engine, threads=1)
    assert segmenter.runtime.normalization.mean == pytest.approx((0,) * 3)
    assert segmenter.runtime.normalization.std == pytest.approx((1,) * 3)
    assert segmenter.runtime.activation == "probability"
    assert np.allclose(segmenter.step(IMAGE).probability, sigmoid(IMAGE.mean(2) / 255), atol=0.01)
    dark = stmg.load(path, runtime=engine, threads=1, normalize=stmg.Normalization((0.5,) * 3, (1.0,) * 3))
    expected = sigmoid(np.clip(IMAGE.astype(float) / 255 - 0.5, 0, 1).mean(2))
    assert np.allclose(dark.step(IMAGE).probability, expected, atol=0.01)


def test_a_quantized_onnx_file_says_its_scales_too(tmp_path):
    path = save_quantized(tmp_path / "int8.onnx")
    for engine in ENGINES:
        result = stmg.load(path, runtime=engine, threads=1).step(IMAGE)
        assert np.allclose(result.probability, sigmoid(brightness(IMAGE)), atol=0.03)


def save_quantized(path):
    """The logit of `brightness` in signed bytes from end to end."""
    helper = onnx.helper
    constants = {"s_in": np.float32(1 / 255), "z_in": np.int8(-128), "s_out": np.float32(1 / 16), "z_out": np.int8(0)}
    constants |= {"axes": np.array([1]), "half": np.float32(0.5), "eight": np.float32(8)}
    nodes = [
        helper.make_node("DequantizeLinear", ["image", "s_in", "z_in"], ["floats"]),
        helper.make_node("ReduceMean", ["floats", "axes"], ["mean"], keepdims=1),
        helper.make_node("Sub", ["mean", "half"], ["centered"]),
        helper.make_node("Mul", ["centered", "eight"], ["logit"]),
        helper.make_node("QuantizeLinear", ["logit", "s_out", "z_out"], ["out"]),
    ]
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.INT8, [1, channels, *SIZE])
        for name, channels in (("image", 3), ("out", 1))
    ]
    tensors = [onnx.numpy_helper.from_array(np.asarray(each), name) for name, each in constants.items()]
    graph = helper.make_graph(nodes, "graph", ends[:1], ends[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), str(path))
    return path
