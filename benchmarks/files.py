"""From file to file: the gain of whole commands, with decoding, drawing and encoding; and that of a fixed camera.

python -m benchmarks.files out/slim/onnx
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.batch import write_video
from benchmarks.measurement import Numbers, finish, make_parser
from stmg.data.synthetic.scene import Scene
from stmg.evaluation.results import BenchmarkResult
from stmg.evaluation.storage import read_result
from stmg.streaming.schedulers import Level

EVERY_FRAME = ("--mode", "online", "--scheduler", "always-key")


def main() -> None:
    parser = make_parser("files", __doc__)
    parser.add_argument("model")
    parser.add_argument("--frames", type=int, default=400, help="of the drive; of the fixed camera half as many")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    rows: dict[str, Numbers] = {}
    with tempfile.TemporaryDirectory() as folder:
        drive, fixed = Path(folder) / "drive.mp4", Path(folder) / "fixed.mp4"
        write_video(drive, render(900_000, (720, 1280), "drive", arguments.frames), (720, 1280), 30)
        write_video(fixed, render(900_003, (360, 480), "fixed", arguments.frames // 2), (360, 480), 15)
        every, default = [], []
        for _ in range(arguments.repeats):  # in turns, so that both meet the same machine
            every.append(segment(drive, arguments.model, *EVERY_FRAME))
            default.append(segment(drive, arguments.model, "--mode", "offline"))
        rates = [after["fps"] / before["fps"] for before, after in zip(every, default, strict=True)]
        rows["drive, every frame computed"] = {"fps": median(run["fps"] for run in every), "computed": 100}
        rows["drive, from file to file"] = {
            "fps": median(run["fps"] for run in default),
            "gain": median(rates),
            "least gain": min(rates),
            "most gain": max(rates),
            "computed": 100 * default[0]["network_runs"] / default[0]["frames"],
        }
        rows["fixed camera, offline"] = benchmark(fixed, arguments.model, arguments.frames // 2, arguments.repeats)
    columns = {
        "fps": ("FPS", "{:.1f}"),
        "gain": ("gain", "{:.2f}x"),
        "least gain": ("least", "{:.2f}x"),
        "most gain": ("most", "{:.2f}x"),
        "computed": ("computed", "{:.0f} %"),
    }
    title = f"{arguments.model}: a 720p drive from file to file, and a fixed camera without files"
    finish("files", arguments.out, title, columns, rows)


def render(seed: int, size: tuple[int, int], camera: str, frames: int) -> Iterator[Any]:
    scene = Scene(seed, size, camera)
    return (scene.frame(index)[0] for index in range(frames))


def segment(video: Path, model: str, *options: str) -> dict[str, Any]:
    """The summary of `stmg segment` of a video."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "stmg", "segment", str(video), "--model", model, "--json", *options]
        done = subprocess.run([*command, "--out", out], capture_output=True, text=True, check=True)
    summary: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return summary


def benchmark(video: Path, model: str, frames: int, repeats: int) -> Numbers:
    """The row of offline mode of `stmg benchmark` of a video."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "stmg", "benchmark", model, str(video), "--mode", "offline"]
        options = ["--frames", str(frames), "--repeats", str(repeats), "--out", out]
        subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)
        result = read_result(Path(out) / "benchmark.json")
    assert isinstance(result, BenchmarkResult)
    row = next(row for row in result.sizes[0].rows if row.way.kind == "offline")
    timing = row.timing
    assert timing is not None
    assert timing.gain_range is not None
    return {
        "fps": timing.fps,
        "gain": timing.gain,
        "least gain": timing.gain_range[0],
        "most gain": timing.gain_range[1],
        "computed": row.share(Level.KEY),
    }


if __name__ == "__main__":
    main()
