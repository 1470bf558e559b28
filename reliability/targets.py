"""Targets: which files of a sample are mutated, how, and the command that then reads them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from reliability.mutations import (
    OUTSIDE,
    SECRET,
    Mutation,
    mutate_bytes,
    mutate_json,
    mutate_onnx,
    mutate_png,
    mutate_safetensors,
    mutate_yaml,
)

Mutator = Callable[[bytes, Random], Mutation]
MODES = ("offline", "online", "realtime")
CPU = ("--device", "cpu", "--threads", "1")
BY_SUFFIX: dict[str, tuple[Mutator, ...]] = {
    ".json": (mutate_json,),
    ".yaml": (mutate_yaml,),
    ".png": (mutate_bytes, mutate_png),
    ".safetensors": (mutate_bytes, mutate_safetensors),
    ".onnx": (mutate_bytes, mutate_onnx),
}


@dataclass(frozen=True)
class Target:
    """A kind of input: what is mutated, and the command that reads it."""

    sample: str
    """The folder of its sample."""
    files: tuple[str, ...]
    """Patterns of the files to mutate; a pattern is chosen first, then a file that matches it."""
    command: Callable[[Path, Path, Random], list[str]]
    """Arguments of `stmg`, from the file, the folder of all samples and the random generator."""
    confined: tuple[str, ...] = ()
    """Keys of its JSON that name files, which must lie in the same folder."""
    codes: tuple[int, ...] = (2,)
    """Exit codes that refuse an input."""


@dataclass(frozen=True)
class Case:
    """A mutated input in a folder of its own, and the command to run there."""

    name: str
    arguments: list[str]
    text: str
    """Which file was changed, and how."""
    escapes: bool
    codes: tuple[int, ...]


def _segment(video: str, model: str, random: Random, *options: str) -> list[str]:
    streams = () if "--settings" in options else ("--mode", random.choice(MODES))
    outputs = ("--save", "records", "--save", random.choice(("overlay", "labels")))
    return ["segment", video, "--model", model, "--out", "out", *outputs, *streams, *CPU, *options]


def _use_checkpoint(file: Path, samples: Path, random: Random) -> list[str]:
    if random.random() < 0.3:
        return ["inspect", str(file.parent), *CPU]
    return _segment(str(samples / "video/video.mp4"), str(file.parent), random)


def _use_export(file: Path, samples: Path, random: Random) -> list[str]:
    export, video = file.parent.name, str(samples / "video/video.mp4")
    if export == "onnx" and random.random() < 0.4:
        partial = ("--scheduler", "paper", "--mode", "online")  # it computes parts of frames
        return ["segment", video, "--model", export, "--out", "out", "--save", "records", *partial, *CPU]
    return _segment(video, export, random)


def _use_dataset(file: Path, samples: Path, random: Random) -> list[str]:
    return ["data", "check", "dataset", "--sheet", "out/sheet.png"]


def _use_recipe(file: Path, samples: Path, random: Random) -> list[str]:
    # Short whatever the recipe says, so that only a hang takes long.
    return ["train", str(file), "steps=1", "batch=2", "--out", "out/run", "--device", "cpu", "--threads", "1"]


TARGETS: dict[str, Target] = {
    "video": Target(
        "video",
        ("video.*",),
        lambda file, samples, random: _segment(str(file), str(samples / "checkpoint"), random),
    ),
    "images": Target(
        "images",
        ("*.png", "*.jpg", "*.bmp", "*.tiff"),
        lambda file, samples, random: _segment("images", str(samples / "checkpoint"), random),
    ),
    "labels": Target("dataset", ("*labels/*.png",), _use_dataset, codes=(1, 2)),
    "card": Target("checkpoint", ("stmg.json",), _use_checkpoint),
    "weights": Target("checkpoint", ("model.safetensors",), _use_checkpoint),
    "manifest": Target("onnx", ("export.json",), _use_export, confined=("file",)),
    "graph": Target("onnx", ("*.onnx",), _use_export),
    "openvino": Target("openvino", ("export.json", "*.xml", "*.bin"), _use_export, confined=("file",)),
    "corrector": Target(
        "corrector",
        ("corrector.json", "corrector.safetensors"),
        lambda file, samples, random: _segment(str(samples / "video/video.mp4"), "corrector", random),
        confined=("file",),
    ),
    "recipe": Target("recipe", ("recipe.yaml",), _use_recipe),
    "dataset": Target("dataset", ("dataset.yaml", "dataset.yaml", "images/*", "drive.mp4"), _use_dataset, codes=(1, 2)),
    "settings": Target(
        "settings",
        ("settings.yaml",),
        lambda file, samples, random: _segment(
            str(samples / "video/video.mp4"), str(samples / "checkpoint"), random, "--settings", str(file)
        ),
    ),
    "result": Target(
        "results",
        ("*/*.json",),
        lambda file, samples, random: ["report", str(file.parent), "--out", "out/report.html"],
        confined=("file",),
    ),
}


def make_case(number: int, seed: int, samples: Path, folder: Path, only: str | None = None) -> Case:
    """Case `number` of a seed, written to a folder; the same each time. Kinds take turns.

    Cases with negative numbers, the first of each kind, are not mutated and have to work.
    """
    name = only or list(TARGETS)[number % len(TARGETS)]
    target, random = TARGETS[name], Random(f"{seed} {name} {number}")
    shutil.copytree(samples / target.sample, folder / target.sample)
    if name == "recipe":
        shutil.copytree(samples / "dataset", folder / "dataset")
    pattern = random.choice(target.files)
    file = random.choice(sorted((folder / target.sample).glob(pattern)))
    whole = Mutation(file.read_bytes(), "whole")
    mutation = whole if number < 0 else _mutate(file, target, folder, random)
    file.write_bytes(mutation.data)
    if mutation.escapes:
        (folder / OUTSIDE).mkdir(exist_ok=True)
        (folder / OUTSIDE / SECRET).write_bytes(bytes(8 << 20))  # as large as any weights
    inside = file.relative_to(folder)
    arguments = target.command(inside, samples, random)
    codes = () if number < 0 else target.codes
    return Case(name, arguments, f"{inside}: {mutation.text}", mutation.escapes, codes)


def _mutate(file: Path, target: Target, folder: Path, random: Random) -> Mutation:
    data = file.read_bytes()
    if target.confined and file.suffix == ".json" and random.random() < 0.15:
        escape = _name_outside(data, file, target.confined, folder, random)
        if escape is not None:
            return escape
    return random.choice(BY_SUFFIX.get(file.suffix, (mutate_bytes,)))(data, random)


def _name_outside(data: bytes, file: Path, keys: tuple[str, ...], folder: Path, random: Random) -> Mutation | None:
    """Let the JSON name an intact file outside its folder; None if it names no file."""
    content = json.loads(data)
    entries = [entry for entry in _list_dicts(content) if any(isinstance(entry.get(key), str) for key in keys)]
    if not entries:
        return None
    entry = random.choice(entries)
    key = next(key for key in keys if key in entry)
    (folder / OUTSIDE).mkdir()
    name = Path(str(entry[key])).name
    for part in file.parent.glob(f"{Path(name).stem}.*"):
        shutil.copy(part, folder / OUTSIDE)
    climb = "../" * (len(file.relative_to(folder).parts) - 1)
    entry[key] = random.choice((str(folder / OUTSIDE / name), f"{climb}{OUTSIDE}/{name}", f"./{climb}{OUTSIDE}/{name}"))
    return Mutation(json.dumps(content).encode(), f"{key}: {entry[key]}", escapes=True)


def _list_dicts(content: object) -> list[dict[str, object]]:
    if isinstance(content, list):
        return [found for item in content for found in _list_dicts(item)]
    if isinstance(content, dict):
        return [content, *(found for item in content.values() for found in _list_dicts(item))]
    return []
