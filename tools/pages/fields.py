"""Fields of dataclasses and named tuples as the documentation shows them: name, type, default and docstring."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Any, ClassVar, NamedTuple, get_args, get_origin, get_type_hints

import yaml


class Field(NamedTuple):
    """A field of a dataclass or named tuple."""

    name: str
    hint: Any
    annotation: str
    """The type as the source has it."""
    default: Any
    """`MISSING` if it is required."""
    doc: str


def is_record(hint: Any) -> bool:
    """True if a type is a dataclass or a named tuple."""
    return isinstance(hint, type) and (is_dataclass(hint) or (issubclass(hint, tuple) and hasattr(hint, "_fields")))


def read_fields(kind: type) -> list[Field]:
    """The fields of a dataclass or named tuple in order, those of its bases first, with their docstrings."""
    hints = {name: hint for name, hint in get_type_hints(kind).items() if get_origin(hint) is not ClassVar}
    sources: dict[str, tuple[str, str]] = {}
    for base in reversed(kind.__mro__):
        if is_record(base):
            sources |= _read_source(base)
    defaults = _read_defaults(kind)
    return [Field(name, hints[name], *_at(sources, name, defaults)) for name in defaults]


def _at(sources: dict[str, tuple[str, str]], name: str, defaults: dict[str, Any]) -> tuple[str, Any, str]:
    annotation, doc = sources[name]
    return annotation, defaults[name], doc


def _read_defaults(kind: Any) -> dict[str, Any]:
    if is_dataclass(kind):
        return {
            item.name: item.default_factory() if item.default_factory is not MISSING else item.default
            for item in fields(kind)
        }
    return {name: kind._field_defaults.get(name, MISSING) for name in kind._fields}


def _read_source(kind: type) -> dict[str, tuple[str, str]]:
    """Annotation and docstring of each field that the class itself declares."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0].body  # type: ignore[attr-defined]
    found = {}
    for statement, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            is_doc = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            doc = inspect.cleandoc(str(after.value.value)) if is_doc else ""  # type: ignore[union-attr]
            found[statement.target.id] = (ast.unparse(statement.annotation), " ".join(doc.split()))
    return found


def nested_record(hint: Any) -> type | None:
    """The dataclass or named tuple that a field holds, perhaps several or none of."""
    if is_record(hint):
        return hint  # type: ignore[no-any-return]
    return next((found for part in get_args(hint) if (found := nested_record(part)) is not None), None)


def describe_type(field: Field) -> str:
    """The type of a field in Markdown."""
    hint = field.hint
    if str(hint).startswith("typing.Literal"):
        return ", ".join(f"`{value}`" for value in get_args(hint))
    return f"`{field.annotation}`".replace("|", "\\|")


def describe_default(field: Field) -> str:
    """The default of a field as YAML would hold it."""
    value = field.default
    if value is MISSING:
        return "*required*"
    if is_record(type(value)):
        return ""
    text = yaml.safe_dump(_to_plain(value), default_flow_style=True, width=10_000, allow_unicode=True)
    return f"`{text.removesuffix('...').strip().removesuffix('...').strip()}`"


def _to_plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_to_plain(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {key: _to_plain(item) for key, item in value.items()}
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def field_table(kind: type, prefix: str = "") -> str:
    """A Markdown table of the fields of a dataclass or named tuple."""
    lines = ["| key | type | default | |", "|---|---|---|---|"]
    for field in read_fields(kind):
        doc = field.doc.replace("|", "\\|")
        lines.append(f"| `{prefix}{field.name}` | {describe_type(field)} | {describe_default(field)} | {doc} |")
    return "\n".join(lines)
