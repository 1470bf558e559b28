"""An exported network: graphs in a folder, run by an engine. It needs no PyTorch."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
import warnings
from collections import OrderedDict
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np

from stmg.card import Card, card_from
from stmg.cost import Costs
from stmg.frames import Image
from stmg.machine import processor
from stmg.motion import Field
from stmg.runtimes import Output
from stmg.runtimes.arrays import Array, fused, moved, resized
from stmg.runtimes.engines import Engine, Pair, Run
from stmg.runtimes.labels import labels_of
from stmg.scheduler import Level
from stmg.state import Cost, Labels, Map, Masks

DESCRIPTION = "export.json"
FORMAT = 1
PATTERNS = 8  # compiled patterns of open blocks that are kept, in memory and on disk
MISSED = 64  # patterns that are remembered as missing
CACHE = 2 << 30  # bytes that what is compiled may take on disk; beyond, the exports that were used longest ago go

Pattern = tuple[bool, ...]


class Graph(NamedTuple):
    """A file of the export."""

    file: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Prepared(NamedTuple):
    """An image as the graphs want it, (1, H, W, 3) uint8."""

    image: Image


class ExportedRuntime:
    """Runs an exported folder at the frame size it was exported for; other sizes are brought to it and back.

    Blocks are left out of a graph before it is compiled: one compiled graph for each pattern of open blocks. A new
    pattern is compiled in the background, and until it is there one that opens at least the same blocks stands in.
    """

    def __init__(self, folder: Path, engine: Engine, patterns: int = PATTERNS) -> None:
        if patterns < 2:
            raise ValueError(f"at least 2 patterns are kept, that of all blocks and one more; got {patterns}")
        self._stamps = stamps(folder)
        described = read_description(folder)
        self.folder, self.engine = folder, engine
        self.size: tuple[int, int] = tuple(described["size"])
        self.card: Card = card_from(described["card"])
        costs: dict[str, Any] = described["costs"]
        self.costs = Costs(**{**costs, "blocks": tuple(costs["blocks"]), "block_params": tuple(costs["block_params"])})
        self._graphs = {name: Graph(**graph) for name, graph in described["graphs"].items()}
        self._pairs = [Pair(*pair) for pair in described["pairs"]]
        self.num_blocks = len(self.costs.blocks)
        self.has_mask_generator = "compare" in self._graphs
        self.notes: tuple[str, ...] = ()
        self._cache = cache_folder(folder, engine, patterns)
        self._full = self._compiled("full")
        self._encode = self._compiled("encode") if self.has_mask_generator else None
        self._compare = self._compiled("compare") if self.has_mask_generator else None
        self._most = patterns
        self._patterns: _Patterns | None = None
        self._first = threading.Lock()
        self.waits = False
        """Whether a frame waits for its pattern: to measure, not to run."""

    @property
    def has_partial(self) -> bool:
        return "partial" in self._graphs

    def expect_partial(self) -> None:
        with self._first:
            if self._patterns is None and self.has_partial:
                self._patterns = _Patterns(self, self._most)

    def prepare(self, image: Image) -> Prepared:
        if image.shape[:2] != self.size:
            image = cv2.resize(image, self.size[::-1], interpolation=cv2.INTER_AREA)
        return Prepared(np.ascontiguousarray(image)[None])

    def encode(self, prepared: Prepared) -> Array:
        assert self._encode is not None
        encoded: Array = self._encode({"image": prepared.image})["encoded"]
        return encoded

    def compare(self, before: Array, now: Array, path: Field | None) -> Masks:
        assert self._compare is not None
        found = self._compare({"before": moved(before[0], path)[None], "now": now})
        keep = tuple(bool(value > 0.5) for value in found["keep"].reshape(-1))
        return Masks(keep, np.ascontiguousarray(found["changed"][0, 0], np.float32))

    def full(self, prepared: Prepared) -> Output:
        return self._output(self._full({"image": prepared.image}))

    def partial(self, prepared: Prepared, masks: Masks, previous: Any, path: Field | None, scale: float) -> Output:
        self.expect_partial()
        if self._patterns is None:
            raise ValueError(f"{self.folder} was exported without partial frames: it has no blocks to skip")
        if scale != self.card.partial_scale:
            asked = f"partial frames at {self.card.partial_scale:g}, not {scale:g}"
            raise ValueError(f"{self.folder} was exported for {asked}: export it again")
        height, width = previous[0].shape[1:]
        changed = np.ascontiguousarray(resized(masks.changed, (height, width)), np.float32)
        before = {f"before{number}": moved(maps, path)[None] for number, maps in enumerate(previous)}
        if self.waits:
            self._patterns.wait(masks.keep)
        run, keep = self._patterns.ready(masks.keep)
        output = self._output(run({"image": prepared.image, "changed": changed[None, None], **before}))
        return output._replace(keep=keep)

    def fused(self, now: Array, before: Array, path: Field | None, share: Map) -> Array:
        return fused(now, before, path, share)

    def labels(self, scores: Array, size: tuple[int, int]) -> Labels:
        return labels_of(scores, size)

    def cost(self, size: tuple[int, int], level: Level, keep: tuple[bool, ...], scale: float, masked: bool) -> Cost:
        return self.costs.of_frame(level, keep, scale, masked)

    def pattern_graph(self, keep: Pattern) -> Run:
        """The graph of partial frames with the closed blocks left out, compiled."""
        if stamps(self.folder) != self._stamps:
            raise RuntimeError(f"{self.folder} was exported again since it was loaded")
        closed = [pair for pair in self._pairs if not keep[pair.block]]
        return self._compiled("partial", closed, None if self._cache is None else self.pattern_file(keep))

    def pattern_file(self, keep: Pattern) -> Path:
        """Where a compiled pattern is kept: a compiled graph is for one machine and one version, an export is not."""
        bits = "".join("1" if kept else "0" for kept in keep) or "all"
        return (self._cache or self.folder) / f"{bits}.{self.engine.ending}"

    def _compiled(self, name: str, closed: list[Pair] | None = None, kept: Path | None = None) -> Run:
        graph = self._graphs[name]
        taps = {pair.given for pair in self._pairs} | {pair.skipped for pair in self._pairs}
        outputs = tuple(output for output in graph.outputs if output not in taps)
        return self.engine.compile(self.folder / graph.file, closed or (), outputs, kept)

    def _output(self, found: dict[str, Any]) -> Output:
        features = [found[name][0] for name in self._graphs["full"].outputs[1:]]
        return Output(features, np.ascontiguousarray(found["scores"][0], np.float32))


class _Patterns:
    """Compiled patterns of open blocks, the least recently used of them let go; safe to share between threads.

    A thread compiles what is missing, and ends when nothing is; only the newest that is missing counts, and only if it
    was wanted before: what comes once may never come again.
    """

    def __init__(self, runtime: ExportedRuntime, most: int) -> None:
        self._runtime, self._most = runtime, most
        self._all = (True,) * runtime.num_blocks
        self._ready: OrderedDict[Pattern, Run] = OrderedDict({self._all: runtime.pattern_graph(self._all)})
        self._failed: set[Pattern] = set()
        self._missed: OrderedDict[Pattern, None] = OrderedDict()
        self._wanted: Pattern | None = None
        self._changed = threading.Condition()
        self._compiling = False

    def ready(self, keep: Pattern) -> tuple[Run, Pattern]:
        """The compiled pattern, or the cheapest that opens at least the same blocks while it is being compiled."""
        with self._changed:
            if keep not in self._ready and keep not in self._failed:
                if keep in self._missed:
                    self._want(keep)
                self._missed[keep] = None
                while len(self._missed) > MISSED:
                    self._missed.popitem(last=False)
            wider = [other for other in self._ready if all(b or not a for a, b in zip(keep, other, strict=True))]
            found = min(wider, key=sum)
            self._ready.move_to_end(found)
            return self._ready[found], found

    def wait(self, keep: Pattern) -> None:
        """Until a pattern is compiled, or cannot be."""
        with self._changed:
            while keep not in self._ready and keep not in self._failed:
                self._want(keep)
                self._changed.wait()

    def _want(self, keep: Pattern) -> None:
        self._wanted = keep
        if not self._compiling:
            self._compiling = True
            # No daemon: a compiler that is killed half-way takes the process down with it.
            threading.Thread(target=self._compile, name="stmg-compile").start()

    def _compile(self) -> None:
        while True:
            with self._changed:
                keep, self._wanted = self._wanted, None
                if keep is None or keep in self._ready:
                    self._compiling = False
                    self._changed.notify_all()
                    return
            run: Run | None = None
            try:
                run = self._runtime.pattern_graph(keep)
            except Exception as error:  # whatever an engine raises: a wider pattern goes on standing in
                reason = (str(error).splitlines() or [type(error).__name__])[0]
                warnings.warn(f"a pattern of blocks is not compiled, a wider one stands in: {reason}", stacklevel=1)
            with self._changed:
                self._missed.pop(keep, None)
                if run is None:
                    self._failed.add(keep)
                else:
                    self._ready[keep] = run
                    self._let_go()
                self._changed.notify_all()

    def _let_go(self) -> None:
        while len(self._ready) > self._most:
            oldest = next(pattern for pattern in self._ready if pattern != self._all)
            del self._ready[oldest]
            with suppress(OSError):
                self._runtime.pattern_file(oldest).unlink(missing_ok=True)


def stamps(folder: Path) -> list[str]:
    """What changes when an export is written anew."""
    return [f"{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in sorted(folder.glob("*.*"))]


def cache_folder(folder: Path, engine: Engine, most: int) -> Path | None:
    """Where what is compiled from an export is kept between runs, tidied; None where nothing can be kept."""
    try:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stmg"
        runs = [engine.name, engine.version, engine.where, str(engine.threads), processor(), version("stmg")]
        described = "\n".join([*runs, (folder / DESCRIPTION).read_text(), *stamps(folder)])
        own = root / hashlib.sha256(described.encode()).hexdigest()[:24]
        if own.is_dir():
            os.utime(own)
        kept = sorted(own.glob("*"), key=lambda path: path.stat().st_mtime)
        for path in kept[: max(0, len(kept) - most)]:
            path.unlink(missing_ok=True)
        taken = 0
        for each in sorted(root.glob("*/"), key=lambda path: path.stat().st_mtime, reverse=True):
            taken += sum(path.stat().st_size for path in each.glob("*"))
            if taken > CACHE and each != own:
                shutil.rmtree(each, ignore_errors=True)
    except (OSError, RuntimeError, PackageNotFoundError):
        return None
    return own


def read_description(folder: Path) -> dict[str, Any]:
    """What an export is, or an error that says what is wrong with it."""
    path = folder / DESCRIPTION
    try:
        described: dict[str, Any] = json.loads(path.read_text())
    except OSError as error:
        raise ValueError(f"{folder} is no export: {error.strerror}: {DESCRIPTION}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    if described.get("format") != FORMAT:
        raise ValueError(f"{path} has another format than {FORMAT}: it needs another version of stmg")
    for graph in described["graphs"].values():
        if not (folder / graph["file"]).is_file():
            raise ValueError(f"{folder} lacks {graph['file']}: export it again")
    return described
