"""Mutations: what a damaged disk, a careless editor or an attacker makes of a file."""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import yaml


class Mutation(NamedTuple):
    """A changed file."""

    data: bytes
    text: str
    """Description of the change."""
    escapes: bool = False
    """True if it names a file outside its folder."""


DEPTH = 100_000  # nested brackets
OUTSIDE, SECRET = "outside", "secret.bin"  # a folder beside the mutated one, and a file in it that must not be read
ODD_VALUES: tuple[object, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    10**40,
    -(10**18),
    60_000,
    0.5,
    -0.0,
    1e30,
    -1e30,
    5e-324,
    math.nan,
    math.inf,
    -math.inf,
    "",
    " ",
    "\x00",
    "\n",
    "nan",
    "1e999",
    "%s{0}$HOME",
    "[bold]",
    "x" * 5000,
    "\U0001f600" * 300,
    "/dev/null",
    "/nonexistent/file",
    ".",
    "..",
    [],
    {},
    [[]],
    [None],
    [1, 2, 3],
    [-1, -1],
    [60_000, 60_000],
    {"name": None},
    {"": ""},
    {"a": {"b": {"c": []}}},
)


def mutate_bytes(data: bytes, random: Random) -> Mutation:
    """Make one to three changes that ignore the format."""
    texts = []
    for _ in range(random.choice((1, 1, 2, 3))):
        data, text = random.choice(_BYTE_CHANGES)(data, random)
        texts.append(text)
    return Mutation(data, ", ".join(texts))


def mutate_json(data: bytes, random: Random) -> Mutation:
    """Change the content of a JSON file, or its encoding."""
    return _mutate_document(data, json.loads(data), json.dumps, random)


def mutate_yaml(data: bytes, random: Random) -> Mutation:
    """Change the content of a YAML file, or its encoding."""
    dump: Callable[[Any], str] = lambda content: yaml.safe_dump(content, sort_keys=False)  # noqa: E731
    return _mutate_document(data, yaml.safe_load(data), dump, random)


def mutate_png(data: bytes, random: Random) -> Mutation:
    """Change size, depth or color type in the header, with a correct checksum."""
    height_or_width = random.choice((16, 20))
    values = {height_or_width: random.choice((0, 1, 65, 30_000, 2**31 - 1, 2**32 - 1))}
    if random.random() < 0.5:
        values = {16: 30_000, 20: 30_000}
    header = bytearray(data)
    for place, value in values.items():
        struct.pack_into(">I", header, place, value)
    if random.random() < 0.3:
        header[random.choice((24, 25, 26, 27, 28))] = random.randrange(256)
    struct.pack_into(">I", header, 29, zlib.crc32(bytes(header[12:29])))
    return Mutation(bytes(header), f"PNG header {header[16:29].hex()}")


def mutate_safetensors(data: bytes, random: Random) -> Mutation:
    """Change the JSON of the header, or the length it claims."""
    (length,) = struct.unpack_from("<Q", data)
    if random.random() < 0.2:
        other = random.choice((0, 1, length - 1, length + 1, 2**31, 2**63, 2**64 - 1))
        return Mutation(struct.pack("<Q", other) + data[8:], f"a header of {other} bytes")
    header = mutate_json(data[8 : 8 + length], random)
    return header._replace(data=struct.pack("<Q", len(header.data)) + header.data + data[8 + length :])


def mutate_onnx(data: bytes, random: Random) -> Mutation:
    """Change the graph: drop or exchange nodes and names, reshape weights, move data to another file."""
    import onnx

    model = onnx.ModelProto.FromString(data)
    graph = model.graph
    node, tensor = random.choice(graph.node), random.choice(graph.initializer)
    change = random.choice(("drop", "operation", "input", "output", "shape", "outside", "size", "opset"))
    if change == "drop":
        graph.node.remove(node)
    elif change == "operation":
        node.op_type = random.choice(("Relu", "Nothing", "Loop", "Resize", "Concat", ""))
    elif change == "input" and node.input:
        node.input[0] = random.choice(("", "nothing", graph.node[-1].output[0]))
    elif change == "output":
        graph.output[0].name = random.choice(("", "nothing", graph.input[0].name))
    elif change == "shape":
        tensor.dims[:] = random.choice(([], [0], [-1, 3], [2**40, 2**20], [1]))
    elif change == "outside":
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=f"../{OUTSIDE}/{SECRET}")
    elif change == "size":
        for value in (*graph.input, *graph.output):
            if value.type.tensor_type.shape.dim:
                value.type.tensor_type.shape.dim[-1].dim_value = random.choice((0, 1, 60_000, -5))
    else:
        model.opset_import[0].version = random.choice((0, 1, 9999, -1))
    return Mutation(model.SerializeToString(), f"graph with another {change}", escapes=change == "outside")


