"""stmg demo: a network trained on the spot on rendered streets, then a street it never saw, with and without stmg."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

import av
import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table
from torch import Tensor

from stmg.acceleration.accelerate import AcceleratedNetwork, accelerate
from stmg.checkpoint import Card, load, save
from stmg.commands.progress import progress_bar
from stmg.data.scenes import CLASS_NAMES, PALETTE, Scene
from stmg.evaluation.accuracy import ConfusionMatrix
from stmg.frames import Image
from stmg.networks import build
from stmg.overlay import draw_labels, draw_mask
from stmg.runtimes.torch import IMAGENET_MEAN, IMAGENET_STD
from stmg.scheduler import Level
from stmg.sinks import OverlayVideo, Records, Sinks
from stmg.state import FrameResult, Labels
from stmg.timeline import Timeline
from stmg.training.base import train
from stmg.video import open_video

SIZE = (360, 480)
CROP = (176, 240)
NUM_CLASSES = len(CLASS_NAMES)
TRAINING_SEEDS = range(100, 130)
STREET_SEED = 7
FPS = 15


def demo(out: Path, num_steps: int, num_frames: int, console: Console) -> int:
    """Train, render, segment, compare; pictures and a table."""
    out.mkdir(parents=True, exist_ok=True)
    with progress_bar(console) as progress:
        examples = _rendered_examples(progress)
        network = _trained(examples, num_steps, progress)
        card = Card(
            network="small",
            num_classes=NUM_CLASSES,
            size=SIZE,
            class_names=CLASS_NAMES,
            palette=tuple((int(r), int(g), int(b)) for r, g, b in PALETTE),
            notes={"data": "rendered streets", "steps": num_steps},
        )
        save(out / "model", network, card)
        truths = _rendered_video(out / "street.mp4", num_frames, progress)
        runs = _segmented(out, truths, progress)
    console.print(_table(runs, truths))
    place = escape(str(out))
    console.print(f"look at [bold]{place}[/]: overlay.mp4, side-by-side.png, timeline.png, records.jsonl")
    console.print(f"on a video of yours: stmg segment VIDEO --model {place}/model --resize 360x480 --out out/mine")
    return 0


def _rendered_examples(progress: Progress) -> list[tuple[Image, Labels]]:
    task = progress.add_task("rendering streets to learn from", total=len(TRAINING_SEEDS), told="")
    examples = []
    for seed in TRAINING_SEEDS:
        scene = Scene(seed, SIZE, camera="fixed" if seed % 4 == 0 else "drive", fps=FPS)
        examples += [scene.frame(number) for number in range(0, 240, 60)]
        progress.advance(task)
    return examples


def _trained(examples: list[tuple[Image, Labels]], num_steps: int, progress: Progress) -> AcceleratedNetwork:
    task = progress.add_task("training a small network", total=num_steps, told="")
    torch.manual_seed(0)
    network = build("small", NUM_CLASSES)
    counts = np.bincount(np.concatenate([labels.ravel() for _, labels in examples]), minlength=NUM_CLASSES)
    # Rare classes are what a minute of training would otherwise leave out.
    weights = torch.from_numpy((counts.sum() / np.maximum(counts, 1)) ** 0.5).float()
    train(
        network,
        _batches(examples),
        num_steps,
        class_weights=weights / weights.mean(),
        report=lambda step, loss: progress.update(task, completed=step, told=f"loss {loss:.2f}"),
    )
    return accelerate(network, torch.zeros(1, 3, *SIZE))


def _batches(examples: list[tuple[Image, Labels]], size: int = 4) -> Iterator[tuple[Tensor, Tensor]]:
    """Random crops, flipped and lit at random, for ever."""
    draw = np.random.default_rng(0)
    mean, deviation = (np.array(values, np.float32) * 255 for values in (IMAGENET_MEAN, IMAGENET_STD))
    while True:
        images, labels = [], []
        for index in draw.integers(0, len(examples), size):
            image, truth = examples[index]
            top, left = (draw.integers(0, full - part + 1) for full, part in zip(SIZE, CROP, strict=True))
            window = np.s_[top : top + CROP[0], left : left + CROP[1]]
            step = draw.choice((1, -1))
            images.append(((image[window][:, ::step] * np.float32(draw.uniform(0.8, 1.2))) - mean) / deviation)
            labels.append(truth[window][:, ::step])
        stacked = np.stack(images).transpose(0, 3, 1, 2)
        yield torch.from_numpy(np.ascontiguousarray(stacked)), torch.from_numpy(np.stack(labels))


def _rendered_video(path: Path, num_frames: int, progress: Progress) -> list[Labels]:
    """Write a street that was not trained on; its true labels."""
    task = progress.add_task("rendering a street never seen", total=num_frames, told="")
    scene = Scene(STREET_SEED, SIZE, fps=FPS)
    truths = []
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options={"crf": "16"})
        stream.height, stream.width, stream.pix_fmt = *SIZE, "yuv420p"
        for number in range(num_frames):
            image, truth = scene.frame(number)
            truths.append(truth)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
            progress.advance(task)
        container.mux(stream.encode(None))
    return truths


def _segmented(out: Path, truths: list[Labels], progress: Progress) -> dict[str, list[FrameResult]]:
    """The base network and stmg on the same frames in turn, so that both meet the same machine."""
    task = progress.add_task("segmenting it, with and without stmg", total=len(truths), told="")
    segmenters = {"every frame": load(out / "model", scheduler="always-key"), "stmg": load(out / "model")}
    runs: dict[str, list[FrameResult]] = {name: [] for name in segmenters}
    sinks = Sinks(
        OverlayVideo(out / "overlay.mp4", FPS),
        Records(out / "records.jsonl"),
        Timeline(out / "timeline.png", title="a rendered street"),
    )
    with open_video(out / "street.mp4") as video, sinks:
        for frame in video:
            for name, segmenter in segmenters.items():
                runs[name].append(segmenter.step(frame))
            sinks.write(runs["stmg"][-1])
            progress.advance(task)
    # The frame that was carried furthest is where there is something to see.
    reused = [number for number, result in enumerate(runs["stmg"]) if result.level is not Level.KEY] or [0]
    worst = max(reused, key=lambda number: runs["stmg"][number].drift)
    _side_by_side(out / "side-by-side.png", runs["stmg"][worst], truths[worst])
    return runs


def _side_by_side(path: Path, result: FrameResult, truth: NDArray[np.uint8]) -> None:
    changed = result.changed if result.changed is not None else np.ones((1, 1), np.float32)
    panels = {
        "frame": result.image,
        f"labels ({result.level})": result.overlay(0.7),
        "spatial mask: bright = changed": draw_mask(result.image, changed),
        "truth": draw_labels(result.image, truth, PALETTE, 0.7),
    }
    for title, panel in panels.items():
        panels[title] = np.ascontiguousarray(panel)
        cv2.rectangle(panels[title], (0, 0), (12 + 9 * len(title), 26), (0, 0, 0), -1)
        cv2.putText(panels[title], title, (6, 18), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (255, 255, 255), 1, cv2.LINE_AA)
    frame, labels, mask, true = panels.values()
    cv2.imwrite(str(path), np.vstack((np.hstack((frame, labels)), np.hstack((mask, true))))[:, :, ::-1])


def _table(runs: dict[str, list[FrameResult]], truths: list[Labels]) -> Table:
    table = Table("", "mIoU", "FPS", "gain", "key", "partial", "carry", "GMACs", title="a street never seen, 360x480")
    base_fps = None
    for name, results in runs.items():
        confusion = ConfusionMatrix(NUM_CLASSES)
        for result, truth in zip(results, truths, strict=True):
            confusion.add(result.labels, truth)
        # The first frame also warms the runtime up; it is left out of the speed of both.
        fps = 1000 / fmean(result.latency_ms for result in results[1:])
        base_fps = base_fps or fps
        levels = [sum(result.level is level for result in results) / len(results) for level in Level]
        table.add_row(
            name,
            f"{confusion.mean_iou():.1%}",
            f"{fps:.1f}",
            f"{fps / base_fps:.2f}x",
            *[f"{share:.0%}" for share in levels],
            f"{fmean(result.macs or 0 for result in results) / 1e9:.2f}",
        )
    return table
