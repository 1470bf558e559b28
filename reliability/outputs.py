"""Read the outputs of `stmg segment` and `stmg train`, and find what is unusable in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

MAX_LOST = 2.0  # seconds of video that a kill may lose
RATE = 25
VIDEO_SIZE = (64, 96)
TRAINING = (
    "data.path=street:0-1",
    "data.val=",
    "data.size=[48, 64]",
    "augment.crop=[48, 64]",
    "batch=2",
    "save_every=2",
    "evaluate_every=8",
)


class Outputs(NamedTuple):
    """The content of an output folder of `stmg segment`."""

    records: int
    """Lines in records.jsonl."""
    recorded: float
    """Time of the last record, in seconds of the video."""
    shown: int
    """Frames in the overlay."""
    played: float
    """Time of the last frame of the overlay."""
    problem: str
    """Problem that makes the outputs unusable; otherwise empty."""

    @property
    def lost(self) -> float:
        """Seconds that are in the records but not in the overlay."""
        return max(0.0, self.recorded - self.played)


def read_outputs(folder: Path) -> Outputs:
    """Read the overlay, the records and the label images, whichever exist."""
    import av
    import cv2

    from reliability.media import count_frames

    problems, times, shown, played = list[str](), list[float](), 0, 0.0
    records, overlay = folder / "records.jsonl", folder / "overlay.mp4"
    if records.is_file():
        try:
            times = read_times(records)
        except ValueError as error:
            problems.append(f"records: {error}")
    if overlay.is_file() and overlay.stat().st_size:
        try:
            shown, played = count_frames(overlay)
        except av.FFmpegError as error:
            if times and times[-1] > MAX_LOST:  # until the first seconds are on disk there is nothing to open
                problems.append(f"overlay: {error}")
    unread = [path.name for path in folder.glob("labels/*.png") if cv2.imread(str(path), cv2.IMREAD_UNCHANGED) is None]
    if unread:
        problems.append(f"labels: {len(unread)} cannot be read")
    return Outputs(len(times), times[-1] if times else 0.0, shown, played, "; ".join(problems))


def read_times(records: Path) -> list[float]:
    """The times of all records; a ValueError if one is cut off or out of order."""
    data = records.read_bytes()
    if data and not data.endswith(b"\n"):
        raise ValueError("the last line is cut off")
    content = [json.loads(line) for line in data.splitlines()]
    indices = [record["index"] for record in content]
    if indices != sorted(set(indices)):
        raise ValueError("frames are out of order")
    times = [record["time"] for record in content]
    if times != sorted(times):
        raise ValueError("time runs backwards")
    return times


def read_decisions(records: Path) -> list[dict[str, object]]:
    """The records without their latency."""
    lines = records.read_text().splitlines()
    return [{name: value for name, value in json.loads(line).items() if name != "latency_ms"} for line in lines]


def weights_of(run: Path) -> bytes:
    """The last weights of a training run."""
    return (run / "last" / "model.safetensors").read_bytes()


def segment_command(video: Path, model: Path, out: Path, mode: str, *options: str) -> list[str]:
    streams = ("--mode", mode, "--device", "cpu", "--threads", "1")
    return ["segment", str(video), "--model", str(model), "--out", str(out), *streams, *options]


def train_command(recipe: Path, out: Path, steps: int) -> list[str]:
    return ["train", str(recipe), f"steps={steps}", *TRAINING, "--out", str(out), "--device", "cpu", "--threads", "1"]
