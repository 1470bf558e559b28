"""A plain graph: a segmentation network that somebody exported, with one image in and class logits out."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stmg.errors import ModelError, SettingsError, first_line
from stmg.runtimes.callable import CallableRuntime
from stmg.runtimes.engine import Engine, GraphOutput, PlainGraph, Quantization, describe_engine
from stmg.runtimes.engines import read_scales
from stmg.runtimes.queries import NOTE, QueryOutputs, add_up_queries, find_queries
from stmg.runtimes.yolo import YoloOutputs, find_yolo, fit_letterbox, read_class_names
from stmg.streaming.logits import Foreground
from stmg.video.frames import Image, resize_image
from stmg.video.labels import MAX_CLASSES
from stmg.video.normalization import NORMALIZATIONS, Normalization

TEST_SIZE = (256, 256)  # of the image on which a graph of any size is tried


class GraphRuntime(CallableRuntime):
    """Runs an .onnx, .xml or .tflite file from an image (1, 3, H, W), or (1, H, W, 3), to logits or labels.

    A graph that takes floats gets the image normalized; one that takes bytes gets it as it is, or, where the file says
    how its integers stand for numbers and a normalization is given, those of the normalized image.

    normalization: ImageNet's if None, for a graph that takes floats; from 0 to 1 for YOLO networks.
    output: name or index of the output to use; the first of the largest maps of floats if None.
    activation: logits or probability, for a graph of one channel; if None, a final sigmoid or a test image tells.
    threshold: the probability above which a pixel is foreground, 0.5 if None; for graphs of one channel.
    """

    one_at_a_time = False
    may_have_channels_last = False
    normalization: Normalization

    def __init__(
        self,
        path: Path,
        engine: Engine,
        normalization: Normalization | None = None,
        *,
        output: str | int | None = None,
        activation: str | None = None,
        threshold: float | None = None,
    ) -> None:
        self.path, self.engine = path, engine
        graph = engine.open(path)
        shape = graph.shape
        if len(shape) != 4 or (shape[-1] != 3 and shape[1] != 3):
            raise ModelError(f"{path} takes no RGB image: its input is {shape}, not (1, 3, H, W) or (1, H, W, 3)")
        if graph.dtype is None:
            raise ModelError(f"{path} takes an image neither of bytes nor of floats")
        self._channels_last = shape[-1] == 3
        height, width = shape[1:3] if self._channels_last else shape[2:4]
        self._height, self._width = _fixed(height), _fixed(width)
        scales = read_scales(path)
        self._input_scale = scales.get(graph.name) if np.issubdtype(graph.dtype, np.integer) else None
        self._graph = graph = graph._replace(outputs=tuple(_with_scale(each, scales) for each in graph.outputs))
        super().__init__(self._run, activation, threshold)
        self.one_at_a_time = not engine.is_cpu
        self.input_size = None if self._height is None or self._width is None else (self._height, self._width)
        self.block_notes = ("a graph file has no blocks that can be skipped: frames are computed whole or carried",)
        self.class_names: tuple[str, ...] = ()
        """Class names from the file; empty if it has none."""
        self.model_size = self.input_size
        """(H, W) that the network is meant for, where it is known."""
        self.yolo = find_yolo(graph.outputs) if output is None else None
        self._queries = find_queries(graph.outputs) if output is None and not self.yolo else None
        if self._queries:
            self._indices = self._read_as_queries(self._queries)
        else:
            self._indices = self._read_as_yolo(self.yolo) if self.yolo else self._read_as_map(output)
        self.normalization = normalization or self._default_normalization()
        self.assumes_normalization = normalization is None and self._input_scale is None
        self._infer = graph.compile(self._indices)
        self._for_throughput: GraphRuntime | None = None
        if not self.yolo and not self._queries and self._layout(self.output)[0] == 1:
            self._find_activation(threshold)

    def _read_as_yolo(self, yolo: YoloOutputs) -> tuple[int, ...]:
        """Read classes from a table of boxes and prototypes of masks; a frame is then taken in its own shape."""
        self.output = self._graph.outputs[yolo.prototypes]
        self.foreground.check_channels(0)
        self.class_names = read_class_names(self._graph.metadata)
        self.num_classes = len(self.class_names) or None
        self.input_size = None
        self.notes = (
            *self.notes,
            "a YOLO network: each pixel has the class of the best-scored mask on it, counted from 1; 0 is background",
        )
        return yolo.table, yolo.prototypes

    def _read_as_queries(self, queries: QueryOutputs) -> tuple[int, ...]:
        """Read scores of classes from queries, each with a class and a mask."""
        self.output = self._graph.outputs[queries.masks]
        classes = self._graph.outputs[queries.classes].shape[2]
        if isinstance(classes, int):
            self.foreground.check_channels(classes - 1)
            self.num_classes = max(2, classes - 1)
        self.notes = (*self.notes, NOTE)
        return tuple(queries)

    def _read_as_map(self, output: str | int | None) -> tuple[int, ...]:
        """Read one map of classes, of foreground or of labels."""
        outputs = self._graph.outputs
        index = self._choose() if output is None else find_output(outputs, output, self.path)
        self.output = outputs[index]
        if self._is_table(self.output):
            raise ModelError(
                f"{self.path} gives no map of classes but a table, of boxes it seems: {list_outputs((self.output,))}; "
                "a network that gives masks is needed"
                + (", or, of a YOLO network, all of its outputs: leave output out" if output is not None else "")
            )
        channels = self._layout(self.output)[0]
        if channels is not None:
            self.foreground.check_channels(channels)
            self.num_classes = max(2, channels) if channels else None  # labels do not say
        if len(outputs) > 1:
            why = "choose with output" if output is None else "as chosen"
            named = f"the output used is {self.output.name}, {why}"
            self.notes = (*self.notes, f"{named}; there are {list_outputs(outputs)}")
        return (index,)

    def _default_normalization(self) -> Normalization:
        """Derive the normalization from the input's quantization, if any. Bytes then fill its integer range."""
        if self._input_scale is None:
            return NORMALIZATIONS["none"] if self.yolo else Normalization()
        scale, zero_point = self._input_scale
        lowest = 0 if self._graph.dtype is np.uint8 else -128
        return Normalization(((zero_point - lowest) / 255,) * 3, (1 / (255 * scale),) * 3)

    def _find_activation(self, threshold: float | None) -> None:
        if self.foreground.activation is None:
            if self.output.last == "relu":
                raise ModelError(
                    f"{self.path} gives one channel of numbers from 0 up (it ends in a ReLU), as for depth, which "
                    "cannot be shown as labels; if it is foreground, state activation: logits or probability"
                )
            if self.output.last == "sigmoid":
                self.foreground = Foreground("probability", threshold)
        self.find_activation(self.input_size or TEST_SIZE)

    def for_throughput(self) -> GraphRuntime:
        if not self.engine.is_cpu:
            return self
        if self._for_throughput is None:
            other = copy(self)
            other.copied_from = self
            other.engine = self.engine.for_throughput()
            other.function = other._run
            other._infer = other.engine.open(self.path).compile(self._indices)
            self._for_throughput = other
        return self._for_throughput

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def input_text(self) -> str:
        takes_bytes = self._input_scale is None and self._graph.dtype in (np.uint8, np.int8)
        return "RGB bytes" if takes_bytes else super().input_text

    @property
    def graph(self) -> PlainGraph:
        """The graph that it runs."""
        return self._graph

    @property
    def description(self) -> str:
        return describe_engine(self.engine)

    def _choose(self) -> int:
        """The first of the largest maps of floats; of labels, where there are no floats."""
        outputs = self._graph.outputs
        forms = [self._rank(output) for output in outputs]
        best = max(forms)
        if not best[0] and len(outputs) > 1:  # of a single one, what is wrong with it shows when it runs
            raise ModelError(f"{self.path} gives no map of classes; its outputs are {list_outputs(outputs)}")
        areas = {index: self._layout(outputs[index])[1] for index, form in enumerate(forms) if form == best}
        known = {index: area for index, area in areas.items() if area is not None}
        # Sizes that are known only when it runs cannot be compared.
        return max(known, key=lambda index: known[index]) if len(known) == len(areas) else min(areas)

    def _rank(self, output: GraphOutput) -> tuple[bool, bool, bool]:
        """Rank an output by how much it looks like a map of classes."""
        axes = len(output.shape)
        is_map = axes in (0, 3, 4) and (self._layout(output)[0] or 0) <= MAX_CLASSES and not self._is_table(output)
        return is_map, output.is_float, axes == 4

    def _is_table(self, output: GraphOutput) -> bool:
        """True if an output is a table: its rows and columns are not those of an image."""
        if len(output.shape) != 3 or not output.is_float or output.shape[0] not in (1, None):
            return False
        known = [side for side in output.shape[1:] if isinstance(side, int)]
        if self.input_size is None:
            return bool(known)  # of an image of any size they would be known when it runs
        return len(known) == 1 or (len(known) == 2 and not _similar((known[0], known[1]), self.input_size))

    def _layout(self, output: GraphOutput) -> tuple[int | None, int | None]:
        """Channels of an output, 0 of labels, and its area; None what is known only when it runs."""
        sides = [side if isinstance(side, int) and side > 0 else None for side in output.shape]
        if not output.is_float:
            channels: int | None = 0
            sides = [side for side in sides if side != 1][-2:]
        elif len(sides) != 4:
            channels, sides = (sides[0] if len(sides) == 3 else None), sides[1:]
        elif self._is_channels_last(sides):
            channels, sides = sides[3], sides[1:3]
        else:
            channels, sides = sides[1], sides[2:]
        known = [side for side in sides if side is not None]
        return channels, known[0] * known[1] if len(known) == len(sides) == 2 else None

    def _is_channels_last(self, sides: list[int | None]) -> bool:
        size = None if self._height is None or self._width is None else (self._height, self._width)
        if size is None or None in sides[1:]:
            return self._channels_last
        _, *known = (side or 1 for side in sides)
        return _similar((known[0], known[1]), size) and not _similar((known[1], known[2]), size)

    def _run(self, image: Image) -> NDArray[Any]:
        size = (self._height or image.shape[0], self._width or image.shape[1])
        if self.yolo:
            box = fit_letterbox(image.shape[:2], None if None in (self._height, self._width) else size)
            return self.yolo.read(self._infer_floats(box.fill(image)), box, image.shape[:2])
        if self._queries:
            return add_up_queries(*self._infer_floats(resize_image(image, size)))
        (output,) = self._infer_floats(resize_image(image, size))
        if np.issubdtype(output.dtype, np.integer):  # labels, perhaps with axes of length one
            return output.squeeze()
        if output.ndim == 4 and _similar(output.shape[1:3], size) and not _similar(output.shape[2:], size):
            output = output.transpose(0, 3, 1, 2)  # channels last
        return output.astype(np.float32, copy=False)

    def _infer_floats(self, image: Image) -> list[NDArray[Any]]:
        """The chosen outputs for an image of the network's size, integers as the numbers that they stand for."""
        pixels: NDArray[Any] = image
        if self._input_scale is not None:
            assert self._graph.dtype is not None
            pixels = self._input_scale.to_integers(self.normalization.apply(image), self._graph.dtype)
        elif self._graph.dtype is np.int8:
            pixels = (image ^ 128).view(np.int8)  # from 0 to 255 as from -128 to 127
        elif self._graph.dtype is not np.uint8:
            assert self._graph.dtype is not None
            pixels = self.normalization.apply(image).astype(self._graph.dtype)
        pixels = pixels[None] if self._channels_last else np.ascontiguousarray(pixels.transpose(2, 0, 1))[None]
        try:
            arrays = self._infer(pixels)
        except Exception as error:  # engines have no family of errors
            height, width = image.shape[:2]
            raise ModelError(f"{self.path} cannot compute an image of {height}x{width}: {first_line(error)}") from error
        scales = [self._graph.outputs[index].quantization for index in self._indices]
        return [scale.to_floats(each) if scale else each for scale, each in zip(scales, arrays, strict=True)]


