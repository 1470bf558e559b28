"""An exported network: graphs in a folder, run by an engine. It needs no PyTorch."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from pathlib import Path

import numpy as np

from stmg.errors import ModelError, SettingsError, StmgError, first_line
from stmg.files import path_inside
from stmg.runtimes.arrays import Array, fuse_logits, warp_maps
from stmg.runtimes.engine import Arrays, Engine, Pair, Run, describe_engine
from stmg.runtimes.labels import Foreground
from stmg.runtimes.manifest import MANIFEST, read_manifest
from stmg.runtimes.patterns import (
    PATTERNS,
    Pattern,
    PatternCache,
    content_digest,
    disk_cache,
    file_stamps,
    note_origin,
)
from stmg.streaming.cost import Cost
from stmg.streaming.flow import Flow, Map
from stmg.streaming.masks import Masks, partial_area
from stmg.streaming.runtime import Output
from stmg.streaming.schedulers import Level
from stmg.video.frames import Image, resize_image
from stmg.video.labels import Labels, resize_plane


class ExportedRuntime:
    """Runs an exported folder at the frame size it was exported for; other sizes are brought to it and back.

    Blocks are left out of a graph before it is compiled: one compiled graph for each pattern of open blocks. A new
    pattern is compiled in the background, and until it is there one that opens at least the same blocks stands in.
    """

    one_at_a_time = False
    notes: tuple[str, ...] = ()

    def __init__(
        self,
        folder: Path,
        engine: Engine,
        patterns: int = PATTERNS,
        activation: str | None = None,
        threshold: float | None = None,
    ) -> None:
        if patterns < 2:
            raise SettingsError(f"patterns is at least 2, that of all blocks and one more; got {patterns}")
        self._stamps = file_stamps(folder)
        self.manifest = read_manifest(folder)
        self.folder, self.engine = folder, engine
        self.input_size = self.manifest.size
        self.num_classes = max(2, self.manifest.num_classes)
        self.foreground = Foreground(activation, threshold)
        self.foreground.check_channels(self.manifest.num_classes)
        self.num_blocks = len(self.manifest.costs.blocks)
        self.has_mask_generator = "compare" in self.manifest.graphs
        self._content = content_digest(folder)
        self._disk = disk_cache(folder, engine, patterns, self._content)
        self._full = self._compile("full")
        self._encode = self._compile("encode") if self.has_mask_generator else None
        self._compare = self._compile("compare") if self.has_mask_generator else None
        self._capacity = patterns
        self._patterns: PatternCache | None = None
        self._lock = threading.Lock()
        self._exact = 0
        self._for_throughput: ExportedRuntime | None = None

    @property
    def description(self) -> str:
        return describe_engine(self.engine)

    @property
    def threshold(self) -> float:
        return self.foreground.threshold

    @property
    def has_partial(self) -> bool:
        """Whether there is a graph of partial frames."""
        return "partial" in self.manifest.graphs

    def expect_partial(self) -> None:
        with self._lock:
            if self._patterns is None and self.has_partial:
                self._patterns = PatternCache(
                    self.num_blocks,
                    self._capacity,
                    compile=lambda keep: self.compile_pattern(keep),
                    discard=self._discard,
                )

    def for_throughput(self) -> ExportedRuntime:
        with self._lock:
            if self._for_throughput is None:
                other = copy(self)
                other.engine = self.engine.for_throughput()
                other._full = other._compile("full")
                self._for_throughput = other
            return self._for_throughput

    def begin_worker(self) -> None:
        """The engine that `for_throughput` compiles for has its own threads."""

    @contextmanager
    def exact_patterns(self) -> Iterator[None]:
        with self._lock:
            self._exact += 1
        try:
            yield
        finally:
            with self._lock:
                self._exact -= 1

    def prepare(self, image: Image) -> Image:
        """The image as the graphs take it, (1, H, W, 3) uint8."""
        return np.ascontiguousarray(resize_image(image, self.input_size))[None]

    def encode(self, prepared: Image) -> Array:
        assert self._encode is not None
        encoded: Array = self._encode({"image": prepared})["encoded"]
        return encoded

    def compare(self, before: Array, now: Array, flow: Flow | None) -> Masks:
        assert self._compare is not None
        outputs = self._compare({"before": warp_maps(before[0], flow)[None], "now": now})
        keep = tuple(bool(value > 0.5) for value in outputs["keep"].reshape(-1))
        if len(keep) != self.num_blocks or outputs["changed"].ndim != 4:
            raise ModelError(
                f"the mask generator of {self.folder} is not for its {self.num_blocks} blocks: export again"
            )
        return Masks(keep, np.ascontiguousarray(outputs["changed"][0, 0], np.float32))

    def full(self, prepared: Image) -> Output:
        return self._output(self._full({"image": prepared}))

    def partial(
        self, prepared: Image, masks: Masks, previous: Sequence[Array], flow: Flow | None, scale: float
    ) -> Output:
        self.expect_partial()
        if self._patterns is None:
            raise ModelError(f"{self.folder} was exported without partial frames: it has no blocks to skip")
        if scale != self.manifest.partial_scale:
            scales = f"partial frames at {self.manifest.partial_scale:g}, not {scale:g}"
            raise SettingsError(f"partial_scale: {self.folder} was exported for {scales}; export it again")
        height, width = previous[0].shape[1:]
        changed = np.ascontiguousarray(resize_plane(masks.changed, (height, width)), np.float32)
        before = {f"before{number}": warp_maps(maps, flow)[None] for number, maps in enumerate(previous)}
        if self._exact:
            run, keep = self._patterns.get_exact(masks.keep), masks.keep
        else:
            run, keep = self._patterns.get(masks.keep)
        output = self._output(run({"image": prepared, "changed": changed[None, None], **before}))
        return output._replace(keep=keep)

    def fuse(self, now: Array, before: Array, flow: Flow | None, share: Map) -> Array:
        return fuse_logits(now, before, flow, share)

    def labels(self, logits: Array, size: tuple[int, int]) -> Labels:
        return self.foreground.labels(logits, size)

    def probability(self, logits: Array, size: tuple[int, int]) -> Map | None:
        return self.foreground.probability(logits, size)

    def logits_array(self, logits: Array) -> Array:
        return np.ascontiguousarray(logits.transpose(1, 2, 0))

    def cost(
        self, size: tuple[int, int], level: Level, keep: tuple[bool, ...], scale: float, masked: bool
    ) -> Cost | None:
        return self.manifest.costs.of_frame(level, keep, partial_area(self.input_size, scale), masked)

    def compile_pattern(self, keep: Pattern) -> Run:
        """The graph of partial frames without the closed blocks."""
        if file_stamps(self.folder) != self._stamps:
            raise ModelError(f"{self.folder} was exported again since it was loaded")
        closed = [pair for pair in self.manifest.pairs if not keep[pair.block]]
        run = self._compile("partial", closed, self._pattern_file(keep))
        if self._disk is not None:
            note_origin(self._disk, self.folder, self._content)
        return run

    def _pattern_file(self, keep: Pattern) -> Path | None:
        """The file of a compiled pattern; None where none can be written."""
        bits = "".join("1" if kept else "0" for kept in keep) or "all"
        return None if self._disk is None else self._disk / f"{bits}{self.engine.suffix}"

    def _discard(self, keep: Pattern) -> None:
        file = self._pattern_file(keep)
        if file is not None:
            with suppress(OSError):
                file.unlink(missing_ok=True)

    def _compile(self, name: str, closed: Sequence[Pair] = (), cached: Path | None = None) -> Run:
        graph = self.manifest.graphs[name]
        taps = {tensor for pair in self.manifest.pairs for tensor in (pair.given, pair.skipped)}
        outputs = tuple(output for output in graph.outputs if output not in taps)
        path = path_inside(self.folder, graph.file)
        with _explained(path, "loaded"):
            run = self.engine.compile(path, closed, outputs, cached)

        def run_checked(inputs: Arrays) -> Arrays:
            with _explained(path, "run"):
                arrays = run(inputs)
            missing = [output for output in outputs if output not in arrays]
            if missing:
                raise ModelError(f"{path} does not give {missing[0]}, as {MANIFEST} says: export it again")
            return arrays

        return run_checked

    def _output(self, outputs: Arrays) -> Output:
        name, *features = self.manifest.graphs["full"].outputs
        for each in (name, *features):
            if outputs[each].ndim != 4 or outputs[each].dtype.kind != "f":
                raise ModelError(f"{each} of {self.folder} is no map of floats (1, C, h, w): export it again")
        logits = np.ascontiguousarray(outputs[name][0], np.float32)
        if len(logits) != self.manifest.num_classes:
            classes = f"{len(logits)} classes, not the {self.manifest.num_classes} of {MANIFEST}"
            raise ModelError(f"{self.folder} gives {classes}: export it again")
        return Output([outputs[each][0] for each in features], logits)


@contextmanager
def _explained(path: Path, what: str) -> Iterator[None]:
    """Whatever an engine raises over a graph, in a line that names its file."""
    try:
        yield
    except (StmgError, MemoryError):
        raise
    except Exception as error:
        raise ModelError(f"{path} cannot be {what}: {first_line(error)}; export it again") from error
