"""JSON Schemas of the files that stmg writes and reads, from the dataclasses that hold them."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin

from pages.fields import is_record, read_fields

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


def make_schema(kind: type, title: str, extra: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The JSON Schema of a file that holds a dataclass.

    extra: keys that the file has besides, such as its format, with their schemas; they are required.
    """
    definitions: dict[str, Any] = {}
    content = _describe_record(kind, definitions)
    extra = dict(extra or {})
    content["properties"] = {**extra, **content["properties"]}
    content["required"] = [*extra, *content["required"]]
    return {"$schema": DRAFT, "title": title, **content, "$defs": definitions}


def _describe_record(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    properties, required = {}, []
    for field in read_fields(kind):
        if field.hint is bytes:  # a picture, which lies beside the file
            continue
        properties[field.name] = _describe(field.hint, definitions)
        if field.doc:
            properties[field.name] = {**properties[field.name], "description": field.doc}
        if field.default is MISSING:
            required.append(field.name)
    doc = (kind.__doc__ or "").split("\n\n")[0]
    return {
        "description": " ".join(doc.split()),
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _describe(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a value of a type; those of dataclasses go into the definitions."""
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_describe(part, definitions) for part in inner]}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [item.value for item in hint]}
    if is_record(hint):
        if hint.__name__ not in definitions:
            definitions[hint.__name__] = {}  # so that one that holds itself ends
            definitions[hint.__name__] = _describe_record(hint, definitions)
        reference = {"$ref": f"#/$defs/{hint.__name__}"}
        return {"anyOf": [reference, {"type": "array"}]} if issubclass(hint, tuple) else reference
    if origin is tuple:
        if inner[-1] is Ellipsis:
            return {"type": "array", "items": _describe(inner[0], definitions)}
        items = [_describe(part, definitions) for part in inner]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": _describe(inner[1], definitions)}
    return {}
