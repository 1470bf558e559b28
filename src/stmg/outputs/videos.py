"""Video files, encoded frame by frame: overlays of labels, the foreground in gray, or any images as H.264."""

from __future__ import annotations

import os
import struct
from abc import abstractmethod
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import av
import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.errors import SettingsError
from stmg.outputs.images import make_alpha
from stmg.outputs.sinks import FileSink
from stmg.streaming.result import FrameResult
from stmg.video.frames import Image, resize_image
from stmg.video.overlay import draw_labels_i420, to_i420


class _VideoFormat(NamedTuple):
    """Encoders and options of a container format."""

    encoders: tuple[str, ...]
    """In order of preference. The first one that this FFmpeg has is used."""
    options: dict[str, str]
    """Options of the container: every few seconds are on disk and playable, even if the process is killed later."""


MAX_STEP_BACK = 1  # seconds; a frame dated further back restarts the clock
LONGEST_GAP = 3600  # seconds between two frames; MP4 cannot show a frame for ten hours, and distorts later times
_MP4 = {"movflags": "frag_keyframe+empty_moov+default_base_moof", "flush_packets": "1"}
FRAGMENT = 1.0  # seconds until encoded frames are on disk and playable; the encoder itself holds back a few frames
_CLUSTERS = {"cluster_time_limit": str(round(1000 * FRAGMENT)), "flush_packets": "1"}
VIDEO_FORMATS = {
    ".mp4": _VideoFormat(("libx264", "mpeg4"), _MP4),
    ".mkv": _VideoFormat(("libx264", "mpeg4"), _CLUSTERS),
    ".webm": _VideoFormat(("libvpx-vp9", "libvpx"), _CLUSTERS),
    ".avi": _VideoFormat(("mpeg4",), {"flush_packets": "1"}),
}
ENCODER_OPTIONS = {
    # Takes a third of the time of `veryfast`, which is as slow as a small network. The file is a quarter larger.
    "libx264": {"preset": "ultrafast", "tune": "zerolatency", "crf": "23"},
    "mpeg4": {"flags": "+qscale", "global_quality": str(4 * 118)},  # FFmpeg counts in units of 1/118
    "libvpx-vp9": {"deadline": "realtime", "cpu-used": "8", "lag-in-frames": "0", "crf": "30", "b": "0"},
    "libvpx": {"deadline": "realtime", "cpu-used": "8", "crf": "20", "b": "4M"},
}


def container_options(path: Path) -> dict[str, str]:
    """FFmpeg's options for the container of a file with this suffix."""
    return VIDEO_FORMATS[path.suffix.lower()].options


