"""Worker: loads the model once and runs one task after the other. It returns outcomes, never frames."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from stmg.errors import SettingsError
from stmg.jobs.parts import cut_frames, join_parts
from stmg.jobs.storage import Folder, fetch
from stmg.jobs.task import MARKER, MARKER_FORMAT, PARTS, BatchSettings, Outcome, Part, Task, Totals, read_marker
from stmg.models.loaded import LoadedModel
from stmg.outputs.choose import IMAGES, OUTPUTS, make_sinks
from stmg.outputs.sinks import BackgroundSink
from stmg.pipeline import run_pipeline
from stmg.streaming.statistics import Statistics
from stmg.video.addresses import hide_secrets
from stmg.video.random_access import count_frames, open_span
from stmg.video.sources import VideoSource, open_video

if TYPE_CHECKING:
    from stmg.segmenter import VideoSegmenter


class Worker:
    """Segments the videos of a batch, one at a time. `on_frame` is called after every frame."""

    def __init__(self, settings: BatchSettings, out: str, on_frame: Callable[[], None] | None = None) -> None:
        self.settings, self.out, self._on_frame = settings, Folder(out), on_frame
        self._model = LoadedModel(settings.spec.name, settings.spec)
        self._progress = (0, 0)

    def load(self) -> tuple[str, ...]:
        """Load the model, so that a wrong name is reported before any video is opened. Return notes on it."""
        return self._model.check()

    def progress(self) -> float:
        """Share of the current task that is done."""
        done, total = self._progress
        return min(1.0, done / total) if total else 0.0

    def run(self, task: Task) -> Outcome:
        """Run a task. A problem with a video is an outcome, not an exception."""
        started = time.perf_counter()
        self._progress = (0, 0)
        try:
            totals = read_marker(self.out, task).totals
            if totals is not None:  # done before, by a run that was stopped or a machine that was lost
                return Outcome(task, "done", totals)
            return self._join(task) if task.parts else self._segment(task, started)
        except Exception as error:
            line = hide_secrets(" ".join(str(error).split()), task.video.source) or "no reason given"
            kind = "" if isinstance(error, OSError | ValueError) else f"{type(error).__name__}: "
            return Outcome(task, "failed", Totals(seconds=time.perf_counter() - started), kind + line)

    def _segment(self, task: Task, started: float) -> Outcome:
        for output in self.settings.outputs:
            if output in IMAGES:  # raise now rather than after all the work
                self.out.check_images(f"{task.folder}/{OUTPUTS[output]}")
        with fetch(task.video.source) as path:
            if task.part is None:
                parts = self._cut(path)
                if parts:
                    return Outcome(task, "cut", parts=parts)
            with self._open(path, task.part) as video, self.out.work_folder() as folder:
                segmenter = self._model.segmenter_for(self.settings.spec, video.size)
                statistics = self._stream(segmenter, video, folder, task)
                totals = Totals.of(statistics, time.perf_counter() - started)
                self._publish(task, folder, totals)
        return Outcome(task, "done", totals)

    @contextmanager
    def _open(self, path: Path, part: Part | None) -> Iterator[VideoSource]:
        settings = self.settings
        if part is None:
            with open_video(path, every=settings.every, limit=settings.limit, fps=settings.fps) as video:
                yield video
        else:
            with open_span(path, part.first, part.last, every=settings.every) as video:
                yield video

    def _stream(self, segmenter: VideoSegmenter, video: VideoSource, folder: Path, task: Task) -> Statistics:
        settings, part = self.settings, task.part
        names = list(settings.outputs)
        if part is not None:  # the timeline is drawn from the records of the whole video
            names = [name for name in dict.fromkeys(["records", *names]) if name != "timeline"]
        sinks = make_sinks(
            names,
            folder,
            fps=video.fps or 30.0,
            title=task.video.name,
            palette=segmenter.palette,
            class_names=segmenter.class_names,
            areas=settings.areas,
            background=settings.background,
        )
        # The part before writes the shared frame.
        shared = None if part is None or part.number == 0 else part.first
        with BackgroundSink(sinks) as sink:

            def note_progress(statistics: Statistics) -> None:
                self._progress = (statistics.num_frames, video.num_frames or 0)
                if self._on_frame is not None:
                    self._on_frame()

            statistics = Statistics(settings.mode)
            return run_pipeline(segmenter, video, sink, statistics, skip=shared, on_result=note_progress)

    def _cut(self, path: Path) -> tuple[Part, ...]:
        """Cut a long video into parts; empty if it is short, or if parts might not get the labels of the whole."""
        settings = self.settings
        if not settings.may_cut or not path.is_file():
            return ()
        with open_video(path, every=settings.every, limit=settings.limit) as video:
            estimate = video.num_frames
        if estimate is None or estimate < 1.5 * settings.chunk:
            return ()
        count = count_frames(path)
        return () if count is None else cut_frames(count, settings.chunk, settings.every, settings.limit)

    def _join(self, task: Task) -> Outcome:
        with self.out.work_folder() as folder:
            totals = join_parts(self.out, task, self.settings.outputs, folder)
            self._publish(task, folder, totals)
        return Outcome(task, "done", totals)

    def _publish(self, task: Task, folder: Path, totals: Totals) -> None:
        """Move the outputs into place. The old marker is removed first, the new one is written last."""
        self.out.remove(f"{task.folder}/{MARKER}")
        self.out.publish(folder, task.folder)
        if task.part is None:
            self._remove_others(task)
        content = {"format": MARKER_FORMAT, "key": task.marker, "source": task.video.address, **totals._asdict()}
        self.out.write(f"{task.folder}/{MARKER}", json.dumps(content).encode())
        if task.part is None:
            self.out.remove(f"{task.folder}/{PARTS}")

    def _remove_others(self, task: Task) -> None:
        """Remove outputs of an earlier run that this run does not write, as their video or settings may differ."""
        for output, name in OUTPUTS.items():
            if output not in self.settings.outputs:
                remove = self.out.remove_images if output in IMAGES else self.out.remove
                with suppress(SettingsError):  # keep files that stmg did not write
                    remove(f"{task.folder}/{name}")


class Pool(Protocol):
    """Takes tasks and returns their outcomes, in any order. `LocalPool` runs in this process, `RayPool` on Ray."""

    def start(self) -> tuple[str, ...]:
        """Load the model and return notes on it. Raise if no worker can."""

    def has_room(self) -> bool:
        """True if a task submitted now would start immediately."""

    def submit(self, task: Task) -> None:
        """Submit a task."""

    def wait(self) -> Iterator[Outcome]:
        """Yield the outcomes of about the next second, possibly none."""

    def progress(self) -> float:
        """Progress of the running tasks, in bytes of video."""

    def close(self) -> None:
        """Stop all running tasks."""


class LocalPool:
    """One worker in this process. `on_frame` is called after every frame."""

    def __init__(self, settings: BatchSettings, out: str, on_frame: Callable[[], None]) -> None:
        self._worker = Worker(settings, out, on_frame)
        self._task: Task | None = None

    def start(self) -> tuple[str, ...]:
        return self._worker.load()

    def has_room(self) -> bool:
        return self._task is None

    def submit(self, task: Task) -> None:
        self._task = task

    def wait(self) -> Iterator[Outcome]:
        if self._task is not None:
            outcome = self._worker.run(self._task)
            self._task = None
            yield outcome

    def progress(self) -> float:
        return 0.0 if self._task is None else self._worker.progress() * self._task.size

    def close(self) -> None:
        """Do nothing: no task runs between two calls."""
