"""Files: written atomically, and read into dataclasses with errors that name the wrong key."""

from __future__ import annotations

import json
import math
import os
import reprlib
import secrets
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from stmg.errors import SettingsError, StmgError

Record = TypeVar("Record")


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to. It moves to `path` when the block ends; after an error `path` is unchanged.

    It is a hidden file with a unique name in the same folder, with the same suffix, so two processes may write one file
    at once. If nothing was written to it, `path` stays as it was.

        with atomic_path(folder / "weights.safetensors") as part:
            save_file(tensors, part)

    Of two in one `with` statement, the second is moved first.
    """
    part = path.with_name(f".{path.stem}.{secrets.token_hex(4)}{path.suffix}")
    try:
        yield part
        if part.exists():
            os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file completely or not at all."""
    with atomic_path(path) as part:
        part.write_bytes(data)


def path_inside(folder: Path, name: str, *, links: bool = True) -> Path:
    """The path of a name inside a folder. Raise `SettingsError` for a name that leads out of it.

    Every name in a file is read through this: files are passed on, and may be malicious.

    links: whether links in the folder may lead out of it. False where the contents are shown to others.
    """
    for pure in (PurePosixPath(name), PureWindowsPath(name)):  # refuse a name on all systems if it leads out on any
        if not name or "\0" in name or pure.drive or pure.root or ".." in pure.parts:
            raise SettingsError(
                f"{quote(name)} is no name inside the folder {folder}; put it, or a link to it, in there"
            )
    path = folder / name
    if not links and not path.resolve().is_relative_to(folder.resolve()):
        raise SettingsError(f"{quote(name)} is a link that leads out of {folder}")
    return path


def read_mapping(path: Path, error: type[StmgError], *, format: int | None = None) -> dict[str, Any]:
    """Read a mapping from a JSON or YAML file. Problems are raised as `error`, naming the file.

    format: the required value of its key `format`, which is removed.
    """
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if path.suffix.lower() == ".json" else yaml.safe_load(text or "{}")
    except OSError as trouble:
        raise error(f"{path} cannot be read: {trouble.strerror or trouble}") from None
    except UnicodeDecodeError as trouble:
        raise error(f"{path} is damaged: it is no text in UTF-8, from byte {trouble.start} on") from None
    except RecursionError:
        raise error(f"{path} is damaged: it is nested too deeply") from None
    except ValueError as trouble:
        raise error(f"{path} is damaged: {trouble}") from None
    except yaml.YAMLError as trouble:
        raise error(f"{path} is not YAML: {' '.join(str(trouble).split())}") from None
    if not isinstance(content, dict):
        raise error(f"{path} holds {quote(content)}, not values by name")
    if format is not None and (given := content.pop("format", None)) != format:
        raise error(f"{path} has another format than {format} ({quote(given)}): it needs another version of stmg")
    return content


def build_from_file(kind: type[Record], content: Mapping[str, object], path: Path, error: type[StmgError]) -> Record:
    """`build_dataclass` of the contents of a file. Problems are raised as `error`, naming the file and the key."""
    try:
        return build_dataclass(kind, content)
    except SettingsError as trouble:
        raise error(f"{path} is damaged: {trouble}") from None


def build_dataclass(kind: type[Record], content: Mapping[str, object], group: str = "") -> Record:
    """Build a dataclass or named tuple, possibly nested, from the plain values of YAML or JSON.

    group: the dotted name of the result, for error messages.
    A wrong name or value is a `SettingsError` that names it and lists what is allowed.
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
    """The fields of a dataclass or named tuple; for each, True if it is required."""
    if is_dataclass(kind):
        return {item.name: item.default is MISSING and item.default_factory is MISSING for item in fields(kind)}
    return {name: name not in kind._field_defaults for name in kind._fields}


def _convert(hint: Any, value: object, name: str) -> object:
    """Convert a value to the type of its field, or raise."""
    if hint is object:
        return value
    is_named_tuple = isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields")
    if is_named_tuple and isinstance(value, list | tuple):
        if len(value) != len(hint._fields):
            raise SettingsError(f"{name} is a list of {', '.join(hint._fields)}; got {quote(value)}")
        value = dict(zip(hint._fields, value, strict=True))
    if is_dataclass(hint) or is_named_tuple:
        if not isinstance(value, Mapping):
            raise SettingsError(f"{name} is a group of settings; got {quote(value)}")
        return build_dataclass(hint, value, name)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        if value in inner:
            return value
        raise SettingsError(f"{name} is one of {', '.join(map(str, inner))}; got {quote(value)}")
    if origin in (Union, types.UnionType):
        return value if value is None or type(value) in inner else _convert(inner[0], value, name)
    if origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            raise SettingsError(f"{name} has names and values; got {quote(value)}")
        return {key: _convert(inner[1], item, f"{name}.{key}") for key, item in value.items()}
    if origin is tuple:
        any_length = inner[-1] is Ellipsis
        if not isinstance(value, list | tuple) or not (any_length or len(value) == len(inner)):
            raise SettingsError(f"{name} is a list of {'any length' if any_length else len(inner)}; got {quote(value)}")
        item_types = inner[:1] * len(value) if any_length else inner
        return tuple(_convert(item_type, item, name) for item_type, item in zip(item_types, value, strict=True))
    if isinstance(hint, type) and issubclass(hint, Enum):
        if value in [item.value for item in hint]:
            return hint(value)
        raise SettingsError(f"{name} is one of {', '.join(str(item.value) for item in hint)}; got {quote(value)}")
    if hint is float and isinstance(value, int | str) and not isinstance(value, bool):
        try:
            value = float(value)  # YAML reads 1e-3 as text
        except (ValueError, OverflowError):
            raise SettingsError(f"{name} is a number; got {quote(value)}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise SettingsError(f"{name} is a finite number; got {value}")
    if hint is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise SettingsError(f"{name} is {_describe_type(hint)}; got {quote(value)}")
    return value


def quote(value: object) -> str:
    """Format a value for an error message: one short line for any size and depth."""
    return _SHORT.repr(value)


_SHORT = reprlib.Repr()
_SHORT.maxlevel = 2
_SHORT.maxstring = _SHORT.maxother = 80


def _describe_type(hint: Any) -> str:
    return {bool: "true or false", int: "a whole number", float: "a number", str: "text"}.get(hint, str(hint))
