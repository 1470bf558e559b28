"""Files: written whole or not at all, and read into dataclasses with errors that name what does not fit."""

from __future__ import annotations

import os
import secrets
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from stmg.errors import SettingsError

Settings = TypeVar("Settings")


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path to write to, moved to `path` when the block ends; after an error `path` is as it was.

    It lies in the same folder, hidden, with the same suffix and a name of its own, so two processes may write one
    file at once. If nothing was written to it, `path` stays as it was.

        with atomic_path(folder / "weights.safetensors") as part:
            save_file(tensors, part)

    Of two in one `with` statement the second is moved first.
    """
    part = path.with_name(f".{path.stem}.{secrets.token_hex(4)}{path.suffix}")
    try:
        yield part
        if part.exists():
            os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file such that it is there as a whole or not at all."""
    with atomic_path(path) as part:
        part.write_bytes(data)


def build_dataclass(kind: type[Settings], content: Mapping[str, object], group: str = "") -> Settings:
    """A dataclass or named tuple, perhaps of others, from plain values as YAML and JSON hold them.

    group: the dotted name of what is built, for the messages of its errors.
    A name or a value that does not fit is a `SettingsError` that says which and what is allowed.
    """
    hints = get_type_hints(kind)
    names = _field_names(kind)
    prefix = f"{group}." if group else ""
    for name in content:
        if name not in names:
            raise SettingsError(f"there is no setting {prefix}{name}; there are {', '.join(names)}")
    for name, is_required in names.items():
        if is_required and name not in content:
            raise SettingsError(f"{prefix}{name} is missing")
    return kind(**{name: _convert(hints[name], value, f"{prefix}{name}") for name, value in content.items()})


def _field_names(kind: Any) -> dict[str, bool]:
    """The names of a dataclass or named tuple, and whether each has to be given."""
    if is_dataclass(kind):
        return {item.name: item.default is MISSING and item.default_factory is MISSING for item in fields(kind)}
    return {name: name not in kind._field_defaults for name in kind._fields}


def _convert(hint: Any, value: object, name: str) -> object:
    """A value as the type of its field, or an error if it is none."""
    if hint is object:
        return value
    is_named_tuple = isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields")
    if is_named_tuple and isinstance(value, list | tuple):
        if len(value) != len(hint._fields):
            raise SettingsError(f"{name} is a list of {', '.join(hint._fields)}; got {value!r}")
        value = dict(zip(hint._fields, value, strict=True))
    if is_dataclass(hint) or is_named_tuple:
        if not isinstance(value, Mapping):
            raise SettingsError(f"{name} is a group of settings; got {value!r}")
        return build_dataclass(hint, value, name)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        if value in inner:
            return value
        raise SettingsError(f"{name} is one of {', '.join(map(str, inner))}; got {value!r}")
    if origin in (Union, types.UnionType):
        return value if value is None or type(value) in inner else _convert(inner[0], value, name)
    if origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            raise SettingsError(f"{name} has names and values; got {value!r}")
        return {key: _convert(inner[1], item, f"{name}.{key}") for key, item in value.items()}
    if origin is tuple:
        any_length = inner[-1] is Ellipsis
        if not isinstance(value, list | tuple) or not (any_length or len(value) == len(inner)):
            raise SettingsError(f"{name} is a list of {'any length' if any_length else len(inner)}; got {value!r}")
        item_types = inner[:1] * len(value) if any_length else inner
        return tuple(_convert(item_type, item, name) for item_type, item in zip(item_types, value, strict=True))
    if isinstance(hint, type) and issubclass(hint, Enum):
        if value in [item.value for item in hint]:
            return hint(value)
        raise SettingsError(f"{name} is one of {', '.join(str(item.value) for item in hint)}; got {value!r}")
    if hint is float and isinstance(value, int | str) and not isinstance(value, bool):
        try:
            return float(value)  # YAML reads 1e-3 as text
        except ValueError:
            pass
    if hint is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise SettingsError(f"{name} is {_describe_type(hint)}; got {value!r}")
    return value


def _describe_type(hint: Any) -> str:
    return {bool: "true or false", int: "a whole number", float: "a number", str: "text"}.get(hint, str(hint))
