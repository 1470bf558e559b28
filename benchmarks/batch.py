"""Gain from sharing a batch between workers, and the cost of each video beyond its frames.

    python -m benchmarks.batch --model small-streets

Renders streets as videos, then segments them in one process and on Ray, and once more cut into short videos.
"""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

import av

from benchmarks.measurement import Numbers, finish, make_parser
from stmg.data.synthetic.scene import Scene
from stmg.jobs.batch import BatchRun
from stmg.jobs.task import BatchSettings
from stmg.jobs.videos import find_videos
from stmg.jobs.worker import Pool
from stmg.models.spec import ModelSpec

SIZE, RATE = (360, 480), 15


class TimedRun(BatchRun):
    """A run that records when the first worker was ready."""

    ready = 0.0

    def _make_pool(self) -> Pool:
        pool: Any = super()._make_pool()
        start = pool.start

        def timed() -> tuple[str, ...]:
            notes: tuple[str, ...] = start()
            self.ready = time.perf_counter()
            return notes

        pool.start = timed
        return pool  # type: ignore[no-any-return]


def main() -> None:
    parser = make_parser("batch", __doc__)
    parser.add_argument("--model", default="small-streets")
    parser.add_argument("--videos", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--frames", type=int, default=150, help="of each video")
    parser.add_argument("--streets", type=int, default=2, help="how many of the videos differ")
    parser.add_argument("--folder", type=Path, default=None, help="where the videos are, or are put")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        render(folder, options)
        configurations = {
            "one process": (None, None, None),
            "Ray, 1 worker of 1 thread": ("auto", 1, 1),
            "Ray, 2 workers of 1 thread": ("auto", 2, 1),
        }
        rates: dict[str, list[float]] = {name: [] for name in configurations}
        starts: dict[str, float] = {}
        for _ in range(options.repeats):  # interleaved, so that they meet the same machine
            for name, configuration in configurations.items():
                start, seconds, frames, computed = measure(folder / "long", options.model, *configuration)
                rates[name].append(frames / seconds)
                starts[name] = start
                print(f"{name}: start {start:.1f} s, {frames / seconds:.1f} FPS, {computed} runs", flush=True)
        alone = median(rates["Ray, 1 worker of 1 thread"])
        rows: dict[str, Numbers] = {
            name: {
                "fps": median(values),
                "least": min(values),
                "most": max(values),
                "gain": median(values) / alone if name.startswith("Ray") else None,
                "start": starts[name],
            }
            for name, values in rates.items()
        }
        for save in (("records",), None):
            _, long, *_ = measure(folder / "long", options.model, save=save)
            _, short, *_ = measure(folder / "short", options.model, save=save)
            count = len(list((folder / "short").iterdir())) - len(list((folder / "long").iterdir()))
            rows["records only" if save else "default outputs"] = {"ms per video": 1000 * (short - long) / count}
    columns = {
        "fps": ("FPS", "{:.0f}"),
        "least": ("least", "{:.0f}"),
        "most": ("most", "{:.0f}"),
        "gain": ("of one worker", "{:.1f}x"),
        "start": ("start, s", "{:.0f}"),
        "ms per video": ("ms per video", "{:.0f}"),
    }
    title = f"{options.model}: {options.videos} videos of {options.frames} frames, {options.repeats} repeats in turns"
    finish("batch", options.out, title, columns, rows)


def render(folder: Path, options: Namespace) -> None:
    """Write videos of streets, and the same frames in videos of a tenth of the length."""
    for kind in ("long", "short"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    if any((folder / "long").iterdir()):
        return
    streets = []
    for seed in range(900_000, 900_000 + options.streets):
        scene = Scene(seed, SIZE, "drive")
        streets.append([scene.frame(index)[0] for index in range(options.frames)])
    for number in range(options.videos):
        images, short = streets[number % len(streets)], options.frames // 10
        write_video(folder / "long" / f"{number}.mp4", images)
        for part in range(10):
            write_video(folder / "short" / f"{number}-{part}.mp4", images[part * short : (part + 1) * short])


def write_video(path: Path, images: Iterable[Any], size: tuple[int, int] = SIZE, rate: int = RATE) -> None:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=rate, height=size[0], width=size[1], pix_fmt="yuv420p")
        for image in images:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))


def measure(
    videos: Path,
    model: str,
    ray: str | None = None,
    workers: int | None = None,
    threads: int | None = None,
    save: tuple[str, ...] | None = ("records",),
) -> tuple[float, float, int, int]:
    """Seconds until the first worker is ready, seconds from then on, frames, and runs of the network."""
    settings = BatchSettings(spec=ModelSpec(model, {"threads": threads}), save=save)
    with tempfile.TemporaryDirectory() as out:
        run = TimedRun(find_videos([videos]), settings, out, ray=ray, workers=workers)
        ended: list[float] = []
        run.finished = lambda entry: ended.append(time.perf_counter())
        begun = time.perf_counter()
        run.run()
        entries = run.manifest.entries.values()
        assert all(entry.status == "done" for entry in entries), entries
        frames, computed = sum(entry.frames for entry in entries), sum(entry.network_runs for entry in entries)
    return run.ready - begun, ended[-1] - run.ready, frames, computed


if __name__ == "__main__":
    main()
