"""Batch: segment every video of a list once, here or on Ray. A second run does only what is missing."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from stmg.jobs.manifest import Manifest, ManifestEntry
from stmg.jobs.storage import WORK, Folder, lock_folder, open_storage
from stmg.jobs.task import CHUNK, BatchSettings, Marker, Outcome, Part, Task, Totals, read_marker
from stmg.jobs.videos import Video, find_videos, keep_names
from stmg.jobs.worker import LocalPool, Pool
from stmg.models.spec import ModelSpec, as_spec

READERS = 16  # markers read at once, because each takes a while on remote storage


def batch(
    videos: str | Path | Iterable[str | Path],
    model: str | Path | ModelSpec,
    out: str | Path,
    *,
    mode: str = "offline",
    save: Iterable[str] | None = None,
    areas: bool = False,
    background: str | None = None,
    every: int = 1,
    limit: int | None = None,
    fps: float | None = None,
    chunk: int = CHUNK,
    ray: str | None = None,
    workers: int | None = None,
) -> list[ManifestEntry]:
    """Segment many videos. Return the manifest entry of each.

    videos: files, folders, patterns, lists ending in .txt, or several of these; paths or URLs for fsspec.
    model: what `stmg.load` takes, or a `ModelSpec`.
    out: the folder of all outputs, a path or a URL for fsspec. It gets one folder per video, and `manifest.jsonl`.
    save, areas, background, every, limit, fps: as in `stmg segment`.
    chunk: length in frames at which a long video is cut into parts that workers share. 0: never cut.
    ray: the address of a Ray cluster, or auto. None: run in this process.
    workers: maximum number of workers on Ray. None: as many as fit.

    A second run does only what is missing. A video that cannot be segmented does not stop the others.

        for entry in stmg.batch("drives", "lite0-camvid", "out/drives"):
            print(entry.video, entry.status, entry.reason)
    """
    settings = BatchSettings(
        spec=as_spec(model),
        mode=mode,
        save=None if save is None else tuple(save),
        areas=areas,
        background=background,
        every=every,
        limit=limit,
        fps=fps,
        chunk=chunk,
    )
    arguments = [videos] if isinstance(videos, str | Path) else videos
    run = BatchRun(find_videos(arguments, without=str(out)), settings, str(out), ray=ray, workers=workers)
    run.run()
    return list(run.manifest.entries.values())


class BatchProgress(NamedTuple):
    """Progress of a batch."""

    size: float
    """Bytes of video segmented so far."""
    total: int
    """Bytes of the videos that were not done before."""
    videos: int
    """Number of videos that are done, failed or skipped."""
    frames: int
    """Frames segmented in this run."""


@dataclass
class _CutVideo:
    """A long video whose parts are being segmented."""

    parts: tuple[Part, ...]
    left: int
    totals: Totals = field(default_factory=Totals)
    failure: str = ""


class BatchRun:
    """One run over the videos of a batch.

    `report` is called often with the progress, `finished` with each new entry of the manifest.
    After an interruption the manifest is written and finished outputs are in place.
    """

    def __init__(
        self,
        videos: list[Video],
        settings: BatchSettings,
        out: str,
        *,
        ray: str | None = None,
        workers: int | None = None,
    ) -> None:
        _, path = open_storage(out)
        self.videos, self.settings = videos, settings
        self.out = Folder(out if "://" in out else path)  # absolute, for workers in other folders
        self.manifest = Manifest(self.out)
        self.notes: tuple[str, ...] = ()
        self._ray, self._workers = ray, workers
        self.report: Callable[[BatchProgress], None] = lambda progress: None
        self.finished: Callable[[ManifestEntry], None] = lambda entry: None
        self._queue: deque[Task] = deque()
        self._cuts: dict[str, _CutVideo] = {}
        self._size, self._total, self._frames = 0.0, 0, 0

    def run(self) -> None:
        """Do what is missing. Raise `SettingsError` if another run on this machine writes to the same folder."""
        with lock_folder(Path(self.out.path)) if self.out.is_local else nullcontext():
            self._run()

    def _run(self) -> None:
        if self.out.is_local:
            self.out.remove(WORK)  # left by a run that was killed
        self.videos = keep_names(self.videos, self.manifest.load())
        self._skip_done()
        try:
            if self._queue:
                self._work()
        finally:
            if self.manifest.entries:
                self.manifest.write()
            if self.out.is_local:
                self.out.remove(WORK)

    def _skip_done(self) -> None:
        tasks = [Task(video, self.settings.key(video)) for video in self.videos]
        older = 0
        with ThreadPoolExecutor(READERS) as readers:
            for task, marker in zip(tasks, readers.map(self._read_marker, tasks), strict=True):
                if isinstance(marker, OSError):
                    self._add(task.video, "failed", Totals(), " ".join(str(marker).split()))
                elif marker.totals is not None:
                    self._add(task.video, "skipped", marker.totals, "done before")
                else:
                    older += marker.is_older
                    self._queue.append(task)
                    self._total += task.video.size
        if older:
            self.notes = (
                f"{older} videos were done by an earlier version of stmg, whose settings cannot be compared with "
                "these; they are done again",
            )

    def _read_marker(self, task: Task) -> Marker | OSError:
        try:
            return read_marker(self.out, task)
        except OSError as error:  # such as a name that is too long for the file system
            return error

    def _work(self) -> None:
        pool = self._make_pool()
        running = 0
        try:
            self.notes += pool.start()
            while self._queue or running:
                while self._queue and pool.has_room():
                    pool.submit(self._queue.popleft())
                    running += 1
                for outcome in pool.wait():
                    running -= 1
                    self._take(outcome)
                self._report(pool)
        finally:
            pool.close()

    def _make_pool(self) -> Pool:
        if self._ray is None:
            pool = LocalPool(self.settings, self.out.url, lambda: self._report(pool))
            return pool
        from stmg.jobs.ray_pool import RayPool

        return RayPool(self.settings, self.out.url, self._ray, self._workers)

    def _take(self, outcome: Outcome) -> None:
        """Record the outcome of a task. The parts of a cut video become the next tasks."""
        task, video = outcome.task, outcome.task.video
        if outcome.status == "cut":
            self._cuts[video.name] = _CutVideo(outcome.parts, len(outcome.parts))
            share = 1 / len(outcome.parts)
            self._queue.extendleft(Task(video, task.key, part=part, share=share) for part in reversed(outcome.parts))
            return
        if task.parts:
            self._end(video, outcome, len(task.parts))
            return
        self._size += task.size
        self._frames += outcome.totals.frames
        if task.part is None:
            self._end(video, outcome, 1)
            return
        cut = self._cuts[video.name]
        cut.left -= 1
        cut.failure = cut.failure or outcome.reason
        cut.totals = cut.totals.plus(outcome.totals)
        if cut.left == 0 and cut.failure:
            self._end(video, Outcome(task, "failed", cut.totals, cut.failure), len(cut.parts))
        elif cut.left == 0:
            self._queue.appendleft(Task(video, task.key, parts=cut.parts, share=0.0))

    def _end(self, video: Video, outcome: Outcome, parts: int) -> None:
        self._add(video, outcome.status, outcome.totals, outcome.reason, parts)

    def _add(self, video: Video, status: str, totals: Totals, reason: str = "", parts: int = 1) -> None:
        self.finished(self.manifest.add(video, status, totals, reason, parts))

    def _report(self, pool: Pool) -> None:
        ended = len(self.manifest.entries)
        self.report(BatchProgress(self._size + pool.progress(), self._total, ended, self._frames))
