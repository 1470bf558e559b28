"""VideoSegmenter: frames in, labels out, computing again only what changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.errors import FrameError, SettingsError
from stmg.pretrained import Pretrained, open_store
from stmg.runtimes import make_runtime
from stmg.streaming.offline import Offline
from stmg.streaming.online import FrameState, Online
from stmg.streaming.realtime import RealtimeStream
from stmg.streaming.result import FrameResult
from stmg.streaming.runtime import Runtime
from stmg.streaming.schedulers import Level
from stmg.streaming.settings import MODEL, SETTINGS, Mode, Settings, check_mode, make_settings
from stmg.streaming.understanding import Doubts, describe
from stmg.streaming.working_size import ANY_SIZE, choose_size, fit_frame, restore, stream_at_size
from stmg.video.frames import Frame, as_frame, check_color, read_capture
from stmg.video.sources import FrameSource, VideoSource, open_video


def mode_of_source(source: object) -> Mode:
    """The mode of a source where no setting says another."""
    if not isinstance(source, FrameSource):
        return "online"  # its frames may not be there yet
    return "realtime" if source.live else "offline"


def _is_pipeline(network: Any) -> bool:
    """True if this is a transformers pipeline, which is callable but takes files and returns pictures."""
    return hasattr(network, "image_processor") and hasattr(getattr(network, "model", None), "parameters")


def _close_after(results: Iterator[FrameResult], source: VideoSource) -> Iterator[FrameResult]:
    """The results of a source, which is closed after the last one or when no more are wanted."""
    with source, closing(results):  # type: ignore[type-var]
        yield from results


def _copy_frame(frame: Any) -> Any:
    """Copy a frame, so that its producer may reuse its memory."""
    if isinstance(frame, Frame):
        return replace(frame, image=frame.image.copy())
    if isinstance(frame, np.ndarray) or hasattr(frame, "getbands"):  # of PIL
        return frame.copy()
    return frame.clone() if hasattr(frame, "clone") else frame


class VideoSegmenter(Pretrained):
    """Segments one video stream. Several may share one runtime, each with its own state, in threads of their own.

    network: an accelerated network, a plain torch module, a pipeline of transformers, a runtime, or any callable from
        an RGB image to logits.
    settings: settings of the stream; the defaults of `Settings` if not given.
    options: fields of `Settings` by name, instead of those in `settings`; `device` and
        `normalize` are for torch networks.

        segmenter = stmg.VideoSegmenter(network, scheduler="paper", motion="none")  # the paper's, which is online
        for result in segmenter.stream("drive.mp4"):
            result.labels, result.level, result.plot()
    """

    def __init__(self, network: Any, *, settings: Settings | None = None, **options: Any) -> None:
        if _is_pipeline(network):
            network, own_options = open_store().open_pipeline(network, options.pop("device", None))
            settings = settings or make_settings(own_options)
        chosen = make_settings(options, settings)
        for name, each in SETTINGS.items():
            given = name in options or getattr(chosen, name) is not each.default
            if each.group == MODEL and given and name not in ("device", "normalize", "corrector"):
                raise SettingsError(f"{name} is for stmg.load, which opens a model; here the network is given")
        if isinstance(chosen.corrector, str):
            if chosen.corrector != "none":
                raise SettingsError(f"corrector is a folder here ({chosen.corrector}), which stmg.load opens")
            chosen = replace(chosen, corrector=None)
        self.runtime: Runtime = make_runtime(network, chosen.device, chosen.normalize, chosen.size)
        own = self.runtime.input_size
        if own is not None and chosen.size not in (None, own):
            raise SettingsError(f"size: the network computes frames of {own[0]}x{own[1]}, and no other")
        self.settings = replace(
            chosen, device=None, normalize=None, motion=chosen.motion.for_network(lambda: self._count_macs(chosen))
        )
        self.online = Online(self.runtime, self.settings)
        self.state: FrameState | None = None
        self.arguments = tuple(name for name, value in options.items() if value is not None)
        """The settings given by name, which a stream of a mode that does not use them refuses."""
        self._seen_size: tuple[int, int] | None = None
        self._doubts = Doubts(self.runtime, self._name_class)

    def __repr__(self) -> str:
        return f"VideoSegmenter({self.describe()})"

    def describe(self) -> str:
        """Describe in one line how the network is interpreted. What nobody stated is marked as assumed.

        The line is longer after the first frame, since functions and some graph files do not declare their outputs.

            SegFormer: 150 classes, logits at 1/4, ImageNet normalization (assumed), computed at 512x1024
        """
        seen, meant = self._seen_size, self.settings.model_size
        size = self.runtime.input_size or (seen and self.size_for(seen)) or seen or self.settings.size
        if size is None and meant is None:
            return describe(self.runtime, "computed at the size of the frames")
        about = "" if size else "about "
        height, width = size or meant  # type: ignore[misc]
        return describe(self.runtime, f"computed at {about}{height}x{width}")

    @property
    def warnings(self) -> tuple[str, ...]:
        """Problems seen in the first computed frames, one line each. Each was also raised as a Python warning."""
        return tuple(self._doubts.warnings)

    def _look_at(self, result: FrameResult) -> FrameResult:
        if self._seen_size is None:
            self._seen_size = result.image.shape[0], result.image.shape[1]
        self._doubts.look_at(result)
        return result

    def _name_class(self, label: int) -> str:
        names = self.class_names
        return f"{label} ({names[label]})" if label < len(names) else str(label)

    @classmethod
    def from_pretrained(cls, name: str | Path, **options: Any) -> VideoSegmenter:
        """The segmenter of a shipped name, a checkpoint folder, a Hub id or an export, as `stmg.load` gives it."""
        segmenter: VideoSegmenter = open_store().load(name, **options)
        return segmenter

    def step(self, frame: Any, *, color: str = "rgb") -> FrameResult:
        """Segment the next frame of the stream: uint8 as numpy or torch, a PIL image, PyAV frame or `Frame`.

        It is computed at `size_for` its size, as in a stream, and the result has the size of the frame.

        color: rgb, or bgr for an array of OpenCV.
        """
        if self.state is None:
            self._check_step()
        return self._advance(frame, color)

    def _advance(self, frame: Any, color: str = "rgb") -> FrameResult:
        fitted, original = fit_frame(as_frame(frame, color), self.size_for)
        result, self.state = self.online.advance(fitted, self.state)
        return self._look_at(restore(result, original))

    def stream(
        self,
        source: str | Path | int | Iterable[Any],
        *,
        mode: str | None = None,
        executor: Executor | None = None,
        color: str = "rgb",
    ) -> Iterator[FrameResult]:
        """Segment a whole video, from a fresh start. Arguments are checked and the source is opened by this call.

        source: whatever `open_video` takes (a path, a URL, a camera), which is closed at the end or when the results
            are no longer wanted; an open source; a `cv2.VideoCapture`; or any iterable of frames.
        mode: offline, online or realtime; if neither it nor that of the settings is given, online for a scheduler with
            partial frames, offline for files, realtime for live sources, and online for other iterables, whose frames
            may not be there yet.
        executor: runs the network in realtime; streams that share one share its workers.
        color: bgr if the source is an iterable of arrays that OpenCV read; every other source knows its own.
        """
        check_color(color)
        if isinstance(source, cv2.VideoCapture):
            source, color = read_capture(source), "rgb"
        if getattr(source, "ndim", 4) < 4 or hasattr(source, "getbands"):  # of PIL
            raise FrameError("stream takes a video, and this is one frame; use step, or give a list of frames")
        if not isinstance(source, str | Path | int | Iterable):
            raise FrameError(f"stream takes a video or an iterable of frames; got {type(source).__name__}")
        if mode is not None:
            self._check_mode(check_mode(mode), executor)
        if isinstance(source, str | Path | int):
            if color != "rgb":
                raise SettingsError(f"color={color!r} is for arrays of your own; a video file or camera knows its own")
            opened = open_video(source)
            try:
                return _close_after(self.stream(opened, mode=mode, executor=executor), opened)
            except BaseException:
                opened.close()
                raise
        chosen = check_mode(mode or self.settings.choose_mode(mode_of_source(source)))
        self._check_mode(chosen, executor)
        return self._stream(source, chosen, executor, color)

    def _check_mode(self, mode: Mode, executor: Executor | None) -> None:
        self.settings.check_arguments(self.arguments, mode)
        if executor is not None and mode != "realtime":
            raise SettingsError(f"executor is for realtime, where the network runs in the background; mode is {mode}")

    def _check_step(self) -> None:
        """An error for arguments that a frame by itself has no use for."""
        if "mode" in self.arguments and self.settings.mode != "online":
            raise SettingsError(f"step is for online mode, frame by frame; mode is {self.settings.mode}: use stream")
        self.settings.check_arguments(self.arguments, "online")

    def _stream(
        self, source: Iterable[Any], mode: Mode, executor: Executor | None, color: str
    ) -> Iterator[FrameResult]:
        self.reset()
        frames: Iterable[Any] = source
        if color != "rgb":
            frames = (as_frame(frame, color) for frame in source)  # in memory of their own
        elif mode != "online" and not isinstance(source, FrameSource | Sequence):
            frames = map(_copy_frame, source)  # whoever makes the frames may use one buffer for all
        if mode == "offline":
            stream = Offline(self.runtime, self.settings).stream
        elif mode == "realtime":
            stream = RealtimeStream(self.runtime, self.settings, executor).stream
        else:
            return self._step_through(frames)
        return self._look_at_all(stream_at_size(stream, frames, self.size_for))

    def _look_at_all(self, results: Iterator[FrameResult]) -> Iterator[FrameResult]:
        with closing(results):  # type: ignore[type-var]
            yield from map(self._look_at, results)

    def _step_through(self, frames: Iterable[Any]) -> Iterator[FrameResult]:
        self.reset()
        for frame in frames:
            yield self._advance(frame)

    def size_for(self, source_size: tuple[int, int] | None) -> tuple[int, int] | None:
        """(H, W) at which frames of a size are computed; None: as they are.

        Every command asks here: `size_for(video.size) or video.size` is the size that the network sees. It is the size
        that was given; else the only one that the network takes; else as many pixels as the model is meant for, in the
        shape of the source, and never more than the source has; of a network that takes any size, the source's own.
        """
        settings = self.settings
        return choose_size(settings.size, settings.model_size, source_size, self.runtime.input_size)

    def _count_macs(self, settings: Settings) -> int | None:
        """Multiply-accumulates of the whole network at the size it is meant for; None if they cannot be counted."""
        size = settings.size or self.runtime.input_size or settings.model_size or ANY_SIZE
        cost = self.runtime.cost(size, Level.KEY, (True,) * self.runtime.num_blocks, 1.0, masked=False)
        return None if cost is None else cost.macs

    def reset(self) -> None:
        """Forget the stream; the next frame is a key frame."""
        self.state = None

    def another(self, **options: Any) -> VideoSegmenter:
        """A segmenter for another stream, over the same weights, with the same settings but for the options given."""
        return VideoSegmenter(self.runtime, settings=make_settings(options, self.settings))

    @property
    def palette(self) -> NDArray[np.uint8]:
        """(C, 3) RGB colors of the classes."""
        return self.settings.palette

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes; empty if unknown."""
        return self.settings.class_names
