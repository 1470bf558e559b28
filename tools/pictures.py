"""Make the pictures of the documentation: drawings, and a rendered street as the shipped network segments it.

python tools/pictures.py [--out docs/pictures]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import PIL.Image
from numpy.typing import NDArray

import stmg
from diagrams import CARRIED, COMPUTED, TEXT, WARM, draw_method, draw_modes
from stmg.cli.demo import COPY_STRIDE, FPS
from stmg.data.camvid import CLASS_NAMES, PALETTE
from stmg.data.synthetic.scene import render
from stmg.evaluation.accuracy import ConfusionMatrix
from stmg.streaming.result import FrameResult
from stmg.video.overlay import draw_labels, draw_mask

ROOT = Path(__file__).parents[1]
MODEL, STREET, FRAMES, SIZE = "ddrnet23-slim-streets", 900_107, 60, (360, 480)
PERIOD = 12  # from one computed frame to the next where frames are shown beside each other
PERIODS = (2, 3, 4, 6, 8, 12)
WIDTH = 420  # of a panel
MOVING = 120  # frames of the moving picture's video, which is the demo's drive
START, STEP = 48, 4  # its first frame, and from one to the next
COLORS, SMALLER = 40, 0.62  # its colors, its scale

Image = NDArray[np.uint8]
Truths = Sequence[Image]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    # Fixed ids, so that a picture that did not change is the same file.
    mpl.rcParams.update({"svg.hashsalt": "stmg", "font.family": "DejaVu Sans"})
    draw_modes(out / "modes.svg")
    draw_method(out / "method.svg")
    draw_distortion(out / "distortion.svg", ROOT / "benchmarks" / "results" / "parts" / "distortion-bias.json")
    frames, truths = map(list, zip(*render(STREET, FRAMES, SIZE), strict=True))
    segmenter = stmg.load(MODEL)
    whole = list(segmenter.another(scheduler="always-key").stream(frames))
    draw_front(out / "front.gif", segmenter)
    draw_anchors(out / "anchors.jpg", segmenter, frames, whole)
    draw_audit(out / "audit.jpg", segmenter, frames, whole)
    draw_masks(out / "masks.jpg", segmenter, frames)
    draw_drift(out / "drift.svg", segmenter, frames)
    draw_trade(out / "trade.svg", segmenter, frames, truths, whole)
    total = sum(path.stat().st_size for path in out.iterdir())
    print(f"{out}: {', '.join(sorted(path.name for path in out.iterdir()))}; {total / 1e6:.2f} MB")


def draw_distortion(path: Path, points: Path) -> None:
    """Plot the share of pruned blocks against the distortion, from the result of `benchmarks/distortion_bias.py`."""
    content = json.loads(points.read_text())
    series = {
        "trained with the distortion bias": ("ddrnet39-dbb, with the bias", COMPUTED),
        "trained without it": ("ddrnet39-plain, without the bias", WARM),
    }
    figure, axes = plt.subplots(figsize=(9, 3))
    for name, (row, color) in series.items():
        distortion, pruned = zip(*content["data"]["points"][row], strict=True)
        correlation = f"{content['rows'][row]['correlation']:+.2f}".replace("-", "\N{MINUS SIGN}")
        label = f"{name}, correlation {correlation}"
        axes.scatter(distortion, 100 * np.array(pruned), s=14, color=color, label=label)
    _label(axes, "distortion, mean of the mask", "blocks pruned, %")
    axes.legend(frameon=False, fontsize=9)
    _save(figure, path)


def run(
    segmenter: stmg.VideoSegmenter, frames: Sequence[Image], mode: str, period: int, motion: str
) -> list[FrameResult]:
    """Run a stream with one frame in `period` computed and the others carried."""
    scheduler = stmg.FixedPeriod(period, stmg.Level.CARRY)
    fixed = segmenter.another(scheduler=scheduler, motion=motion, fusion=0)
    return list(fixed.stream(frames, mode=mode))


def score(results: Sequence[FrameResult], truths: Truths) -> float:
    """mIoU in percent."""
    matrix = ConfusionMatrix(len(CLASS_NAMES))
    for result, truth in zip(results, truths, strict=True):
        matrix.add(result.labels, truth)
    return 100 * matrix.mean_iou()


def draw_front(path: Path, segmenter: stmg.VideoSegmenter) -> None:
    """Animate the same frames by the network on every frame, by copied labels and by stmg."""
    frames, truths = map(list, zip(*render(STREET, MOVING, SIZE, fps=FPS), strict=True))
    whole = list(segmenter.another(scheduler="always-key").stream(frames))
    copied = run(segmenter, frames, "online", COPY_STRIDE, "none")
    ours = list(segmenter.stream(frames, mode="offline"))
    computed = sum(result.level is stmg.Level.KEY for result in ours) / len(ours)
    titles = (
        f"network on every frame, mIoU {score(whole, truths):.1f}",
        f"last labels copied, {1 / COPY_STRIDE:.0%} computed: {score(copied, truths):.1f}",
        f"stmg offline, {computed:.0%} computed: {score(ours, truths):.1f}",
    )
    together = zip(whole, copied, ours, strict=True)
    pictures = [
        join_panels({title: each.plot(0.6) for title, each in zip(titles, results, strict=True)})
        for results in together
    ]
    small = [cv2.resize(picture, None, fx=SMALLER, fy=SMALLER, interpolation=cv2.INTER_AREA) for picture in pictures]
    first, *rest = [PIL.Image.fromarray(picture).quantize(COLORS) for picture in small[START::STEP]]
    first.save(path, save_all=True, append_images=rest, duration=1000 * STEP / FPS, loop=0, optimize=True)


def draw_anchors(
    path: Path, segmenter: stmg.VideoSegmenter, frames: Sequence[Image], whole: Sequence[FrameResult]
) -> None:
    """Two anchors, and a frame between them from one and from both."""
    online, offline = (run(segmenter, frames, mode, PERIOD, "dis-fine") for mode in ("online", "offline"))
    left, right = PERIOD * 2, PERIOD * 3
    at = left + PERIOD - 3
    write_panels(
        path,
        {
            f"anchor: frame {left} computed": whole[left].plot(0.6),
            f"frame {at} from the anchor before": online[at].plot(0.6),
            f"frame {at} from both anchors": offline[at].plot(0.6),
            f"anchor: frame {right} computed": whole[right].plot(0.6),
        },
        columns=2,
    )


def draw_audit(
    path: Path, segmenter: stmg.VideoSegmenter, frames: Sequence[Image], whole: Sequence[FrameResult]
) -> None:
    """An anchor: what would have been shown, what the network says, and where they differ."""
    at = PERIOD
    longer = run(segmenter, frames, "online", at + 1, "dis")  # at this frame it still carries
    differs = (longer[at].labels != whole[at].labels).astype(np.float32)
    write_panels(
        path,
        {
            "what would have been shown": longer[at].plot(0.6),
            "what the network says": whole[at].plot(0.6),
            f"they differ on {differs.mean():.1%} of the pixels": draw_mask(frames[at], differs),
        },
    )


def draw_masks(path: Path, segmenter: stmg.VideoSegmenter, frames: Sequence[Image]) -> None:
    """The spatial mask of the paper's mode between two neighbors, and the labels of the partial frame."""
    paper = list(segmenter.another(scheduler="paper", motion="none").stream(frames, mode="online"))
    at = next(index for index, each in enumerate(paper) if index > 20 and each.level is stmg.Level.PARTIAL)
    changed = paper[at].changed
    assert changed is not None
    kept = f"{paper[at].kept_blocks} of {len(paper[at].keep)} blocks run"
    write_panels(
        path,
        {
            "current frame": frames[at],
            f"spatial mask, mean {paper[at].distortion:.2f}": draw_mask(frames[at], changed),
            f"labels, {kept}": draw_labels(frames[at], paper[at].labels, PALETTE, 0.6),
        },
    )


