"""Settings: dataclasses built from plain values, as YAML gives them, with errors that name what does not fit."""

from __future__ import annotations

import types
from dataclasses import fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

Built = TypeVar("Built")


def built(kind: type[Built], content: dict[str, Any], group: str = "") -> Built:
    """A dataclass from plain values, with a message that names what does not fit and what is allowed."""
    hints = get_type_hints(kind)
    names = [item.name for item in fields(kind)]  # type: ignore[arg-type]
    for name in content:
        if name not in names:
            where = f"{group}." if group else ""
            raise ValueError(f"there is no setting {where}{name}; there are {', '.join(names)}")
    values = {name: _fitted(hints[name], value, f"{group}.{name}".strip(".")) for name, value in content.items()}
    return kind(**values)


def _fitted(hint: Any, value: Any, name: str) -> Any:
    """A value as its field wants it."""
    if is_dataclass(hint):
        if not isinstance(value, dict):
            raise ValueError(f"{name} is a group of settings; got {value!r}")
        return built(hint, value, name)  # type: ignore[arg-type]
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        if value in inner:
            return value
        raise ValueError(f"{name} is one of {', '.join(map(str, inner))}; got {value!r}")
    if origin in (Union, types.UnionType):
        return None if value is None else _fitted(inner[0], value, name)
    if origin is tuple:
        kinds = [inner[0]] * len(value) if isinstance(value, list | tuple) and inner[-1] is Ellipsis else list(inner)
        if not isinstance(value, list | tuple) or len(value) != len(kinds):
            raise ValueError(
                f"{name} is a list of {'any length' if inner[-1] is Ellipsis else len(inner)}; got {value!r}"
            )
        return tuple(_fitted(kind, item, name) for kind, item in zip(kinds, value, strict=True))
    if hint is float and isinstance(value, int | str) and not isinstance(value, bool):
        try:
            return float(value)  # YAML reads 1e-3 as text
        except ValueError:
            pass
    if hint is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise ValueError(f"{name} is {_article(hint)}; got {value!r}")
    return value


def _article(hint: Any) -> str:
    return {bool: "true or false", int: "a whole number", float: "a number", str: "text"}.get(hint, str(hint))
