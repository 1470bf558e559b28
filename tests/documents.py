"""Documents for tests: their fenced blocks, and the command lines in those."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SHELL = ("", "sh", "bash", "shell", "console")
NOT_RUN = "Not tested here: "
"""How the title of a block begins that no test runs; the reason follows."""
FENCE = re.compile(r"^(?:<!-- tested with: ([^\n]*) -->\n)?```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block of a document."""

    language: str
    text: str
    line: int
    title: str = ""
    options: str = ""
    """What a test adds to each command of the block, so that it is short: `<!-- tested with: ... -->` before it."""

    @property
    def reason(self) -> str:
        """Why no test runs it; empty if one does."""
        return self.title.removeprefix(NOT_RUN) if self.title.startswith(NOT_RUN) else ""

    @property
    def file(self) -> str:
        """The file that its title says it is; empty if it is none."""
        return self.title if re.fullmatch(r"[\w./-]+\.\w+", self.title) else ""


def read_blocks(path: Path) -> list[Block]:
    """The fenced blocks of a document, in order."""
    text = path.read_text()
    blocks = []
    for match in FENCE.finditer(text):
        options, info, body = match.groups()
        language, _, rest = info.strip().partition(" ")
        title = re.search(r'title="([^"]*)"', rest)
        line = text[: match.start(3)].count("\n") + 1
        blocks.append(Block(language, body, line, title[1] if title else "", options or ""))
    return blocks


def split_commands(block: Block) -> list[str]:
    """The lines of a shell block, those that go on over several lines joined, without prompts and comments."""
    lines = re.sub(r"\\\n\s*", " ", block.text).splitlines()
    commands = [shlex.join(shlex.split(line.removeprefix("$ "), comments=True)) for line in lines]
    return [command for command in commands if command]


def read_commands(path: Path) -> list[str]:
    """The command lines of a document."""
    return [line for block in read_blocks(path) if block.language in SHELL for line in split_commands(block)]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))