def draw_drift(path: Path, segmenter: stmg.VideoSegmenter, frames: Sequence[Image]) -> None:
    """Drift along a street, and the key frames it calls for."""
    budget = 0.3
    results = list(segmenter.another(scheduler=stmg.DriftBudget(budget), motion="dis", fusion=0).stream(frames))
    keys = [index for index, each in enumerate(results) if each.level is stmg.Level.KEY]
    figure, axes = plt.subplots(figsize=(9, 2.8))
    axes.axhline(budget, color=WARM, linestyle="--", linewidth=1)
    axes.text(len(results) - 0.5, budget * 1.02, "budget", color=WARM, ha="right", va="bottom", fontsize=9)
    axes.plot([each.drift for each in results], color=COMPUTED, linewidth=1.5, label="drift")
    axes.scatter(keys, [0] * len(keys), color=COMPUTED, zorder=3, label="key frame: the network runs")
    _label(axes, "frame", "drift")
    axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(0, 1.22), ncols=2)
    _save(figure, path)


def draw_trade(
    path: Path, segmenter: stmg.VideoSegmenter, frames: Sequence[Image], truths: Truths, whole: Sequence[FrameResult]
) -> None:
    """Plot the loss of each method against the share of frames computed."""
    base = score(whole, truths)
    ways = {
        "labels copied": ("online", "none", "#90a4ae"),
        "online, dis": ("online", "dis", WARM),
        "offline, dis": ("offline", "dis", "#4db6ac"),
        "offline, dis-finest": ("offline", "dis-finest", COMPUTED),
    }
    figure, axes = plt.subplots(figsize=(9, 3.6))
    for name, (mode, motion, color) in ways.items():
        losses = [100 * (score(run(segmenter, frames, mode, n, motion), truths) / base - 1) for n in PERIODS]
        axes.plot(PERIODS, losses, marker="o", color=color, label=name)
    axes.axhline(0, color=CARRIED, linewidth=1)
    axes.set_xticks(PERIODS)
    _label(axes, "one frame in N computed", "mIoU, % of the network's")
    axes.legend(frameon=False, fontsize=9)
    _save(figure, path)


def _label(axes: Any, across: str, up: str) -> None:
    axes.set_xlabel(across, color=TEXT)
    axes.set_ylabel(up, color=TEXT)
    axes.spines[["top", "right"]].set_visible(False)


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


def write_panels(path: Path, panels: dict[str, Image], columns: int | None = None) -> None:
    """Save panels side by side as a picture."""
    cv2.imwrite(str(path), join_panels(panels, columns)[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 82])


def join_panels(panels: dict[str, Image], columns: int | None = None) -> Image:
    """Draw panels side by side, each with its title."""
    tiles = []
    for title, panel in panels.items():
        height = round(WIDTH * panel.shape[0] / panel.shape[1])
        small = cv2.resize(panel, (WIDTH, height), interpolation=cv2.INTER_AREA)
        bar = np.full((24, WIDTH, 3), 38, np.uint8)
        cv2.putText(bar, title, (6, 17), cv2.FONT_HERSHEY_SIMPLEX, 0.44, (255, 255, 255), 1, cv2.LINE_AA)
        tiles.append(cv2.copyMakeBorder(np.vstack((bar, small)), 0, 4, 2, 2, cv2.BORDER_CONSTANT, value=(255,) * 3))
    columns = columns or len(tiles)
    rows = [np.hstack(tiles[start : start + columns]) for start in range(0, len(tiles), columns)]
    return np.vstack(rows)


if __name__ == "__main__":
    main()
