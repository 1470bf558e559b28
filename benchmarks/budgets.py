"""Loss of mIoU by drift budget, on stills of the training split set in motion or on rendered streets.

python -m benchmarks.budgets MODEL CAMVID
python -m benchmarks.budgets small-streets street:40-47
python -m benchmarks.budgets ddrnet39-camvid CAMVID --mode online --budgets 0.4 0.5 0.6 --longest 30 --speed 3
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

import stmg
from benchmarks.measurement import finish, make_parser
from stmg.data.augment import resize_transform
from stmg.data.catalogue import open_dataset
from stmg.data.stills import SimulatedMotion, clip_from_still
from stmg.data.synthetic.scene import RenderedVideo, Scene, choose_camera
from stmg.evaluation.accuracy import ConfusionMatrix
from stmg.runtimes.callable import CallableRuntime
from stmg.segmenter import VideoSegmenter
from stmg.streaming.motion import DIS_LEVELS
from stmg.streaming.schedulers import DriftBudget, Level
from stmg.video.labels import Labels

SIZE, LENGTH = (360, 480), 61
CLASSES = 11
MOTION = SimulatedMotion(zoom=0.02, pan=0.01, roll=0.2, tilt=0.01, object_speed=0.01, max_gap=1)
SPEEDS = ("zoom", "pan", "roll", "tilt", "object_speed")

Clip = tuple[NDArray[np.uint8], NDArray[np.uint8]]


def clips(path: str, number: int, speed: float, length: int = LENGTH, rate: float = 15.0) -> Iterator[Clip]:
    """Labeled clips of `length` frames: rendered streets, or stills of the training split set in motion."""
    dataset = open_dataset(path)
    if path.startswith("street:"):
        for video in dataset.videos("train"):
            assert isinstance(video, RenderedVideo)
            scene = Scene(video.seed, SIZE, choose_camera(video.seed), rate)
            images, truths = zip(*(scene.frame(index) for index in range(length)), strict=True)
            yield np.stack(images), np.stack(truths)
        return
    movable = tuple(dataset.class_names.index(name) for name in ("Car", "Pedestrian", "Bicyclist"))
    stills = list(dataset.labeled("train"))
    motion = replace(MOTION, **{key: speed * getattr(MOTION, key) for key in SPEEDS})
    for seed, (video, index) in enumerate(stills[:: len(stills) // number]):
        image, labels = video.image(index), video.truth(index)
        assert labels is not None
        rng = np.random.default_rng(seed)
        yield clip_from_still(image, labels, length, motion, movable, resize_transform(labels.shape, SIZE), rng)


def main() -> None:
    parser = make_parser("budgets", __doc__)
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--mode", choices=("offline", "online"), default="offline")
    parser.add_argument("--budgets", type=float, nargs="+", default=(0.4, 0.5, 0.6, 0.7, 0.8))
    parser.add_argument("--longest", type=int, nargs="+", default=(12, 24, 48))
    parser.add_argument("--motions", nargs="+", choices=DIS_LEVELS, default=tuple(DIS_LEVELS))
    parser.add_argument("--stills", type=int, default=12)
    parser.add_argument(
        "--speed", type=float, default=1.0, help="how fast stills move; 3: as many are computed as on a drive"
    )
    parser.add_argument("--length", type=int, default=LENGTH, help="frames of each clip")
    parser.add_argument("--rate", type=float, default=15.0, help="FPS of streets; stills have none")
    arguments = parser.parse_args()
    segmenter = stmg.load(arguments.model)
    runtime = segmenter.runtime
    logits: dict[int, NDArray[np.float32]] = {}
    videos = list(clips(arguments.data, arguments.stills, arguments.speed, arguments.length, arguments.rate))
    bases = [ConfusionMatrix(CLASSES)]  # of all clips, then of each
    for frames, truths in videos:
        bases.append(ConfusionMatrix(CLASSES))
        for frame, truth in zip(frames, truths, strict=True):
            found = runtime.full(runtime.prepare(frame)).logits
            array = runtime.logits_array(found)
            assert array is not None
            logits[hash(frame.tobytes())] = array.transpose(2, 0, 1)
            _add(bases, runtime.labels(found, SIZE), truth)
    replay = CallableRuntime(lambda image: logits[hash(image.tobytes())])
    rows = {}
    for motion in arguments.motions:
        for longest in arguments.longest:
            for budget in arguments.budgets:
                options = {"motion": motion, "scheduler": DriftBudget(budget, longest=longest)}
                stream = VideoSegmenter(replay, settings=segmenter.settings, **options)
                each, computed, number = [ConfusionMatrix(CLASSES)], 0, 0
                for frames, truths in videos:
                    each.append(ConfusionMatrix(CLASSES))
                    for result, truth in zip(stream.stream(frames, mode=arguments.mode), truths, strict=True):
                        _add(each, result.labels, truth)
                        computed, number = computed + (result.level is Level.KEY), number + 1
                change, *changes = (
                    100 * (one.mean_iou() / base.mean_iou() - 1) for one, base in zip(each, bases, strict=True)
                )
                rows[f"{motion}, longest {longest}, budget {budget:g}"] = {
                    "change": change,
                    "loss": -change,
                    "worst": min(changes),
                    "frames": number / computed,
                }
    finish(
        "budgets",
        arguments.out,
        f"{arguments.model} {arguments.mode} on {arguments.data}: {len(videos)} clips of {arguments.length} frames",
        {
            "change": ("change of mIoU", "{:+.2f} %"),
            "worst": ("worst clip", "{:+.1f} %"),
            "frames": ("one frame computed in", "{:.1f}"),
        },
        rows,
        note=f"the network on every frame has {100 * bases[0].mean_iou():.2f}",
    )


def _add(counts: list[ConfusionMatrix], labels: Labels, truth: Labels) -> None:
    """Count a frame in the matrix of all clips and in that of the last one."""
    for each in (counts[0], counts[-1]):
        each.add(labels, truth)


if __name__ == "__main__":
    main()
