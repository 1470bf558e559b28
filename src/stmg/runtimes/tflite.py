"""Read from a .tflite file what engines do not report: quantization scales and the last operation."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

from stmg.errors import ModelError
from stmg.runtimes.engine import LAST_OPERATIONS, PASSING, Quantization

# Builtin operators by code: only those needed here.
OPERATORS = {
    6: "DEQUANTIZE",
    14: "LOGISTIC",
    19: "RELU",
    22: "RESHAPE",
    23: "RESIZE_BILINEAR",
    39: "TRANSPOSE",
    43: "SQUEEZE",
    47: "EXP",
    53: "CAST",
    70: "EXPAND_DIMS",
    97: "RESIZE_NEAREST_NEIGHBOR",
    114: "QUANTIZE",
}


class TfliteFile(NamedTuple):
    """Inputs and outputs of a .tflite file, by name."""

    scales: dict[str, Quantization]
    """Quantization of the quantized inputs and outputs, by name."""
    last_operations: dict[str, str]
    """Last operation of each output by name, as in `GraphOutput.last`."""


def read_tflite(path: Path) -> TfliteFile:
    """Read a .tflite file's description of its inputs and outputs."""
    try:
        return _read(path.read_bytes())
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ModelError(f"{path} cannot be loaded: it is damaged, or no TensorFlow Lite file") from error


def _read(content: bytes) -> TfliteFile:
    model = _Table(content, _number(content, "<I", 0))
    codes = [max(table.number(0, "<b"), table.number(3, "<i")) for table in model.tables(1)]
    graph = model.tables(2)[0]
    tensors = graph.tables(0)
    names = [table.text(3) for table in tensors]
    inputs, outputs = graph.numbers(1, "i"), graph.numbers(2, "i")
    scales = {}
    for index in (*inputs, *outputs):
        for quantization in tensors[index].table(4):
            scale, zero_point = quantization.numbers(2, "f"), quantization.numbers(3, "q")
            if len(scale) == 1 and scale[0] not in (0, 1):  # whole numbers, such as labels, stand for themselves
                scales[names[index]] = Quantization(scale[0], zero_point[0] if zero_point else 0)
    operators = graph.tables(3)
    producers = {output: operator for operator in operators for output in operator.numbers(2, "i")}
    last = {}
    for index in outputs:
        tensor, code = index, ""
        while tensor in producers:
            operator = producers[tensor]
            code = OPERATORS.get(codes[operator.number(0, "<I")], "")
            if code not in PASSING:
                break
            tensor = operator.numbers(1, "i")[0]
        last[names[index]] = LAST_OPERATIONS.get(code, "")
    return TfliteFile(scales, last)


def _number(content: bytes, form: str, position: int) -> int:
    (number,) = struct.unpack_from(form, content, position)
    return int(number)


class _Table(NamedTuple):
    """A table of a flatbuffer, whose fields lie where its vtable says."""

    content: bytes
    position: int

    def _field(self, slot: int) -> int | None:
        """Position of a field; None if the field is absent."""
        vtable = self.position - _number(self.content, "<i", self.position)
        if 4 + 2 * slot >= _number(self.content, "<H", vtable):
            return None
        offset = _number(self.content, "<H", vtable + 4 + 2 * slot)
        return self.position + offset if offset else None

    def _follow(self, slot: int) -> int | None:
        """Follow a field that is an offset to its target; None if the field is absent."""
        place = self._field(slot)
        return None if place is None else place + _number(self.content, "<I", place)

    def number(self, slot: int, form: str) -> int:
        place = self._field(slot)
        return 0 if place is None else _number(self.content, form, place)

    def numbers(self, slot: int, form: str) -> tuple[int, ...]:
        place = self._follow(slot)
        if place is None:
            return ()
        return struct.unpack_from(f"<{_number(self.content, '<I', place)}{form}", self.content, place + 4)

    def text(self, slot: int) -> str:
        place = self._follow(slot)
        if place is None:
            return ""
        length = _number(self.content, "<I", place)
        return self.content[place + 4 : place + 4 + length].decode()

    def table(self, slot: int) -> list[_Table]:
        """The table of a field, or nothing."""
        place = self._follow(slot)
        return [] if place is None else [_Table(self.content, place)]

    def tables(self, slot: int) -> list[_Table]:
        place = self._follow(slot)
        if place is None:
            return []
        places = range(place + 4, place + 4 + 4 * _number(self.content, "<I", place), 4)
        return [_Table(self.content, each + _number(self.content, "<I", each)) for each in places]
