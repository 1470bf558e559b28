"""Decoding with FFmpeg: files, URLs and standard input as upright RGB images."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Generator, Iterator
from contextlib import nullcontext
from typing import Any

import av
from av.video.reformatter import VideoReformatter

from stmg.errors import SourceLostError, VideoError
from stmg.video import opening
from stmg.video.frames import MAX_FILE_PIXELS, Frame, Image, quarter_turns, turn_upright
from stmg.video.opening import Pipe, open_container
from stmg.video.readers import Reader, check_rate

LIVE_SCHEMES = ("rtsp", "rtsps", "rtp", "rtmp", "rtmps", "udp", "srt", "tcp")
LONGEST_WAIT = 30.0  # seconds between attempts to reopen a live source


class Container(Reader):
    """A file, URL or pipe, read by FFmpeg. `fps` is used if it declares no rate."""

    def __init__(self, name: str, source: Any, retries: int = 0, fps: float | None = None) -> None:
        super().__init__(name)
        if isinstance(source, Pipe):
            source.stopped = self.stopped
        self._source, self._retries = source, retries
        self._scheme = source.partition("://")[0].lower() if isinstance(source, str) and "://" in source else ""
        self._container, self._stream = self._open()
        from_web = self._scheme in ("http", "https")
        self.live = self._scheme in LIVE_SCHEMES or (from_web and _is_endless(self._container))
        self.fps = read_rate(self._stream) or fps
        self._seconds = None if self.live else _read_duration(self._container, self._stream)
        # If only the container has a duration, it is that of its longest stream, which may be the sound.
        self._end = None if self.live or self._seconds else _container_end(self._container)
        self._reached = 0.0
        seconds = self._seconds or _container_duration(self._container)
        estimate = round(seconds * self.fps) if seconds and self.fps else None
        self.num_frames = None if self.live else self._stream.frames or estimate
        height, width = self._stream.codec_context.height, self._stream.codec_context.width
        # A pipe cannot be read twice, so use its coded size.
        turns = _probe_turns(source) if isinstance(source, str) and os.path.isfile(source) else 0
        self.size = ((width, height) if turns % 2 else (height, width)) if height and width else None
        self._skipped = self._patched = 0
        self._longest_packet = 0.0
        self._ending = ""

    def frames(self, every: int) -> Generator[Frame]:
        index, failures = -1, 0
        clock, reformatter = _Clock(), VideoReformatter()
        while True:
            for picture in self._pictures():
                index, failures = index + 1, 0
                stamp = picture.pts if picture.pts is not None else picture.dts
                moment = None if stamp is None else clock.read(float(stamp * self._stream.time_base))
                if index % every == 0:
                    yield Frame(to_upright_rgb(picture, reformatter), index, moment)
            if self.stopped.is_set():
                return
            if not self.live:
                break
            failures += 1
            if failures > self._retries:
                lost = VideoError if index < 0 else SourceLostError
                attempts = f"; {self._retries} attempts to open it again failed" if self._retries else ""
                raise lost(f"{self.name} broke off{attempts}")
            if self.stopped.wait(min(LONGEST_WAIT, 2 ** (failures - 1))):
                return
            self._open_again()
            clock.resume()
        if index < 0:
            raise VideoError(f"{self.name} holds no frame that can be decoded; check that it is complete")
        # The last frame has a duration too. At a varying rate it may be that of any other frame, or of its packet. That
        # need not be the last packet, because packets come in decoding order.
        reached, end = (clock.now, self._seconds) if self._seconds else (self._reached, self._end)
        if end and end - reached > max(clock.longest_step, self._longest_packet) + 0.5:
            self._ending = f"it ends after {reached:.1f} of {end:.1f} seconds"
            self._update_damaged()

    def close(self) -> None:
        self._container.close()
        if isinstance(self._source, Pipe):
            self._source.close()

    def _open(self) -> tuple[Any, Any]:
        options = {"rtsp_transport": "tcp"} if self._scheme.startswith("rtsp") else {}
        timeout = opening.NETWORK_TIMEOUT if self._scheme else None
        pipe = self._source if isinstance(self._source, Pipe) else None
        try:
            with pipe.opening() if pipe else nullcontext():
                container = open_container(self._source, options, timeout, self.stopped)
        except av.FFmpegError as error:
            if pipe is not None and pipe.silent:
                raise self._silence_error() from None
            advice = "the address and that something is sent" if self._scheme else "that it is a complete video"
            raise VideoError(f"{self.name} cannot be opened ({error.strerror}); check {advice}") from None
        if pipe is not None and pipe.silent:
            container.close()
            raise self._silence_error()
        stream = container.streams.best("video")
        if stream is None or stream.codec_context is None:
            container.close()
            what = "no video stream" if stream is None else "a video stream of an unknown format"
            raise VideoError(f"{self.name} has {what}; give a file with one, like H.264 in mp4")
        height, width = stream.codec_context.height, stream.codec_context.width
        if height * width > MAX_FILE_PIXELS:
            container.close()
            raise VideoError(f"{self.name} claims frames of {height}x{width}, which is too large for a video")
        return container, stream

    def _silence_error(self) -> VideoError:
        seconds = f"{opening.PIPE_TIMEOUT:.0f} seconds"
        return VideoError(f"{self.name} sent nothing for {seconds}; check the sender")

    def _open_again(self) -> None:
        self._container.close()
        try:
            self._container, self._stream = self._open()
        except VideoError:
            self._stream = None  # nothing to read until the next attempt

    def _pictures(self) -> Iterator[Any]:
        """Decoded frames of one connection in display order. Damaged packets are skipped and counted."""
        if self._stream is None:
            return
        decoder = self._stream.codec_context
        decoder.thread_count, decoder.thread_type = 2, "AUTO"
        try:
            # Read all streams if their packets are needed to decide whether the file is complete.
            streams = (self._stream,) if self._end is None else self._container.streams
            for packet in self._container.demux(*streams):
                if self.stopped.is_set():
                    return
                if packet.pts is not None and self._end is not None:
                    self._reached = max(self._reached, float((packet.pts + (packet.duration or 0)) * packet.time_base))
                if packet.stream.index != self._stream.index:
                    continue
                if packet.duration:
                    self._longest_packet = max(self._longest_packet, float(packet.duration * self._stream.time_base))
                yield from self._decode(packet)
        except av.FFmpegError as error:
            self._ending = f"reading broke off ({error.strerror})"
            yield from self._decode(None)

    def _decode(self, packet: Any) -> list[Any]:
        try:
            pictures: list[Any] = self._stream.codec_context.decode(packet)
        except av.FFmpegError:
            pictures = []
            self._skipped += 1
        self._patched += sum(bool(picture.is_corrupt) for picture in pictures)
        self._update_damaged()
        return pictures

    def _update_damaged(self) -> None:
        skipped = (
            f"{self._skipped} damaged packet{'s were' if self._skipped > 1 else ' was'} skipped"
            if self._skipped
            else ""
        )
        patched = f"{self._patched} damaged frames were patched up" if self._patched else ""
        notes = ", ".join(filter(None, (skipped, patched, self._ending)))
        self.damaged = f"{self.name}: {notes}" if notes else None


def to_upright_rgb(picture: Any, reformatter: VideoReformatter | None = None) -> Image:
    """Convert a picture decoded by PyAV to upright RGB (H, W, 3).

    Reusing a reformatter saves its setup for each picture.
    """
    image = (reformatter or VideoReformatter()).reformat(picture, format="rgb24").to_ndarray()
    return turn_upright(image, picture)


class _Clock:
    """Seconds since the first frame. They never decrease, even if timestamps restart."""

    def __init__(self) -> None:
        self.now = self.longest_step = self._step = 0.0
        self._begun: float | None = None
        self._offset: float | None = None

    def read(self, stamp: float) -> float:
        wall = time.monotonic()
        self._begun = wall if self._begun is None else self._begun
        if self._offset is None:
            self._offset = max(self.now, wall - self._begun) - stamp
        elif stamp + self._offset < self.now - 0.2:  # less is jitter, more is a restart, as in joined files
            self._offset = self.now + self._step - stamp
        self._step = max(0.0, stamp + self._offset - self.now)
        self.longest_step = max(self.longest_step, self._step)
        self.now += self._step
        return self.now

    def resume(self) -> None:
        """Set the next timestamp by the wall clock, so that the times include the break."""
        self._offset = None


def _probe_turns(path: str) -> int:
    """Number of quarter turns of a file's first picture. PyAV reports them only for decoded pictures."""
    try:
        with av.open(path, metadata_errors="ignore") as container:
            pictures = container.decode(container.streams.best("video"))
            return next((quarter_turns(picture) for picture in pictures), 0)
    except av.FFmpegError:  # raised when the file is read
        return 0


