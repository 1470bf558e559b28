"""Ray: actors on one machine or a cluster run the tasks of a batch. Each loads the model once.

Only paths, settings and totals are sent, never frames. If a machine is lost, its task goes to another worker.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from stmg.errors import SettingsError, explain_missing
from stmg.jobs.task import BatchSettings, Outcome, Task, make_portable
from stmg.jobs.worker import Worker

with explain_missing("ray", why="running on Ray needs", extra="ray"):
    import ray
    from ray.exceptions import RayError, RayTaskError

ATTEMPTS = 3  # number of workers that a task may lose before it is blamed for it
WAIT_SECONDS = 0.5  # longest wait for an outcome
SCAN_SECONDS = 5.0  # between two searches for machines that have joined
PATIENCE = 300.0  # seconds without any worker until the batch ends: machines may come back or join


class RayPool:
    """Actors of a Ray cluster, as many as fit, each with the CPUs that the runtime uses.

    address: of the cluster. auto: the cluster of this machine, or a new one on this machine alone.
    workers: maximum number of actors.
    """

    def __init__(self, settings: BatchSettings, out: str, address: str, workers: int | None = None) -> None:
        self._threads = settings.spec.settings.threads or 1
        self._gpus = 1 if (settings.spec.settings.device or "").startswith("cuda") else 0
        settings = replace(settings, spec=make_portable(settings.spec.with_options(threads=self._threads)))
        self._arguments, self._most = (settings, out), workers
        self._is_ours = not ray.is_initialized()
        if self._is_ours:
            _connect(address)
        # Do not let Ray restart a lost actor: it would hold the task until there is room again.
        self._actor_class: Any = ray.remote(Worker).options(
            num_cpus=self._threads, num_gpus=self._gpus, max_restarts=0, max_concurrency=2
        )
        self._loading: dict[Any, Any] = {}  # by the reference of `load`
        self._idle: deque[Any] = deque()
        self._running: dict[Any, tuple[Any, Task]] = {}  # by the reference of `run`
        self._progress: dict[Any, tuple[Any, float]] = {}  # by actor: the reference of `progress`, and its last value
        self.losses: Counter[Task] = Counter()
        self._lost: deque[Task] = deque()
        self._scanned = 0.0
        self._worked = 0.0  # time of the last worker

    def start(self) -> tuple[str, ...]:
        self._add_actors()
        if not self._loading:
            gpu, advice = (" and a GPU", " or --device cpu") if self._gpus else ("", "")
            raise SettingsError(
                f"a worker takes {self._threads} CPUs{gpu}, and no machine of this cluster has as many; try fewer "
                f"--threads{advice}"
            )
        failure: Exception | None = None
        while self._loading:
            # After a failure, do not wait forever: the others may be on machines that are gone.
            ready, _ = ray.wait(list(self._loading), num_returns=1, timeout=PATIENCE if failure else None)
            if not ready:
                break
            actor = self._loading.pop(ready[0])
            try:
                notes: tuple[str, ...] = ray.get(ready[0])
            except RayTaskError as error:
                failure = error.cause
            except RayError as error:
                failure = OSError(f"no worker could be started: {error}")
            else:
                self._idle.append(actor)
                self._worked = time.monotonic()
                return notes
        assert failure is not None
        raise failure from None

    def has_room(self) -> bool:
        return bool(self._idle) and not self._lost

    def submit(self, task: Task) -> None:
        actor = self._idle.popleft()
        self._running[actor.run.remote(task)] = (actor, task)

    def wait(self) -> Iterator[Outcome]:
        if time.monotonic() - self._scanned > SCAN_SECONDS:
            self._add_actors()
        while self._lost and self._idle:
            self.submit(self._lost.popleft())
        self._check_workers()
        waiting = [*self._running, *self._loading]
        if not waiting:
            time.sleep(WAIT_SECONDS)
            return
        ready, _ = ray.wait(waiting, num_returns=1, timeout=WAIT_SECONDS)
        for reference in ready:
            if reference in self._loading:
                self._admit(reference)
            else:
                yield from self._finish(reference)

    def progress(self) -> float:
        total = 0.0
        for actor, task in self._running.values():
            reference, share = self._progress.get(actor, (None, 0.0))
            if reference is not None and ray.wait([reference], timeout=0)[0]:
                with suppress(RayError):  # `wait` handles it
                    share = ray.get(reference)
                reference = None
            self._progress[actor] = (actor.progress.remote() if reference is None else reference, share)
            total += share * task.size
        return total

    def close(self) -> None:
        for actor in [*self._loading.values(), *self._idle, *(actor for actor, _ in self._running.values())]:
            ray.kill(actor)
        if self._is_ours:
            ray.shutdown()

    def _add_actors(self) -> None:
        """Start actors wherever the cluster has room now."""
        self._scanned = time.monotonic()
        room = sum(self._room_on(node["Resources"]) for node in ray.nodes() if node["Alive"])
        room = room if self._most is None else min(room, self._most)
        for _ in range(room - len(self._loading) - len(self._idle) - len(self._running)):
            actor = self._actor_class.remote(*self._arguments)
            self._loading[actor.load.remote()] = actor

    def _room_on(self, resources: Mapping[str, float]) -> int:
        """Number of actors that fit the CPUs and GPUs of a machine."""
        needs = {"CPU": self._threads, **({"GPU": self._gpus} if self._gpus else {})}
        return min(int(resources.get(name, 0) // need) for name, need in needs.items())

    def _check_workers(self) -> None:
        """Raise after a long time without any worker, as none may ever come back."""
        now = time.monotonic()
        if self._running or self._idle:
            self._worked = now
        elif now - self._worked > PATIENCE:
            raise OSError(
                f"all workers were lost, and for {PATIENCE:.0f} seconds none could be started; look at the cluster "
                "(ray status), then run the same command again: it does what is missing"
            )

    def _admit(self, reference: Any) -> None:
        actor = self._loading.pop(reference)
        try:
            ray.get(reference)
        except RayError:  # other workers go on; this machine is tried again later
            ray.kill(actor)
        else:
            self._idle.append(actor)

    def _finish(self, reference: Any) -> Iterator[Outcome]:
        actor, task = self._running.pop(reference)
        self._progress.pop(actor, None)
        try:
            outcome: Outcome = ray.get(reference)
        except RayError as error:
            self.losses[task] += 1
            if self.losses[task] < ATTEMPTS:
                self._lost.append(task)
            else:
                line = " ".join(str(error).split())[:200]
                yield Outcome(task, "failed", reason=f"{ATTEMPTS} workers were lost with it; the last: {line}")
            ray.kill(actor)
            return
        self._idle.append(actor)
        yield outcome


def _connect(address: str) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "auto":
        try:
            ray.init("auto", **options)
        except ConnectionError:
            ray.init("local", include_dashboard=False, **options)
        return
    try:
        ray.init(address, **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        line = " ".join(str(error).split())
        raise SettingsError(f"no Ray cluster answers at {address} ({line}); start one, or use --ray auto") from None
