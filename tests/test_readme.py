"""Documents: Python snippets run, and command lines use existing commands, options and recipes."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
import typer

import stmg
from clips import clip
from documents import ROOT, read_blocks, read_commands, relative
from stmg.cli import app
from stmg.networks import build
from stmg.training.recipe import read_recipe

README = ROOT / "README.md"
DOCUMENTS = [README, *sorted((ROOT / "docs").rglob("*.md"))]
SIZE = (64, 96)


# Stand-ins for what a reader has: found by how a snippet calls them.


def write_network(path: Path) -> None:
    network = stmg.accelerate(build("small", 5), torch.zeros(1, 3, *SIZE))
    stmg.save(network, path, stmg.Card("small", 5, SIZE))


def write_export(path: Path) -> None:
    write_network(path.parent / "checkpoint")
    stmg.export(str(path.parent / "checkpoint"), path, to="openvino")


def write_graph(path: Path) -> None:
    pytest.importorskip("onnx")
    network = torch.nn.Conv2d(3, 5, 3, stride=4, padding=1)
    torch.onnx.export(network, (torch.zeros(1, 3, *SIZE),), path, dynamo=False)


def write_camvid(path: Path) -> None:
    for split in ("train", "val"):
        for folder in (split, f"{split}annot"):
            (path / folder).mkdir(parents=True)
            for index in (30, 60):
                image = np.full((*SIZE, 3) if folder == split else SIZE, 3, np.uint8)
                cv2.imwrite(str(path / folder / f"0001TP_{index:06d}.png"), image)


def write_recipe(path: Path) -> None:
    path.write_text(
        "{network: small, steps: 2, batch: 2, evaluate_every: 2, augment: {crop: [48, 64]}, "
        "data: {path: 'street:0-0', size: [48, 64], storage_scale: 1.0, val: ''}}"
    )


STAND_INS = {
    r".+\.(mp4|mkv|avi)": lambda path: clip(path, 6, SIZE),
    r".+\.onnx": write_graph,
    r"recipes/.+\.yaml": write_recipe,
    r"(?i)camvid": write_camvid,
    r"out/.+": write_export,
    r"(runs|checkpoints)/.+": write_network,
}


class OwnNetwork(torch.nn.Module):
    """A network of a reader's own, with residual blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = build("small", 5)

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"out": self.inner(image)}


def reader_names() -> dict[str, object]:
    """Names a snippet may use without defining them."""
    frame = np.zeros((*SIZE, 3), np.uint8)
    return {
        "my_model": OwnNetwork(),
        "frame": frame,
        "frames": [frame] * 3,
        "mean": (0.5, 0.5, 0.5),
        "std": (0.5, 0.5, 0.5),
        "function": lambda image: image.transpose(2, 0, 1).astype(np.float32),
    }


def make_stand_ins(snippet: str, seen: set[str]) -> None:
    """Write, in the current folder, the files that a snippet reads; what it writes itself is its own."""
    for text in [node.value for node in ast.walk(ast.parse(snippet)) if isinstance(node, ast.Constant)]:
        if not isinstance(text, str) or text in seen:
            continue
        seen.add(text)
        maker = next((make for pattern, make in STAND_INS.items() if re.fullmatch(pattern, text)), None)
        if maker is not None and not Path(text).exists():
            Path(text).parent.mkdir(parents=True, exist_ok=True)
            maker(Path(text))


@pytest.mark.slow
def test_python_snippets_run(tmp_path, monkeypatch):
    """The snippets of the README in turn, as one reader types them; `docs/test_snippets.py` runs those of the site."""
    monkeypatch.chdir(tmp_path)
    names, seen = reader_names(), set()
    for block in read_blocks(README):
        if block.language == "python":
            make_stand_ins(block.text, seen)
            padding = "\n" * (block.line - 1)  # so that an error names the line of the document
            exec(compile(padding + block.text, str(README), "exec"), names)


def check_command(words: list[str]) -> None:
    """Parse a command line as `stmg` would, and run nothing."""
    command, context = typer.main.get_command(app), None
    name, rest = words[0], words[1:]
    while True:
        context = command.make_context(name, list(rest), parent=context)
        if not hasattr(command, "resolve_command"):
            return
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)
        assert command is not None


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_command_lines_name_what_exists(path):
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for line in read_commands(path):
        words = shlex.split(line)
        if words[:1] == ["stmg"]:
            try:
                check_command(words)
            except Exception as error:  # of one of the two parsers that Typer may use
                pytest.fail(f"{relative(path)}: {line}: {error}")
            files = {block.file for block in read_blocks(path)}
            if words[1] == "train" and words[2] not in files:  # those that a page writes itself are run
                overrides = [word for word in words[3:] if "=" in word and not word.startswith("-")]
                read_recipe(ROOT / words[2], overrides)
        if words[:1] == ["make"]:
            assert set(words[1:]) <= set(targets), line


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_commands_in_the_text_name_what_exists(path):
    group = typer.main.get_command(app)
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    for span in re.findall(r"`(stmg [^`]+)`", text):
        words = [word for word in span.split()[1:] if word != "…"]
        verb = words[0]
        assert verb in (*group.commands, "--help", "--version"), span
        if verb in group.commands:
            parameters = getattr(group.commands[verb], "params", [])
            known = {option for parameter in parameters for option in parameter.opts} | {"--help"}
            assert {word.split("=")[0] for word in words if word.startswith("--")} <= known, span


def test_the_documents_hold_something_to_check():
    blocks = [block for path in DOCUMENTS for block in read_blocks(path)]
    assert any(block.language == "python" for block in blocks)
    assert any(line.startswith("stmg segment") for path in DOCUMENTS for line in read_commands(path))


def test_a_command_that_does_not_exist_is_noticed():
    check_command(["stmg", "segment", "drive.mp4", "--model", "x"])
    for line in (
        "stmg segmnt drive.mp4",
        "stmg segment drive.mp4 --modle x",
        "stmg segment drive.mp4",
        "stmg data chek x",
    ):
        with pytest.raises(Exception, match=r"No such|Missing"):
            check_command(line.split())
