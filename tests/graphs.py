"""Small graph files like those of other exporters: ONNX by its helper, TensorFlow Lite by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import flatbuffers
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZE = (48, 64)


def brightness(image: np.ndarray, scale: float = 8.0) -> np.ndarray:
    """What the graphs below compute, (H, W): the logit of a pixel, above 0 where its channels are more than half."""
    return scale * (image.astype(np.float32).mean(2) / 255 - 0.5)


def save_one_channel(
    path: Path,
    *,
    sigmoid: bool = False,
    clip: bool = False,
    last: str = "",
    scale: float = 8.0,
    half: float = 0.5,
    channels_last: bool = False,
    size: Sequence[int] | None = SIZE,
) -> Path:
    """One channel: the logit of `brightness` for images from 0 to 1, its sigmoid, or the mean of the image itself.

    last: another operation on the logit, instead of the sigmoid.
    """
    height, width = ("height", "width") if size is None else size
    shape = [1, height, width, 3] if channels_last else [1, 3, height, width]
    nodes = [helper.make_node("ReduceMean", ["image", "axes"], ["mean"], keepdims=1)]
    if clip:
        nodes.append(helper.make_node("Clip", ["mean", "low", "high"], ["out"]))
    else:
        nodes.append(helper.make_node("Sub", ["mean", "half"], ["centered"]))
        nodes.append(helper.make_node("Mul", ["centered", "scale"], ["logit"]))
        nodes.append(helper.make_node("Sigmoid" if sigmoid else last or "Identity", ["logit"], ["made"]))
        nodes.append(helper.make_node("Identity", ["made"], ["out"]))
    out = [1, height, width, 1] if channels_last else [1, 1, height, width]
    return _save(path, nodes, shape, {"out": out}, axis=3 if channels_last else 1, half=half, scale=scale)


def save_yolo(
    path: Path, table: np.ndarray, prototypes: np.ndarray, *, size: tuple[int, int], names: Sequence[str] = ()
) -> Path:
    """A YOLO network that gives the same table of boxes and the same prototypes for every image of a size."""
    nodes = [
        helper.make_node("ReduceMean", ["images", "axes"], ["mean"], keepdims=0),
        helper.make_node("Mul", ["mean", "zero"], ["nothing"]),
        helper.make_node("Add", ["table", "nothing"], ["output0"]),
        helper.make_node("Add", ["prototypes", "nothing"], ["output1"]),
    ]
    arrays = {"table": table[None], "prototypes": prototypes[None], "zero": np.float32(0)}
    tensors = [numpy_helper.from_array(np.asarray(each, np.float32), name) for name, each in arrays.items()]
    tensors.append(helper.make_tensor("axes", TensorProto.INT64, [4], [0, 1, 2, 3]))
    outputs = {"output0": arrays["table"].shape, "output1": arrays["prototypes"].shape}
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, *size])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, sides) for name, sides in outputs.items()],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    if names:
        helper.set_model_props(model, {"names": str(dict(enumerate(names)))})
    onnx.checker.check_model(model)
    onnx.save(model, str(path))
    return path


def save_several_outputs(path: Path) -> Path:
    """Seven outputs as a saliency network gives them: sides at lower resolutions first, then the one to use."""
    height, width = SIZE
    nodes = [
        helper.make_node("ReduceMean", ["image", "axes"], ["mean"], keepdims=1),
        helper.make_node("Sub", ["mean", "half"], ["centered"]),
        helper.make_node("Mul", ["centered", "scale"], ["logit"]),
        helper.make_node("GlobalAveragePool", ["image"], ["score"]),
        helper.make_node("ArgMax", ["image"], ["1955"], axis=1, keepdims=1),
    ]
    outputs: dict[str, list[int]] = {"score": [1, 3, 1, 1], "1955": [1, 1, height, width]}
    for step in (8, 4, 2):
        name = f"side{step}"
        attributes = {"kernel_shape": [step, step], "strides": [step, step]}
        nodes.append(helper.make_node("AveragePool", ["logit"], [name], **attributes))
        outputs[name] = [1, 1, height // step, width // step]
    for name, source in (("1959", "logit"), ("last", "centered")):
        nodes.append(helper.make_node("Sigmoid", [source], [name]))
        outputs[name] = [1, 1, height, width]
    return _save(path, nodes, [1, 3, height, width], outputs, axis=1, integers=("1955",))


def _save(
    path: Path,
    nodes: list[onnx.NodeProto],
    shape: list[int | str],
    outputs: dict[str, list[int | str]],
    axis: int,
    integers: Sequence[str] = (),
    half: float = 0.5,
    scale: float = 8.0,
) -> Path:
    constants = {"half": half, "scale": scale, "low": 0.0, "high": 1.0}
    used = {name for node in nodes for name in node.input}
    tensors = [helper.make_tensor(name, TensorProto.FLOAT, [], [constants[name]]) for name in constants if name in used]
    tensors.append(helper.make_tensor("axes", TensorProto.INT64, [1], [axis]))
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
        [
            helper.make_tensor_value_info(name, TensorProto.INT64 if name in integers else TensorProto.FLOAT, sides)
            for name, sides in outputs.items()
        ],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.checker.check_model(model)
    onnx.save(model, str(path))
    return path


def save_tflite(path: Path, *, int8: bool = False) -> Path:
    """One channel of probabilities, channels last: the sigmoid of a pixel's mean, as TensorFlow Lite's flatbuffer.

    int8: images from 0 to 1 and probabilities as signed bytes, whose scales are in the file.
    """
    height, width = SIZE
    file = flatbuffers.Builder(1024)
    scales = {"image": 1 / 255, "mean": 1 / 255, "out": 1 / 256} if int8 else {}
    shapes = {"image": [1, height, width, 3], "axes": [1], "mean": [1, height, width, 1], "out": [1, height, width, 1]}
    buffers = [
        _table(file, 1, {}),
        _table(file, 1, {0: file.CreateNumpyVector(np.array([3], np.int32).view(np.uint8))}),
    ]
    tensors = []
    for name, shape in shapes.items():
        sides, text = file.CreateNumpyVector(np.array(shape, np.int32)), file.CreateString(name)
        constant = name == "axes"
        fields = {0: sides, 1: (file.PrependInt8Slot, 2 if constant else 9 * int8), 3: text}
        if name in scales:
            scale, zero_point = (
                file.CreateNumpyVector(np.array([each], dtype))
                for each, dtype in ((scales[name], np.float32), (-128, np.int64))
            )
            fields[4] = _table(file, 4, {2: scale, 3: zero_point})
        tensors.append(_table(file, 5, {**fields, 2: (file.PrependUint32Slot, int(constant))}))
    keep = _table(file, 1, {0: (file.PrependBoolSlot, True)})
    version = file.PrependInt32Slot, 2  # of operators that take signed bytes
    codes = [
        _table(file, 4, {0: (file.PrependInt8Slot, code), 2: version, 3: (file.PrependInt32Slot, code)})
        for code in (40, 14)  # MEAN, LOGISTIC
    ]
    operators = []
    for index, (inputs, output) in enumerate([([0, 1], 2), ([2], 3)]):
        ends = [file.CreateNumpyVector(np.array(each, np.int32)) for each in (inputs, [output])]
        fields = {0: (file.PrependUint32Slot, index), 1: ends[0], 2: ends[1]}
        if index == 0:
            fields |= {3: (file.PrependUint8Slot, 27), 4: keep}  # ReducerOptions
        operators.append(_table(file, 5, fields))
    ends = [file.CreateNumpyVector(np.array(each, np.int32)) for each in ([0], [3])]
    parts = {0: _vector(file, tensors), 1: ends[0], 2: ends[1], 3: _vector(file, operators)}
    graphs = _vector(file, [_table(file, 4, parts)])
    whole = {0: (file.PrependUint32Slot, 3), 1: _vector(file, codes), 2: graphs, 4: _vector(file, buffers)}
    file.Finish(_table(file, 5, whole), file_identifier=b"TFL3")
    path.write_bytes(bytes(file.Output()))
    return path


def _table(file: flatbuffers.Builder, slots: int, fields: dict) -> int:
    """A table of offsets, and of numbers given with the method that writes them."""
    file.StartObject(slots)
    for slot, value in fields.items():
        if isinstance(value, tuple):
            value[0](slot, value[1], 0)
        else:
            file.PrependUOffsetTRelativeSlot(slot, value, 0)
    return file.EndObject()


def _vector(file: flatbuffers.Builder, offsets: list[int]) -> int:
    file.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        file.PrependUOffsetTRelative(offset)
    return file.EndVector()
