"""Segment an uploaded video in a separate process that may be killed at any moment."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import signal
import time
import zipfile
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from stmg.errors import StmgError, VideoError
from stmg.models.loaded import LoadedModel
from stmg.models.spec import ModelSpec
from stmg.outputs.images import make_label_image
from stmg.outputs.records import Records
from stmg.outputs.sinks import BackgroundSink, FileSink, Sinks
from stmg.outputs.videos import OverlayVideo
from stmg.pipeline import run_pipeline
from stmg.serve.config import UploadLimits
from stmg.streaming.result import FrameResult
from stmg.streaming.statistics import Statistics
from stmg.video.frames import Frame
from stmg.video.overlay import make_color_table
from stmg.video.sources import FrameSource, VideoSource, open_video

# Only containers that hold a video. A playlist would make FFmpeg open any file or address that it names.
FORMATS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,flv,ogg,asf"
RESULTS = {"overlay": "overlay.mp4", "labels": "labels.zip", "records": "records.jsonl"}
SOURCE = "source"
MOST_FPS = 240
REPORT_EVERY = 0.2  # seconds between two reports


@dataclass(frozen=True)
class Work:
    """An uploaded video to segment."""

    folder: Path
    """Folder of the video and its results."""
    name: str
    """Name of the file."""
    spec: ModelSpec
    limits: UploadLimits


@dataclass(frozen=True)
class Report:
    """Progress of an upload."""

    frames: int = 0
    total: int | None = None
    """Number of frames to expect, often an estimate."""
    error: str | None = None
    done: bool = False


def run(work: Work, reports: Connection) -> None:
    """Segment the video and report progress. The process also ends when the parent stops reading."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server handles Ctrl-C, and ends this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.nice(10)  # let live streams come first
    largest = int(1e6 * max(20 * work.limits.megabytes, 2000))
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(BrokenPipeError, OSError):
        try:
            frames = _segment(work, reports)
            reports.send(Report(frames, frames, done=True))
        except (StmgError, OSError) as error:
            path = str(work.folder / SOURCE)
            reports.send(Report(error=" ".join(str(error).replace(path, work.name).split())))
        except Exception as error:
            reports.send(Report(error=f"the video could not be processed ({type(error).__name__})"))


def check_video(path: Path, name: str, limits: UploadLimits) -> None:
    """Raise for a file that is not a self-contained video, or too large in any way."""
    try:
        with av.open(str(path), options={"format_whitelist": FORMATS}, metadata_errors="ignore") as container:
            stream: Any = container.streams.best("video")
            if stream is None or stream.codec_context is None:
                raise VideoError(f"{name} has no video in it")
            pixels = stream.width * stream.height
            seconds = None if container.duration is None else container.duration / av.time_base
    except av.FFmpegError:
        raise VideoError(f"{name} is not a video that is taken here; give mp4, mov, mkv, webm, avi or ts") from None
    if pixels > 1e6 * limits.megapixels:
        raise VideoError(f"{name} has {pixels / 1e6:.1f} megapixels a frame; at most {limits.megapixels:g} are taken")
    if seconds is not None and seconds > 60 * limits.minutes:
        raise VideoError(f"{name} lasts {seconds / 60:.1f} minutes; at most {limits.minutes:g} are taken")


def _segment(work: Work, reports: Connection) -> int:
    """Segment the video. Return the number of frames."""
    source = work.folder / SOURCE
    check_video(source, work.name, work.limits)
    with open_video(source) as video:
        model = LoadedModel(work.spec.name, work.spec)
        segmenter = model.segmenter_for(work.spec, video.size, mode="offline")
        paths = {name: work.folder / file for name, file in RESULTS.items()}
        sinks = Sinks(
            OverlayVideo(paths["overlay"], video.fps or 25.0),
            LabelArchive(paths["labels"], segmenter.palette),
            Records(paths["records"], areas=True, class_names=segmenter.class_names),
        )
        last = 0.0
        with BackgroundSink(sinks) as sink:

            def report(statistics: Statistics) -> None:
                nonlocal last
                if time.monotonic() - last > REPORT_EVERY:
                    last = time.monotonic()
                    reports.send(Report(statistics.num_frames, video.num_frames))

            statistics = Statistics("offline")
            run_pipeline(segmenter, _Bounded(video, work), sink, statistics, on_result=report)
    return statistics.num_frames


class _Bounded(FrameSource):
    """The frames of a video. Raise once they exceed the limits, as the file's own header may be false."""

    def __init__(self, video: VideoSource, work: Work) -> None:
        self._video, self._work, self.size = video, work, video.size
        self._number = 0

    def __next__(self) -> Frame:
        frame, limits, name = next(self._video), self._work.limits, self._work.name
        height, width = frame.size
        if height * width > 1e6 * limits.megapixels:
            raise VideoError(f"{name} has frames of {width}x{height}; too large to be taken")
        if self._number > MOST_FPS * 60 * limits.minutes or (frame.time or 0.0) > 60 * limits.minutes:
            raise VideoError(f"{name} lasts longer than the {limits.minutes:g} minutes that are taken")
        self._number += 1
        return frame


class LabelArchive(FileSink):
    """Class ids as one PNG per frame, in a ZIP file."""

    def __init__(self, path: Path, palette: NDArray[np.uint8]) -> None:
        super().__init__(path)
        self._archive = zipfile.ZipFile(path, "w", zipfile.ZIP_STORED)  # PNGs are compressed already
        self._table = make_color_table(palette)

    def _write(self, result: FrameResult) -> None:
        data = io.BytesIO()
        make_label_image(result.labels, self._table).save(data, "PNG", compress_level=6)
        self._archive.writestr(f"{result.index:06d}.png", data.getvalue())

    def _finish(self) -> None:
        self._archive.close()