def list_paths(content: object, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path to every value in nested dictionaries and lists, as a tuple of keys."""
    places = [place]
    if isinstance(content, dict):
        for key, value in content.items():
            places += list_paths(value, (*place, key))
    elif isinstance(content, list):
        for index, value in enumerate(content[:8]):
            places += list_paths(value, (*place, index))
    return places


def change_content(content: Any, random: Random) -> tuple[Any, str]:
    """Change a random value: delete, replace, wrap, unwrap, rename or exchange it, or add an unknown key."""
    places = list_paths(content)
    place = random.choice(places[1:] or places)
    if not place:
        return random.choice(ODD_VALUES), "all of it is something else"
    *above, last = place
    parent = content
    for key in above:
        parent = parent[key]
    name = ".".join(map(str, place))
    change = random.choice(("value", "value", "value", "delete", "wrap", "unwrap", "rename", "add", "exchange"))
    if change == "delete":
        del parent[last]
    elif change == "wrap":
        parent[last] = random.choice(([parent[last]], {"value": parent[last]}, [parent[last]] * 1000))
    elif change == "unwrap":
        return (parent if above else parent[last]), f"{name}: only this is left"
    elif change == "rename" and isinstance(parent, dict):
        parent[f"{last}s"] = parent.pop(last)
    elif change == "add" and isinstance(parent, dict):
        parent["unheard_of"] = random.choice(ODD_VALUES)
    elif change == "exchange":
        other = content
        for key in random.choice(places):
            other = other[key]
        parent[last] = json.loads(json.dumps(other, default=str))  # a copy, since cycles cannot be written
    else:
        parent[last] = random.choice(ODD_VALUES)
        return content, f"{name}: {str(parent[last])[:40]!r}"
    return content, f"{name}: {change}"


def _mutate_document(data: bytes, content: Any, dump: Callable[[Any], str], random: Random) -> Mutation:
    roll = random.random()
    if roll < 0.15:
        return mutate_bytes(data, random)
    texts = []
    for _ in range(random.choice((1, 1, 1, 2))):
        content, text = change_content(content, random)
        texts.append(text)
    data = dump(content).encode("utf-8", "surrogatepass")
    if roll < 0.19:
        place, encoding = (
            random.randrange(len(data) + 1),
            random.choice((b"\xff\xfe", b"\xe9", b"\x00", b"\xed\xa0\x80")),
        )
        data, text = data[:place] + encoding + data[place:], f"no UTF-8 at {place}"
        texts.append(text)
    elif roll < 0.21:
        data, text = b"[" * DEPTH + b"]" * DEPTH, f"{DEPTH} brackets"
        texts.append(text)
    elif roll < 0.23:
        data = data.decode(errors="replace").encode(random.choice(("utf-16", "utf-8-sig")))
        texts.append("another encoding")
    return Mutation(data, ", ".join(texts))


def _flip(data: bytes, random: Random) -> tuple[bytes, str]:
    """Flip bits anywhere, or only in the header."""
    changed, number = bytearray(data), random.choice((1, 4, 32))
    reach = random.choice((len(data), 64, 512))
    for _ in range(number if data else 0):
        changed[random.randrange(min(reach, len(data)))] ^= 1 << random.randrange(8)
    return bytes(changed), f"{number} bits of the first {reach} flipped"


def _truncate(data: bytes, random: Random) -> tuple[bytes, str]:
    end = random.choice((0, 1, 8, len(data) // 2, max(0, len(data) - 1), random.randrange(len(data) + 1)))
    return data[:end], f"cut after {end} bytes"


def _insert(data: bytes, random: Random) -> tuple[bytes, str]:
    place, number = random.randrange(len(data) + 1), random.choice((1, 7, 300))
    return data[:place] + random.randbytes(number) + data[place:], f"{number} bytes inserted at {place}"


def _delete(data: bytes, random: Random) -> tuple[bytes, str]:
    place, number = random.randrange(len(data) + 1), random.choice((1, 16, 1000))
    return data[:place] + data[place + number :], f"{number} bytes deleted at {place}"


def _duplicate(data: bytes, random: Random) -> tuple[bytes, str]:
    place, number = random.randrange(len(data) + 1), random.choice((16, 1000, 100_000))
    chunk = data[place : place + number]
    return data[:place] + chunk * random.choice((2, 5)) + data[
        place + number :
    ], f"{len(chunk)} bytes repeated at {place}"


def _zero(data: bytes, random: Random) -> tuple[bytes, str]:
    """Blank a block, as a file system leaves one that was never written."""
    place = random.randrange(len(data) + 1)
    number = min(random.choice((16, 512, 4096)), len(data) - place)
    return data[:place] + random.choice((b"\x00", b"\xff")) * number + data[
        place + number :
    ], f"{number} blank at {place}"


_BYTE_CHANGES = (_flip, _truncate, _insert, _delete, _duplicate, _zero)
