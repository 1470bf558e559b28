"""Ray: the tasks of a batch done by actors, on one machine or a cluster, each of which loads the model once.

Over the wire go paths, settings and statistics, never frames. A task whose machine is lost is done by another worker.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from stmg.errors import MissingPackageError, SettingsError, install_command
from stmg.jobs.task import BatchSettings, Outcome, Task
from stmg.jobs.worker import Worker
from stmg.models.kinds import is_network, is_user_function
from stmg.models.resolve import ModelSpec

try:
    import ray
    from ray.exceptions import RayError, RayTaskError
except ImportError:
    raise MissingPackageError(f"running on Ray needs: {install_command('ray')}") from None

ATTEMPTS = 3  # that a task gets before it is the one to blame for the workers that were lost with it
SECONDS = 0.5  # that one wait takes at most
LOOK = 5.0  # seconds between two looks for machines that have joined
PATIENCE = 300.0  # seconds without any worker, in which lost machines may come back or others join


class RayPool:
    """Actors of a Ray cluster, as many as it has room for, each with the CPUs that the runtime uses.

    address: of the cluster; auto: the one this machine belongs to, or one of this machine alone, started here.
    workers: the most actors there may be.
    """

    def __init__(self, settings: BatchSettings, out: str, address: str, workers: int | None = None) -> None:
        self._threads = settings.spec.threads or 1
        self._gpus = 1 if (settings.spec.device or "").startswith("cuda") else 0
        settings = replace(settings, spec=_make_portable(replace(settings.spec, threads=self._threads)))
        self._arguments, self._most = (settings, out), workers
        self._is_ours = not ray.is_initialized()
        if self._is_ours:
            _connect(address)
        # A lost actor is not restarted by Ray, which would hold its task until there is room for it again.
        self._actor_class: Any = ray.remote(Worker).options(
            num_cpus=self._threads, num_gpus=self._gpus, max_restarts=0, max_concurrency=2
        )
        self._loading: dict[Any, Any] = {}  # by what `load` will give
        self._idle: deque[Any] = deque()
        self._running: dict[Any, tuple[Any, Task]] = {}  # by what `run` will give
        self._progress: dict[Any, tuple[Any, float]] = {}  # by actor: what `progress` will give, and what it gave last
        self.losses: Counter[Task] = Counter()
        self._lost: deque[Task] = deque()
        self._looked = 0.0
        self._worked = 0.0  # when there last was a worker

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
            # Where one has failed, others may be on machines that are gone.
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
        if time.monotonic() - self._looked > LOOK:
            self._add_actors()
        while self._lost and self._idle:
            self.submit(self._lost.popleft())
        self._check_workers()
        waiting = [*self._running, *self._loading]
        if not waiting:
            time.sleep(SECONDS)
            return
        ready, _ = ray.wait(waiting, num_returns=1, timeout=SECONDS)
        for reference in ready:
            if reference in self._loading:
                self._take_in(reference)
            else:
                yield from self._finish(reference)

    def progress(self) -> float:
        total = 0.0
        for actor, task in self._running.values():
            reference, share = self._progress.get(actor, (None, 0.0))
            if reference is not None and ray.wait([reference], timeout=0)[0]:
                with suppress(RayError):  # what that means `wait` finds out
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
        """Use what room the cluster has now."""
        self._looked = time.monotonic()
        room = sum(self._room_on(node["Resources"]) for node in ray.nodes() if node["Alive"])
        room = room if self._most is None else min(room, self._most)
        for _ in range(room - len(self._loading) - len(self._idle) - len(self._running)):
            actor = self._actor_class.remote(*self._arguments)
            self._loading[actor.load.remote()] = actor

    def _room_on(self, resources: Mapping[str, float]) -> int:
        """How many actors a machine has the CPUs and GPUs for."""
        needs = {"CPU": self._threads, **({"GPU": self._gpus} if self._gpus else {})}
        return min(int(resources.get(name, 0) // need) for name, need in needs.items())

    def _check_workers(self) -> None:
        """End where there has been no worker for long: nobody may ever come back."""
        now = time.monotonic()
        if self._running or self._idle:
            self._worked = now
        elif now - self._worked > PATIENCE:
            raise OSError(
                f"all workers were lost, and for {PATIENCE:.0f} seconds none could be started; look at the cluster "
                "(ray status), then run the same command again: it does what is missing"
            )

    def _take_in(self, reference: Any) -> None:
        actor = self._loading.pop(reference)
        try:
            ray.get(reference)
        except RayError:  # others work; the machine is looked at again later
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


def _make_portable(spec: ModelSpec) -> ModelSpec:
    """A spec as workers take it, who are in other folders and whom Ray shows only the GPU that is theirs."""

    def whole(name: str) -> str:
        file, colon, function = name.rpartition(":") if is_user_function(name) else (name, "", "")
        # A folder may be called as a network is, or as a package that holds the function.
        is_file = Path(file).exists() and (file.endswith(".py") if colon else not is_network(name))
        return f"{Path(file).absolute()}{colon}{function}" if is_file else name

    return replace(
        spec,
        name=whole(spec.name),
        weights=spec.weights and Path(spec.weights).absolute(),
        network=spec.network and whole(spec.network),
        corrector=spec.corrector if spec.corrector in (None, "none") else whole(spec.corrector),
        device="cuda" if (spec.device or "").startswith("cuda") else spec.device,
    )


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
