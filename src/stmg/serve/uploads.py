"""Uploads: videos dropped on the page, segmented one after the other in a process that can be killed."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import secrets
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil

from stmg.models.spec import ModelSpec
from stmg.serve.config import UploadLimits
from stmg.serve.worker import RESULTS, SOURCE, Report, Work, run

CHECK_EVERY = 0.25  # seconds between two checks of the limits
log = logging.getLogger("stmg.serve")


@dataclass(frozen=True)
class Upload:
    """An uploaded video. Times are seconds since 1970."""

    id: str
    name: str
    """Name of the file."""
    model: str
    state: str = "receiving"
    """receiving, waiting, processing, done, failed or canceled."""
    created: float = 0.0
    megabytes: float = 0.0
    frames: int = 0
    total: int | None = None
    progress: float | None = None
    """Share of the video that is done."""
    seconds_left: float | None = None
    error: str | None = None
    results: tuple[str, ...] = ()
    """Names of the results that can be fetched."""

    @property
    def is_over(self) -> bool:
        return self.state in ("done", "failed", "canceled")


class UploadRefusedError(Exception):
    """A video that is refused at the moment. The message says why."""


class Uploads:
    """The queue of uploads, and the thread that works on it."""

    def __init__(
        self,
        folder: Path,
        limits: UploadLimits,
        target: Callable[..., None] = run,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.limits = limits
        self._folder, self._target, self._clock = folder, target, clock
        self._jobs: dict[str, Upload] = {}
        self._specs: dict[str, ModelSpec] = {}
        self._changed = threading.Condition()
        self._stopped = False
        self._process: BaseProcess | None = None
        self._thread = threading.Thread(target=self._work, name="uploads", daemon=True)

    def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._thread.start()

    def stop(self) -> None:
        """Kill the running process. Uploaded files are removed with the server's folder."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._kill()
        if self._thread.ident is not None:
            self._thread.join(2.0)

    def list(self) -> list[Upload]:
        with self._changed:
            return list(self._jobs.values())

    def get(self, number: str) -> Upload | None:
        return self._jobs.get(number)

    def begin(self, name: str, model: str, spec: ModelSpec) -> tuple[Upload, Path]:
        """Make room for a file, and return its path. Call `finish` or `remove` afterwards."""
        with self._changed:
            self._remove_old()
            unfinished = [job for job in self._jobs.values() if job.state in ("receiving", "waiting")]
            if len(unfinished) > self.limits.waiting:
                raise UploadRefusedError(f"{len(unfinished)} videos are waiting already; try again later")
            over = [job for job in self._jobs.values() if job.is_over]
            if len(self._jobs) >= self.limits.kept:
                if not over:
                    raise UploadRefusedError("no more videos are taken until one is done")
                self._forget(over[0].id)
            job = Upload(secrets.token_hex(8), name, model, created=self._clock())
            path = self._folder / job.id
            path.mkdir(parents=True)
            self._jobs[job.id], self._specs[job.id] = job, spec
            return job, path / SOURCE

    def finish(self, number: str, size: int) -> Upload:
        """Queue an upload whose file is complete."""
        with self._changed:
            if number not in self._jobs:
                raise UploadRefusedError("the video was removed while it was sent")
        return self._update(number, state="waiting", megabytes=round(size / 1e6, 2))

    def remove(self, number: str) -> bool:
        """Cancel a video, or remove it and its results. Return False if there is none."""
        with self._changed:
            job = self._jobs.get(number)
            if job is None:
                return False
            if job.state == "processing":
                self._update(number, state="canceled", error="canceled")
                self._kill()
            else:
                self._forget(number)
            return True

    def result(self, number: str, result: str) -> Path | None:
        """The file of a result; None if there is none."""
        job = self._jobs.get(number)
        return self._folder / job.id / RESULTS[result] if job is not None and result in job.results else None

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopped or self._next() is not None, timeout=30.0)
                if self._stopped:
                    return
                self._remove_old()
                job = self._next()
                if job is None:
                    continue
                self._update(job.id, state="processing")
            try:
                self._process_one(job)
            except Exception as error:
                log.error("upload %s: %r", job.id, error)
                self._end(job.id, "failed", "the video could not be processed")

    def _next(self) -> Upload | None:
        return next((job for job in self._jobs.values() if job.state == "waiting"), None)

    def _process_one(self, job: Upload) -> None:
        context = multiprocessing.get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        work = Work(self._folder / job.id, job.name, self._specs[job.id], self.limits)
        process = context.Process(target=self._target, args=(work, sender), name="stmg-upload", daemon=True)
        begun, report = self._clock(), Report()
        process.start()
        self._process = process
        sender.close()
        first: tuple[float, int] | None = None
        reason: str | None = None
        with contextlib.suppress(EOFError, OSError):
            while not report.done and report.error is None and reason is None:
                if receiver.poll(CHECK_EVERY):
                    report = receiver.recv()
                    if report.frames:
                        first = first or (self._clock(), report.frames)
                        self._update(job.id, **_estimate(report, first, self._clock()))
                reason = self._too_much(job.id, process, begun)
        receiver.close()
        self._kill()
        process.join(5.0)
        if report.done:
            self._end(job.id, "done", None)
        else:
            self._end(job.id, "failed", reason or report.error or "the process that worked on it died")
        with contextlib.suppress(OSError):
            (work.folder / SOURCE).unlink(missing_ok=True)

    def _too_much(self, number: str, process: BaseProcess, begun: float) -> str | None:
        """The reason to kill a process; None if it may continue."""
        job = self._jobs.get(number)
        if job is None or job.state == "canceled":
            return "canceled"
        if self._stopped:
            return "the server stopped"
        if self._clock() - begun > 60 * self.limits.work_minutes:
            return f"it took longer than {self.limits.work_minutes:g} minutes"
        with contextlib.suppress(psutil.Error):
            if psutil.Process(process.pid).memory_info().rss > 1e6 * self.limits.memory_megabytes:
                return f"it needed more than {self.limits.memory_megabytes:g} MB of memory"
        return None

    def _end(self, number: str, state: str, error: str | None) -> None:
        with self._changed:
            job = self._jobs.get(number)
            if job is None or job.state == "canceled":
                if job is not None:
                    self._forget(number)
                return
            done = state == "done"
            results = tuple(RESULTS) if done else ()
            total = job.frames if done else job.total
            progress = 1.0 if done else job.progress
            self._update(
                number, state=state, error=error, results=results, progress=progress, total=total, seconds_left=None
            )

    def _update(self, number: str, **fields: Any) -> Upload:
        with self._changed:
            self._jobs[number] = replace(self._jobs[number], **fields)
            self._changed.notify_all()
            return self._jobs[number]

    def _remove_old(self) -> None:
        now = self._clock()
        for job in list(self._jobs.values()):
            if job.is_over and now - job.created > 3600 * self.limits.keep_hours:
                self._forget(job.id)

    def _forget(self, number: str) -> None:
        self._jobs.pop(number, None)
        self._specs.pop(number, None)
        shutil.rmtree(self._folder / number, ignore_errors=True)

    def _kill(self) -> None:
        process = self._process
        if process is not None and process.is_alive():
            process.kill()


def _estimate(report: Report, first: tuple[float, int], now: float) -> dict[str, Any]:
    """Progress and remaining time, by the frames since the first report."""
    progress = left = None
    if report.total:
        progress = min(1.0, report.frames / report.total)
        since, frames = now - first[0], report.frames - first[1]
        if frames > 0 and since > 0:
            left = round(max(0, report.total - report.frames) * since / frames, 1)
    return {"frames": report.frames, "total": report.total, "progress": progress, "seconds_left": left}