class VideoFile(FileSink):
    """A video, in the format of the suffix of `path`.

    Frames keep their own times if they have any; otherwise they come at `fps`. All are resized to the size of the
    first. An odd edge is repeated to make it even. If the process is killed, only the last seconds are lost.
    """

    def __init__(self, path: str | Path, fps: float) -> None:
        super().__init__(path)
        if self.path.suffix.lower() not in VIDEO_FORMATS:
            raise SettingsError(f"{path}: a video ends in {', '.join(VIDEO_FORMATS)}")
        if not 0.001 <= fps <= 1000:
            raise SettingsError(f"fps is from 0.001 to 1000; got {fps=}")
        self._format = VIDEO_FORMATS[self.path.suffix.lower()]
        self._encoder = next(filter(_can_encode, self._format.encoders), None)
        if self._encoder is None:
            raise SettingsError(f"{path}: this FFmpeg lacks {' and '.join(self._format.encoders)}; try .mp4 or .avi")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # MPEG-4 has at most 65535 ticks per second. AVI can only store whole frames.
        self._rate = Fraction(fps).limit_denominator(min(1001, int(60000 / fps)))
        self._tick = 1 / self._rate if self.path.suffix.lower() == ".avi" else Fraction(1, 60000)
        self._container: Any = None
        self._stream: Any = None
        self._size = (0, 0)
        self._begun: float | None = None
        self._last = -1

    @abstractmethod
    def _draw(self, result: FrameResult) -> Image:
        """The picture of a result, (H, W, 3) RGB."""

    def _write(self, result: FrameResult) -> None:
        if self._container is None:
            self._begin(*result.image.shape[:2])
        frame = av.VideoFrame.from_ndarray(self._draw_planes(result), format="yuv420p")
        frame.pts, frame.time_base = self._next_timestamp(result.time), self._tick
        self._container.mux(self._stream.encode(frame))

    def _draw_planes(self, result: FrameResult) -> NDArray[np.uint8]:
        """The picture at the size of the video, an odd edge repeated, as YUV planes."""
        image = resize_image(self._draw(result), self._size)
        odd = image.shape[0] % 2, image.shape[1] % 2
        if any(odd):
            image = cv2.copyMakeBorder(image, 0, odd[0], 0, odd[1], cv2.BORDER_REPLICATE)
        return to_i420(image)

    def _begin(self, height: int, width: int) -> None:
        """Open the file at the first frame, so that a run without frames leaves no broken file."""
        self._size = (height, width)
        self._container = av.open(str(self.path.absolute()), "w", options=self._format.options)
        self._stream = self._container.add_stream(self._encoder, rate=self._rate)
        self._stream.options = ENCODER_OPTIONS[str(self._encoder)]
        self._stream.width, self._stream.height = width + width % 2, height + height % 2
        self._stream.pix_fmt = "yuv420p"
        coder = self._stream.codec_context
        coder.time_base, coder.thread_count = self._tick, 2
        coder.gop_size, coder.max_b_frames = max(1, round(FRAGMENT * self._rate)), 0

    def _next_timestamp(self, time: float | None) -> int:
        """Timestamp in ticks, always increasing: the frame's own time if it continues the last, else one frame later.

        After a reopened source or in joined files, times may restart, earlier or far later.
        """
        following = 0 if self._last < 0 else self._last + max(1, round(1 / (self._rate * self._tick)))
        if time is None:
            wanted = following
        else:
            self._begun = time - float(following * self._tick) if self._begun is None else self._begun
            wanted = round((time - self._begun) / self._tick)
            if not -MAX_STEP_BACK <= (wanted - self._last) * self._tick <= LONGEST_GAP:
                self._begun, wanted = time - float(following * self._tick), following
        self._last = wanted if wanted > self._last else following
        return self._last

    def _finish(self) -> None:
        if self._container is not None:
            container, self._container = self._container, None
            try:
                container.mux(self._stream.encode(None))
            finally:
                try:
                    container.close()
                finally:
                    if self.path.suffix.lower() == ".mp4" and self.path.is_file():
                        drop_broken_header(self.path)


class OverlayVideo(VideoFile):
    """Frames with their labels drawn over them."""

    def __init__(self, path: str | Path, fps: float, opacity: float = 0.5) -> None:
        super().__init__(path, fps)
        if not 0 <= opacity <= 1:
            raise SettingsError(f"opacity is from 0 to 1; got {opacity=}")
        self.opacity = opacity

    def _draw(self, result: FrameResult) -> Image:
        return result.plot(self.opacity)

    def _draw_planes(self, result: FrameResult) -> NDArray[np.uint8]:
        size = result.image.shape[:2]
        if size != self._size or size[0] % 2 or size[1] % 2:
            return super()._draw_planes(result)
        return draw_labels_i420(result.image, result.labels, result.palette, self.opacity)


class AlphaVideo(VideoFile):
    """The probability of the foreground in gray, black to white."""

    def _draw(self, result: FrameResult) -> Image:
        gray: Image = cv2.cvtColor(make_alpha(result), cv2.COLOR_GRAY2RGB)
        return gray


def write_h264(path: Path, images: Iterable[Image], fps: float, quality: int) -> None:
    """Write RGB images of one size with even sides. The same images always give the same file.

    quality: x264's constant rate factor. 16 looks like the images, 23 makes a small file.
    """
    with av.open(str(path), "w") as container:
        rate = Fraction(fps).limit_denominator(1001)
        # With macroblock trees x264 writes a different file each time.
        stream = container.add_stream("libx264", rate=rate, options={"crf": str(quality), "mbtree": "0"})
        for number, image in enumerate(images):
            if number == 0:
                stream.height, stream.width, stream.pix_fmt = *image.shape[:2], "yuv420p"
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))


def drop_broken_header(path: Path) -> None:
    """Cut off an incomplete header that a full disk left at the end of an MP4. FFmpeg would not open the file."""
    with path.open("r+b") as file:
        end, start = file.seek(0, os.SEEK_END), 0
        while start + 8 <= end:
            file.seek(start)
            size, kind = struct.unpack(">I4s", file.read(8))
            if size < 8 or start + size > end:
                break
            start += size
        else:
            kind = b""
        if start < end and kind != b"mdat":  # incomplete media data still plays
            file.truncate(start)


def _can_encode(name: str) -> bool:
    try:
        return bool(av.codec.Codec(name, "w"))
    except av.codec.codec.UnknownCodecError:
        return False
