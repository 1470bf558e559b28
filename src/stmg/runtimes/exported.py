"""An exported network: graphs in a folder, run by an engine. It needs no PyTorch."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path

import numpy as np

from stmg.errors import ModelError, SettingsError, StmgError, first_line
from stmg.files import path_inside
from stmg.runtimes.engine import Arrays, Engine, Run, describe_engine
from stmg.runtimes.manifest import MANIFEST, read_manifest
from stmg.streaming.cost import Cost
from stmg.streaming.flow import Flow
from stmg.streaming.logits import Array, Foreground, warp_maps
from stmg.streaming.masks import Masks, partial_area
from stmg.streaming.runtime import Output, Runtime
from stmg.streaming.schedulers import Level
from stmg.video.frames import Image, resize_image
from stmg.video.labels import resize_plane


class ExportedRuntime(Runtime):
    """Runs an exported folder at the frame size it was exported for; other sizes are brought to it and back.

    Partial frames run the blocks that were chosen when it was exported, and no others: graphs have no gates.
    """

    one_at_a_time = False
    input_size: tuple[int, int]

    def __init__(
        self, folder: Path, engine: Engine, activation: str | None = None, threshold: float | None = None
    ) -> None:
        self.manifest = read_manifest(folder)
        self.folder, self.engine = folder, engine
        self.one_at_a_time = not engine.is_cpu
        self.input_size = self.manifest.size
        self.num_classes = max(2, self.manifest.num_classes)
        self.foreground = Foreground(activation, threshold)
        self.foreground.check_channels(self.manifest.num_classes)
        self.num_blocks = len(self.manifest.costs.blocks)
        self.fixed_blocks = self.manifest.blocks
        self.has_mask_generator = self.has_partial and "compare" in self.manifest.graphs
        self._full = self._compile("full")
        self._partial = self._compile("partial") if self.has_partial else None
        self._encode = self._compile("encode") if self.has_mask_generator else None
        self._compare = self._compile("compare") if self.has_mask_generator else None
        self._lock = threading.Lock()
        self._for_throughput: ExportedRuntime | None = None
        if self.manifest.num_classes == 1:
            self.find_activation(self.input_size)

    @property
    def description(self) -> str:
        return describe_engine(self.engine)

    @property
    def has_partial(self) -> bool:
        """True if it was exported with partial frames."""
        return self.manifest.blocks is not None

    def for_throughput(self) -> ExportedRuntime:
        if not self.engine.is_cpu:
            return self
        with self._lock:
            if self._for_throughput is None:
                if read_manifest(self.folder).id != self.manifest.id:
                    raise ModelError(f"{self.folder} was exported again since it was loaded; load it again")
                other = copy(self)
                other.copied_from = self
                other.engine = self.engine.for_throughput()
                other._full = other._compile("full")
                self._for_throughput = other
            return self._for_throughput

    def prepare(self, image: Image) -> Image:
        """Convert an image to the graphs' input, (1, H, W, 3) uint8."""
        return np.ascontiguousarray(resize_image(image, self.input_size))[None]

    def encode(self, prepared: Image) -> Array:
        assert self._encode is not None
        encoded: Array = self._encode({"image": prepared})["encoded"]
        return encoded

    def compare(self, before: Array, now: Array, flow: Flow | None) -> Masks:
        assert self._compare is not None
        outputs = self._compare({"before": warp_maps(before[0], flow)[None], "now": now})
        if outputs["changed"].ndim != 4:
            raise ModelError(f"the mask generator of {self.folder} gives no map: export it again")
        assert self.fixed_blocks is not None
        return Masks(self.fixed_blocks, np.ascontiguousarray(outputs["changed"][0, 0], np.float32))

    def full(self, prepared: Image) -> Output:
        return self._output(self._full({"image": prepared}))

    def partial(
        self, prepared: Image, masks: Masks, previous: Sequence[Array], flow: Flow | None, scale: float
    ) -> Output:
        if self._partial is None:
            raise ModelError(
                f"{self.folder} computes whole frames only; for partial ones export it again, with --partial VIDEO"
            )
        if scale != self.manifest.partial_scale:
            scales = f"partial frames at {self.manifest.partial_scale:g}, not {scale:g}"
            raise SettingsError(f"partial_scale: {self.folder} was exported for {scales}; export it again")
        if masks.keep != self.fixed_blocks:
            raise SettingsError(f"pruning: {self.folder} was exported with one set of blocks, and runs no other")
        height, width = previous[0].shape[1:]
        changed = np.ascontiguousarray(resize_plane(masks.changed, (height, width)), np.float32)
        before = {f"before{number}": warp_maps(maps, flow)[None] for number, maps in enumerate(previous)}
        return self._output(self._partial({"image": prepared, "changed": changed[None, None], **before}))

    def cost(
        self, size: tuple[int, int], level: Level, keep: tuple[bool, ...], scale: float, masked: bool
    ) -> Cost | None:
        return self.manifest.costs.of_frame(level, keep, partial_area(self.input_size, scale), masked)

    def _compile(self, name: str) -> Run:
        graph = self.manifest.graphs[name]
        path = path_inside(self.folder, graph.file)
        with _explained(path, "loaded"):
            run = self.engine.compile(path, graph.outputs)

        def run_checked(inputs: Arrays) -> Arrays:
            with _explained(path, "run"):
                arrays = run(inputs)
            missing = [output for output in graph.outputs if output not in arrays]
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
        return Output(logits, [outputs[each][0] for each in features])


@contextmanager
def _explained(path: Path, what: str) -> Iterator[None]:
    """Inside, an error of an engine becomes a line that names the file."""
    try:
        yield
    except (StmgError, MemoryError):
        raise
    except Exception as error:
        raise ModelError(f"{path} cannot be {what}: {first_line(error)}; export it again") from error