def find_output(outputs: tuple[GraphOutput, ...], wanted: str | int, path: Path) -> int:
    """Find the index of an output by its name, or by its index as a number or text."""
    names = [output.name for output in outputs]
    if wanted in names:  # first, as exporters may call them by numbers
        return names.index(str(wanted))
    if isinstance(wanted, int) or wanted.isdecimal():
        index = int(wanted)
        if 0 <= index < len(outputs):
            return index
    raise SettingsError(f"output: {path} has no output {wanted!r}; there are {list_outputs(outputs)}")


def list_outputs(outputs: tuple[GraphOutput, ...]) -> str:
    """Outputs by index, name and shape, in one line."""
    return ", ".join(f"{index} {output.name} {_shape_text(output)}" for index, output in enumerate(outputs))


def _shape_text(output: GraphOutput) -> str:
    return "x".join(str(side) if isinstance(side, int) else "?" for side in output.shape) or "of any shape"


def _with_scale(output: GraphOutput, scales: Mapping[str, Quantization]) -> GraphOutput:
    """An output whose integers stand for numbers, as one of floats."""
    if output.is_float or output.name not in scales:
        return output
    return output._replace(is_float=True, quantization=scales[output.name])


def _fixed(side: int | str | None) -> int | None:
    """A side of the input as a number; None if it is free."""
    return side if isinstance(side, int) and side > 0 else None


def _similar(sides: tuple[int, ...], image: tuple[int, int]) -> bool:
    """True if two sides have the proportions of an image."""
    return abs(sides[0] * image[1] - sides[1] * image[0]) <= max(image)
