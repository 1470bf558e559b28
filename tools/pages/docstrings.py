"""A griffe extension: docstrings of the project as Markdown, arguments as a list and examples as Python."""

from __future__ import annotations

import re
from typing import Any

import griffe

ARGUMENT = re.compile(r"(\*{0,2}\w+(?:, \w+)*): (.+)")


class PlainDocstrings(griffe.Extension):
    """Turns `name: what it is` into a list, and indented code into fenced Python."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        _convert(cls)

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        _convert(func)

    def on_attribute(self, *, attr: griffe.Attribute, **_: Any) -> None:
        _convert(attr)


def _convert(item: griffe.Object) -> None:
    if item.docstring is not None:
        item.docstring.value = to_markdown(item.docstring.value)


def to_markdown(docstring: str) -> str:
    """A docstring of this project as Markdown."""
    parts = re.split(r"\n\n(?=\S)", docstring)
    return "\n\n".join(_convert_paragraph(part) for part in parts)


def _convert_paragraph(text: str) -> str:
    head, _, code = text.partition("\n\n")  # what follows a blank line within a paragraph is indented: an example
    lines = head.splitlines()
    if ARGUMENT.match(lines[0]) and all(ARGUMENT.match(line) or line.startswith(" ") for line in lines):
        lines = [ARGUMENT.sub(r"- `\1`: \2", line) for line in lines]
        lines[0] = f"\n{lines[0]}"
    result = "\n".join(lines)
    if not code:
        return result
    body = "\n".join(line.removeprefix("    ") for line in code.splitlines())
    return f"{result}\n\n```python\n{body}\n```"
