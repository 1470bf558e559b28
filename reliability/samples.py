"""Samples for fuzzing: one valid input of each kind, as stmg itself writes it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import yaml

from reliability.media import CODECS, write_images, write_labels, write_video

if TYPE_CHECKING:
    from stmg.gating.accelerate import AcceleratedNetwork

SIZE = (64, 96)
CLASSES = ("road", "car", "person", "tree", "sky")
RECIPE = {
    "stage": "base",
    "network": "small",
    "steps": 2,
    "batch": 2,
    "ema_decay": 0.5,
    "evaluate_every": 2,
    "save_every": 1,
    "compile": False,
    "seed": 0,
    "data": {
        "path": "dataset",
        "train": "train",
        "val": "val",
        "size": [64, 96],
        "storage_scale": 1.0,
        "length": 1,
        "unlabeled": [],
        "workers": 0,
    },
    "augment": {"crop": [48, 64], "scale": [0.8, 1.3], "brightness": 0.1, "noise": 0.01, "paste": 1},
    "loss": {"class_weights": "root", "teacher": "", "hard_share": 0.1},
    "optimizer": {"name": "adamw", "learning_rate": 0.004, "schedule": "one-cycle", "warm_up": 0.15},
}
SETTINGS = {
    "mode": "offline",
    "scheduler": {"name": "drift", "key_above": 0.4},
    "offline": {"name": "drift", "key_above": 0.6, "longest": 12},
    "motion": "dis-medium",
    "fusion": 0.25,
    "partial_scale": 0.75,
    "max_change": 0.02,
    "size": [64, 96],
    "threads": 1,
    "notes": {"model": "model", "figures": [1.5, 2]},
}


def write_inputs(folder: Path) -> None:
    """Write the samples that need no network: videos, images, a dataset, a recipe, settings."""
    (folder / "video").mkdir(parents=True)
    for suffix in CODECS:
        write_video(folder / "video" / f"video{suffix}", 10, SIZE)
    write_images(folder / "images", 4, SIZE, (".png", ".jpg", ".bmp", ".tiff"))
    dataset = folder / "dataset"
    write_images(dataset / "images", 4, SIZE)
    write_labels(dataset / "labels", 4, SIZE, len(CLASSES))
    write_labels(dataset / "drive_labels", 2, SIZE, len(CLASSES))
    write_video(dataset / "drive.mp4", 6, SIZE)
    drive = {"frames": "drive.mp4", "labels": "drive_labels"}
    stills = {"frames": "images", "labels": "labels", "rate": 15}
    classes = [*CLASSES[:-1], {"name": CLASSES[-1], "color": [70, 130, 180]}]
    content = {"name": "own", "classes": classes, "ignore": 255, "train": [stills, drive], "val": [stills]}
    (dataset / "dataset.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    for name, settings in (("recipe", RECIPE), ("settings", SETTINGS)):
        (folder / name).mkdir()
        (folder / name / f"{name}.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))


def write_checkpoint(folder: Path) -> AcceleratedNetwork:
    """Write a checkpoint with every optional part, of a small untrained network; returns the network."""
    import torch

    import stmg
    from stmg.gating.accelerate import accelerate
    from stmg.networks import build

    torch.manual_seed(0)
    torch.set_num_threads(1)
    example = torch.zeros(1, 3, *SIZE)
    network = accelerate(build("small", len(CLASSES)), example, mask_generator=True, two_weight_sets=True)
    stmg.save(network, folder, stmg.Card("small", len(CLASSES), SIZE, class_names=CLASSES, notes={"figures": [1.5]}))
    return network


def write_exports(folder: Path) -> None:
    """Write exports of the checkpoint, and a checkpoint with a corrector as `stmg adapt` writes it."""
    import numpy as np
    import torch

    from stmg.gating.accelerate import accelerate
    from stmg.models.card import read_card
    from stmg.models.correctors import describe_corrector, save_corrector
    from stmg.models.graphs import export_network
    from stmg.networks import build
    from stmg.networks.corrector import SHAPES, Corrector

    network = write_checkpoint(folder / "corrector")
    card = read_card(folder / "corrector")
    corrector = Corrector(len(CLASSES), SHAPES[0])
    save_corrector(corrector, describe_corrector(corrector, SIZE, "dis", between=True), folder / "corrector")
    frames = np.random.default_rng(0).integers(0, 256, (2, *SIZE, 3), np.uint8)
    export_network(network, card, SIZE, "onnx", folder / "onnx", partial=list(frames))
    plain = accelerate(build("small", len(CLASSES)), torch.zeros(1, 3, *SIZE))
    plain_card = replace(card, mask_generator=False, two_weight_sets=False)
    export_network(plain, plain_card, SIZE, "openvino", folder / "openvino")


def write_results(folder: Path) -> None:
    """Write results with `evaluate`, `benchmark` and `ablate`."""
    model, out = str(folder / "checkpoint"), folder / "results"
    streams, data = ("--device", "cpu", "--threads", "1"), str(folder / "dataset")
    run(["evaluate", model, data, "--out", out / "evaluation", *streams])
    short = ("--frames", 4, "--repeats", 1, "--rate", 100)
    with mock.patch("stmg.evaluation.benchmark.peak_memory", return_value=10**8):  # a process for each row takes long
        run(["benchmark", model, data, *short, "--out", out / "benchmark", *streams])
    run(["ablate", model, data, "--limit", 3, "--seeds", 1, "--out", out / "ablation", *streams])


def run(arguments: list[object]) -> None:
    """Run `stmg` in this process; raises SystemExit if it fails."""
    from stmg.cli import main

    sys.argv = ["stmg", *map(str, arguments)]
    try:
        main()
    except SystemExit as left:
        if left.code:
            raise
