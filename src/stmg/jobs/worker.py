"""Worker: loads the model once and does one task after the other; what it gives back is an outcome, never frames."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from stmg.errors import SettingsError
from stmg.jobs.addresses import hide_secrets
from stmg.jobs.parts import IMAGES, join_parts
from stmg.jobs.storage import Folder, fetch
from stmg.jobs.task import MARKER, PARTS, BatchSettings, Figures, Outcome, Part, Task, read_marker
from stmg.models.for_source import SourceSegmenters
from stmg.outputs.background import Background
from stmg.outputs.choose import OUTPUTS, make_sinks
from stmg.outputs.summary import Summary
from stmg.video.sources import VideoSource, open_video
from stmg.video.span import count_frames, open_span

if TYPE_CHECKING:
    from stmg.segmenter import VideoSegmenter


class Worker:
    """Segments the videos of a batch, one at a time; `tick` is called after every frame."""

    def __init__(self, settings: BatchSettings, out: str, tick: Callable[[], None] | None = None) -> None:
        self.settings, self.out, self._tick = settings, Folder(out), tick
        self._segmenters = SourceSegmenters(settings.spec)
        self._progress = (0, 0)

    def load(self) -> tuple[str, ...]:
        """Load the model, so that a mistake in its name shows before any video is opened; notes on it."""
        return self._segmenters.check()

    def progress(self) -> float:
        """The share of the current task that is done."""
        done, total = self._progress
        return min(1.0, done / total) if total else 0.0

    def run(self, task: Task) -> Outcome:
        """Do a task. What is wrong with a video is an outcome, not an error."""
        started = time.perf_counter()
        self._progress = (0, 0)
        try:
            outcome = self._finished(task) or (self._join(task) if task.parts else self._segment(task, started))
        except Exception as error:
            line = hide_secrets(" ".join(str(error).split()), task.video.source) or "no reason given"
            kind = "" if isinstance(error, OSError | ValueError) else f"{type(error).__name__}: "
            return Outcome(task, "failed", Figures(seconds=time.perf_counter() - started), kind + line)
        return outcome

    def _finished(self, task: Task) -> Outcome | None:
        """The outcome of a task that was done before, by a run that was stopped or a machine that was lost."""
        figures = read_marker(self.out, task)
        return None if figures is None else Outcome(task, "done", figures)

    def _segment(self, task: Task, started: float) -> Outcome:
        for output in self.settings.outputs:
            if output in IMAGES:  # refused now rather than after all the work
                self.out.check_images(f"{task.folder}/{OUTPUTS[output]}")
        with fetch(task.video.source) as path:
            if task.part is None:
                parts = self._cut(path)
                if parts:
                    return Outcome(task, "cut", parts=parts)
            with self._open(path, task.part) as video, self.out.work_folder() as folder:
                segmenter = self._segmenters.open(video.size)
                summary = self._stream(segmenter, video, folder, task)
                seconds = time.perf_counter() - started
                figures = Figures(summary.num_frames, summary.runs, seconds, video.damaged or "")
                self._publish(task, folder, figures)
        return Outcome(task, "done", figures)

    @contextmanager
    def _open(self, path: Path, part: Part | None) -> Iterator[VideoSource]:
        settings = self.settings
        if part is None:
            with open_video(path, every=settings.every, limit=settings.limit, fps=settings.fps) as video:
                yield video
        else:
            with open_span(path, part.first, part.last, every=settings.every) as video:
                yield video

    def _stream(self, segmenter: VideoSegmenter, video: VideoSource, folder: Path, task: Task) -> Summary:
        settings, part = self.settings, task.part
        names = list(settings.outputs)
        if part is not None:  # the timeline is drawn of the whole, from the records
            names = [*dict.fromkeys(["records", *names])]
            names = [name for name in names if name != "timeline"]
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
        known = None if part is None or part.number == 0 else part.first  # the part before it writes that frame
        summary = Summary(settings.mode)
        with Background(sinks) as sink:
            for result in segmenter.stream(video, mode=settings.mode):
                if result.index != known:
                    sink.write(result)
                    summary.add(result)
                self._progress = (summary.num_frames, video.num_frames or 0)
                if self._tick is not None:
                    self._tick()
        return summary

    def _cut(self, path: Path) -> tuple[Part, ...]:
        """The parts of a long video; none if it is short, or its parts might not give what the whole does."""
        settings = self.settings
        if not settings.may_cut or not path.is_file():
            return ()
        with open_video(path, every=settings.every, limit=settings.limit) as video:
            estimate, size = video.num_frames, video.size
        if estimate is None or estimate < 1.5 * settings.chunk:
            return ()
        if self._segmenters.open(size).needs_fit:
            return ()  # it is measured where it runs, and may come out differently on another machine
        count = count_frames(path)
        return () if count is None else cut_frames(count, settings.chunk, settings.every, settings.limit)

    def _join(self, task: Task) -> Outcome:
        with self.out.work_folder() as folder:
            figures = join_parts(self.out, task, self.settings.outputs, folder)
            self._publish(task, folder, figures)
        return Outcome(task, "done", figures)

    def _publish(self, task: Task, folder: Path, figures: Figures) -> None:
        """Put outputs in their place; the marker goes first where it is old, and comes last where it is new."""
        self.out.remove(f"{task.folder}/{MARKER}")
        self.out.publish(folder, task.folder)
        if task.part is None:
            self._remove_others(task)
        content = {"key": task.marker, "source": task.video.address, **figures._asdict()}
        self.out.write(f"{task.folder}/{MARKER}", json.dumps(content).encode())
        if task.part is None:
            self.out.remove(f"{task.folder}/{PARTS}")

    def _remove_others(self, task: Task) -> None:
        """Remove what an earlier run wrote and this one does not: it may be of another video, model or setting."""
        for output, name in OUTPUTS.items():
            if output not in self.settings.outputs:
                remove = self.out.remove_images if output in IMAGES else self.out.remove
                with suppress(SettingsError):  # files that stmg did not write stay
                    remove(f"{task.folder}/{name}")


def cut_frames(count: int, chunk: int, every: int = 1, limit: int | None = None) -> tuple[Part, ...]:
    """The parts of a video of so many frames, of which each `every`th is taken; none if one would do.

    Each begins with the frame that the one before ends with, and a last part may be half as long again, or half.
    """
    taken = -(-count // every)
    taken = taken if limit is None else min(taken, limit)
    number = round(taken / chunk)
    if number < 2:
        return ()
    starts = [chunk * at for at in range(number)]
    return tuple(
        Part(at, start * every, last * every)
        for at, (start, last) in enumerate(zip(starts, [*starts[1:], taken - 1], strict=True))
    )
