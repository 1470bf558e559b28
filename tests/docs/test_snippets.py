"""Every Python and shell block of the documentation runs, page by page, in a folder like a reader's."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from functools import partial
from pathlib import Path

import av
import cv2
import numpy as np
import pytest

from commands import run_stmg
from documents import ROOT, SHELL, Block, read_blocks, relative, split_commands
from graphs import save_one_channel, save_tflite
from stmg.data.synthetic.scene import render
from stmg.evaluation.speed import mean_ms
from stmg.training.corrector_run import AdaptSettings

PAGES = sorted((ROOT / "docs").rglob("*.md"))
RUNNABLE = ("python", *SHELL[1:])
SIZE = (96, 128)


def runnable(page: Path) -> list[Block]:
    return [block for block in read_blocks(page) if block.language in RUNNABLE and not block.file]


def write_drive(path: Path) -> None:
    """A rendered street as a video."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=15)
        stream.height, stream.width, stream.pix_fmt = *SIZE, "yuv420p"
        for image, _ in render(7, 15, SIZE):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))


def write_onnx(path: Path) -> None:
    torch = pytest.importorskip("torch")
    network = torch.nn.Conv2d(3, 5, 3, stride=4, padding=1)
    torch.onnx.export(network, (torch.zeros(1, 3, *SIZE),), path, dynamo=False)


def write_openvino(path: Path) -> None:
    openvino = pytest.importorskip("openvino")
    write_onnx(path.with_suffix(".part.onnx"))
    openvino.save_model(openvino.convert_model(path.with_suffix(".part.onnx")), path)


def write_images(path: Path) -> None:
    """Images, or labels, of a street, of three classes."""
    path.mkdir(parents=True)
    for index, (image, labels) in enumerate(render(7, 3, SIZE)):
        cv2.imwrite(str(path / f"{index:06d}.png"), image if path.name == "images" else np.minimum(labels, 2))


def write_drives(path: Path) -> None:
    """Two videos in a folder."""
    path.mkdir()
    for name in ("one.mp4", "two.mp4"):
        write_drive(path / name)


STAND_INS = {
    "batch drives": lambda path: write_drives(path.with_name("drives")),
    "net.onnx": write_onnx,
    "net.xml": write_openvino,
    "net.tflite": save_tflite,
    "person.onnx": lambda path: save_one_channel(path, sigmoid=True),
    "train/images": write_images,
    "train/labels": write_images,
    "val/images": write_images,
    "val/labels": write_images,
    "drive_labels": write_images,
}
"""What a reader has, beside `drive.mp4`, on pages that name it."""


@pytest.fixture(scope="session")
def drive(tmp_path_factory):
    path = tmp_path_factory.mktemp("drive") / "drive.mp4"
    write_drive(path)
    return path


@pytest.fixture
def folder(drive, render_once, tmp_path, monkeypatch):
    # A process for each row of a benchmark takes most of its time; test_memory.py measures a real one.
    monkeypatch.setattr("stmg.evaluation.benchmark.peak_memory", lambda make_segmenter, frames, mode: 10**8)
    monkeypatch.setattr("stmg.evaluation.benchmark.mean_ms", partial(mean_ms, seconds=0.01))
    monkeypatch.setattr("stmg.evaluation.tune.DIS_LEVELS", {"dis": None})  # of some forty settings ten
    monkeypatch.setitem(AdaptSettings.__init__.__kwdefaults__, "checks", 4)  # clips instead of forty
    shutil.copy(drive, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).is_relative_to(tmp_path):
            del sys.modules[name]


def run_page(page: Path) -> None:
    """The blocks of a page in turn, as one reader types them: files are written, Python and `stmg` run."""
    names: dict[str, object] = {"__name__": "page"}
    for block in read_blocks(page):
        if block.file:
            Path(block.file).write_text(block.text)
        elif block.reason or block.language not in RUNNABLE:
            continue
        elif block.language == "python":
            padding = "\n" * (block.line - 1)  # so that an error names the line of the page
            exec(compile(padding + block.text, str(page), "exec"), names)
        else:
            for command in split_commands(block):
                words = shlex.split(f"{command} {block.options}")
                assert words[0] == "stmg", f"{page}:{block.line}: only stmg is run here: {command}"
                done = run_stmg(*words[1:])
                assert done.returncode == 0, f"{page}:{block.line}: {command}\n{done.stdout}{done.stderr}"


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", [page for page in PAGES if runnable(page)], ids=relative)
def test_a_page_runs(page, folder):
    text = page.read_text()
    for name, write in STAND_INS.items():
        if name in text:
            write(folder / name)
    run_page(page)


def test_every_block_runs_or_says_why_not():
    blocks = [(page, block) for page in PAGES for block in runnable(page)]
    skipped = [block for _, block in blocks if block.title and not block.file]
    for block in skipped:
        assert len(block.reason.split()) >= 2, f"line {block.line}: a block that is not run has a reason"
    assert len(skipped) < 0.25 * len(blocks)


def test_a_wrong_block_is_noticed(folder):
    page = folder / "page.md"
    for text, message in (
        ("```python\nassert 1 == 2\n```", "AssertionError"),
        ("```sh\nstmg segment missing.mp4 --model small-streets\n```", "missing.mp4"),
        ("```sh\nrm drive.mp4\n```", "only stmg"),
    ):
        page.write_text(f"{text}\n")
        with pytest.raises(AssertionError) as caught:
            run_page(page)
        assert re.search(message, f"{caught.typename} {caught.value}")


def test_what_a_block_says_of_itself_is_read(folder):
    page = folder / "page.md"
    page.write_text(
        "<!-- tested with: --limit 2 -->\n```sh\nstmg a \\\n  b  # why\n```\n\n"
        '```python title="nets.py"\nx = 1\n```\n\n'
        '```sh title="Not tested here: needs a camera"\nstmg c\n```\n'
    )
    first, second, third = read_blocks(page)
    assert (first.options, split_commands(first), first.line) == ("--limit 2", ["stmg a b"], 3)
    assert (second.file, second.text, second.reason) == ("nets.py", "x = 1\n", "")
    assert (third.reason, third.file) == ("needs a camera", "")
