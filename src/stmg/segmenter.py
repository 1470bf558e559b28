"""VideoSegmenter: frames in, labels out, computing again only what changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stmg.errors import FrameError, SettingsError
from stmg.gating.pretrained import Pretrained, checkpoints
from stmg.runtimes import make_runtime
from stmg.streaming.offline import Offline
from stmg.streaming.online import Online
from stmg.streaming.realtime import Realtime
from stmg.streaming.runtime import Runtime
from stmg.streaming.schedulers import Level
from stmg.streaming.settings import StreamSettings, check_mode, make_settings
from stmg.streaming.state import FrameResult, FrameState
from stmg.streaming.working_size import choose_size, restore, shrink_timed, stream_at_size
from stmg.video.frames import Frame, as_frame
from stmg.video.sources import FrameSource, open_video

ANY_SIZE = (360, 480)
"""Where a network of any size is counted."""


def default_mode(source: object) -> str:
    """How a source is streamed if nothing is said: a file is there as a whole, a live source is not waited for."""
    if not isinstance(source, FrameSource):
        return "online"
    return "realtime" if source.live else "offline"


def _copy(frame: Any) -> Any:
    """A frame that stays as it is when the memory it came in is written to again."""
    if isinstance(frame, Frame):
        return replace(frame, image=frame.image.copy())
    if isinstance(frame, np.ndarray):
        return frame.copy()
    return frame.clone() if hasattr(frame, "clone") else frame


class VideoSegmenter(Pretrained):
    """Segments one video stream. Several may share one runtime, each with its own state, in threads of their own.

    network: an accelerated network, a plain torch module, a runtime, or any callable from an RGB image to logits.
    device: of a torch network; a GPU if there is one and none is given.
    settings: how the stream is segmented; the defaults of `StreamSettings` if not given.
    options: any field of `StreamSettings`, instead of the one in `settings`.

        segmenter = stmg.VideoSegmenter(network, scheduler="paper", motion="none")  # the paper's, which is online
        for result in segmenter.stream("drive.mp4", mode="online"):
            result.labels, result.level, result.plot()
    """

    def __init__(
        self, network: Any, *, device: str | None = None, settings: StreamSettings | None = None, **options: Any
    ) -> None:
        self.runtime: Runtime = make_runtime(network, device)
        self.settings = make_settings(options, settings)
        self.settings = replace(self.settings, motion=self.settings.motion.for_network(self._count_macs))
        self.online = Online(self.runtime, self.settings)
        self.state: FrameState | None = None
        self.num_frames = 0

    @classmethod
    def from_pretrained(cls, name: str | Path, **options: Any) -> VideoSegmenter:
        """The segmenter of a shipped name, a checkpoint folder, a Hub id or an export, as `stmg.load` gives it."""
        segmenter: VideoSegmenter = checkpoints("resolve").load(name, **options)
        return segmenter

    def step(self, frame: Any) -> FrameResult:
        """Segment the next frame of the stream: RGB uint8 as numpy, torch, PyAV frame or `Frame`."""
        size, given = self.settings.working_size, None
        if size is not None:
            frame, given = shrink_timed(as_frame(frame), size)
        result, self.state = self.online.advance(frame, self.state, self.num_frames)
        self.num_frames += 1
        return result if given is None else restore(result, given)

    def stream(
        self, source: str | Path | int | Iterable[Any], *, mode: str | None = None, executor: Executor | None = None
    ) -> Iterator[FrameResult]:
        """Segment a whole video, from a fresh start.

        source: whatever `open_video` takes (a path, a URL, a camera), which is closed at the end or when the results
            are no longer wanted; an open source; or any iterable of frames.
        mode: offline, online or realtime; if neither it nor that of the settings is given, offline for files, realtime
            for live sources, and online for other iterables, whose frames may not be there yet.
        executor: runs the network in realtime; streams that share one share its workers.
        """
        if mode is not None:
            check_mode(mode)
        if isinstance(source, str | Path | int):
            with closing(open_video(source)) as opened:
                yield from self.stream(opened, mode=mode, executor=executor)
            return
        if getattr(source, "ndim", 4) < 4:
            raise FrameError("stream takes a video, and this is one frame; use step, or give a list of frames")
        mode = mode or self.settings.mode or default_mode(source)
        if executor is not None and mode != "realtime":
            raise SettingsError(f"executor is for realtime, where the network runs in the background; mode is {mode}")
        self.reset()
        frames: Iterable[Any] = source
        size = self.settings.working_size
        if isinstance(source, FrameSource):
            if self.size_for(source.size) != size:
                sized = self.another(working_size=self.size_for(source.size))
                yield from sized.stream(source, mode=mode, executor=executor)
                return
        elif mode != "online" and not isinstance(source, Sequence):
            frames = map(_copy, source)  # whoever makes the frames may use one buffer for all
        if mode == "offline":
            yield from stream_at_size(Offline(self.runtime, self.settings).stream, frames, size)
        elif mode == "realtime":
            yield from stream_at_size(Realtime(self.runtime, self.settings, executor).stream, frames, size)
        else:
            for frame in frames:
                yield self.step(frame)

    def size_for(self, source_size: tuple[int, int] | None) -> tuple[int, int] | None:
        """(H, W) at which a video of this size is computed; None: at its own."""
        settings = self.settings
        return choose_size(settings.working_size, settings.own_size, source_size, self.runtime.input_size)

    def _count_macs(self) -> int | None:
        """Multiply-accumulates of the whole network at the size it is meant for; None where they cannot be counted."""
        size = self.settings.working_size or self.runtime.input_size or self.settings.own_size or ANY_SIZE
        cost = self.runtime.cost(size, Level.KEY, (True,) * self.runtime.num_blocks, 1.0, masked=False)
        return None if cost is None else cost.macs

    def reset(self) -> None:
        """Forget the stream; the next frame is a key frame."""
        self.state = None
        self.num_frames = 0

    def another(self, **options: Any) -> VideoSegmenter:
        """A segmenter for another stream, over the same weights, with the same settings but for the options given."""
        return VideoSegmenter(self.runtime, settings=self.settings, **options)

    @property
    def palette(self) -> NDArray[np.uint8]:
        """(C, 3) RGB colors of the classes."""
        return self.settings.palette

    @property
    def class_names(self) -> tuple[str, ...]:
        """What the classes are called; empty if unknown."""
        return self.settings.class_names