def read_rate(stream: Any) -> float | None:
    """FPS as declared by a video stream or guessed by FFmpeg; None if neither is plausible."""
    return check_rate(stream.average_rate) or check_rate(stream.guessed_rate)


_CLOCK_TIME = re.compile(r"(\d+):(\d+):(\d+(?:\.\d+)?)")


def _read_duration(container: Any, stream: Any) -> float | None:
    """Duration of the video stream in seconds, as declared or by its last timestamp; None if unknown.

    Matroska stores it in a tag. Its container is as long as its longest stream, which may be the sound.
    """
    whole = _container_duration(container)
    tag = next((value for name, value in stream.metadata.items() if name.upper().startswith("DURATION")), "")
    parts = _CLOCK_TIME.fullmatch(tag)
    if parts is not None and whole is not None:
        hours, minutes, seconds = map(float, parts.groups())
        begin = float((stream.start_time or 0) * stream.time_base)  # the tag counts from the start of the file
        length = min(3600 * hours + 60 * minutes + seconds, whole) - begin
        if length > 0:
            return length
    if stream.duration is not None:
        return float(stream.duration * stream.time_base)
    return whole if len(container.streams) == 1 else None


def _container_duration(container: Any) -> float | None:
    return None if container.duration is None else container.duration / av.time_base


def _container_end(container: Any) -> float | None:
    """The timestamp at which a container declares its end."""
    return None if container.duration is None else (container.duration + (container.start_time or 0)) / av.time_base


def _is_endless(container: Any) -> bool:
    """True if a web server declares no length in seconds or bytes, as cameras do."""
    return container.duration is None and (container.size <= 0 or container.format.name == "hls")
