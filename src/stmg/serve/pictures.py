"""Pictures of a stream: drawn and encoded once for all viewers, and only while there are any."""

from __future__ import annotations

import asyncio
import io
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from concurrent.futures import TimeoutError as NotYet

import cv2
import numpy as np
from PIL import Image as PillowImage

from stmg.outputs.images import make_label_image
from stmg.serve.channels import Channel, Viewer
from stmg.serve.stream import LiveStream
from stmg.streaming.anchors import Anchor, compute_anchor
from stmg.streaming.result import FrameResult
from stmg.streaming.working_size import shrink
from stmg.video.frames import Frame, Image, resize_image
from stmg.video.labels import Labels, resize_labels
from stmg.video.overlay import draw_labels, draw_mask, make_color_table

VIEWS = ("overlay", "raw", "labels", "mask", "compare")
WIDEST = 1280  # maximum width of a sent picture in pixels
QUALITY = 82  # of JPEG
BOUNDARY = b"stmg-part"
log = logging.getLogger("stmg.serve")


class Pictures:
    """The views of one stream. Each is a channel, with its own thread while it has viewers.

    executor: runs the whole network for the view `compare`.
    """

    def __init__(self, stream: LiveStream, loop: asyncio.AbstractEventLoop, executor: Executor) -> None:
        self._stream, self._loop, self._executor = stream, loop, executor
        self._channels = {view: Channel() for view in VIEWS}
        self._threads: dict[str, threading.Thread] = {}
        self.encoded = 0
        """Pictures encoded so far."""

    def channel(self, view: str) -> Channel:
        return self._channels[view]

    @property
    def viewers(self) -> int:
        """Number of viewers of this stream."""
        return sum(len(channel.viewers) for channel in self._channels.values())

    def watch(self, view: str) -> None:
        """Start to draw a view that now has a viewer."""
        with self._channels[view].lock:
            if view not in self._threads:
                name = f"draw-{self._stream.name}-{view}"
                self._threads[view] = threading.Thread(target=self._run, args=(view,), name=name, daemon=True)
                self._threads[view].start()

    def close(self) -> None:
        """Disconnect all viewers."""
        for channel in self._channels.values():
            for viewer in list(channel.viewers):
                viewer.close()

    def _run(self, view: str) -> None:
        channel, version = self._channels[view], 0
        while True:
            with channel.lock:
                if not channel.viewers or self._stream.is_stopped:
                    del self._threads[view]
                    return
            newer = self._stream.wait_newer(version, timeout=0.5)
            if newer is None:
                continue
            version, result = newer
            try:
                image = self._draw(view, result)
            except Exception as error:  # from the network: the stream reports it, and the last picture stays
                log.error("stream %s, %s: %r", self._stream.name, view, error)
                continue
            if image is not None:
                channel.post(self._loop, make_part(encode_jpeg(image), self._stream.name, view))
                self.encoded += 1

    def _draw(self, view: str, result: FrameResult) -> Image | None:
        opacity = self._stream.controls.opacity
        if view != "compare":
            return draw_view(view, result, opacity)
        whole = self._whole_network(result)
        return None if whole is None else draw_comparison(result, whole, opacity)

    def _whole_network(self, result: FrameResult) -> Labels | None:
        """The labels of the whole network for a frame; None if the stream stops in the meantime."""
        segmenter = self._stream.model.segmenter_for(self._stream.spec)
        frame = Frame(result.image)
        size = segmenter.size_for(frame.size)
        small = frame if size is None else shrink(frame, size)
        future: Future[Anchor] = self._executor.submit(compute_anchor, segmenter.runtime, small)
        while not self._stream.is_stopped:
            try:
                return resize_labels(future.result(0.5).labels, frame.size)
            except NotYet:
                continue
        return None


def draw_view(view: str, result: FrameResult, opacity: float) -> Image:
    """A result as a picture, RGB."""
    makers: dict[str, Callable[[], Image]] = {
        "overlay": lambda: result.plot(opacity),
        "raw": lambda: result.image,
        "labels": lambda: draw_labels(np.zeros_like(result.image), result.labels, result.palette, 1.0),
        "mask": lambda: draw_mask(result.image, _mask(result)),
    }
    return makers[view]()


def draw_comparison(result: FrameResult, whole: Labels, opacity: float) -> Image:
    """The picture of a result beside that of the whole network for the same frame."""
    share = float((result.labels != whole).mean())
    ours = _caption(result.plot(opacity), "stmg")
    theirs = _caption(
        draw_labels(result.image, whole, result.palette, opacity), f"whole network, {100 * share:.1f}% differ"
    )
    return np.hstack((ours, theirs))


def encode_jpeg(image: Image) -> bytes:
    """An RGB image as JPEG, at most `WIDEST` pixels wide."""
    height, width = image.shape[:2]
    if width > WIDEST:
        image = resize_image(image, (round(height * WIDEST / width), WIDEST))
    _, data = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    return data.tobytes()


def encode_png(image: Image) -> bytes:
    """An RGB image as PNG."""
    data = io.BytesIO()
    PillowImage.fromarray(image).save(data, "PNG", compress_level=1)
    return data.getvalue()


def encode_labels(result: FrameResult) -> bytes:
    """Class ids as a PNG in the colors of the palette."""
    data = io.BytesIO()
    make_label_image(result.labels, make_color_table(result.palette)).save(data, "PNG")
    return data.getvalue()


def make_part(jpeg: bytes, stream: str, view: str) -> bytes:
    """A picture as one part of a multipart response, with its stream and view."""
    head = (
        f"Content-Type: image/jpeg\r\nContent-Length: {len(jpeg)}\r\nX-Stream: {stream}\r\nX-View: {view}\r\n\r\n"
    ).encode()
    return b"--" + BOUNDARY + b"\r\n" + head + jpeg + b"\r\n"


def watch(shown: list[tuple[Pictures, str]]) -> Viewer:
    """Make a viewer of views of streams."""
    viewer = Viewer([pictures.channel(view) for pictures, view in shown])
    for pictures, view in shown:
        pictures.watch(view)
    return viewer


def _mask(result: FrameResult) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.zeros((1, 1), np.float32) if result.changed is None else result.changed


def _caption(image: Image, text: str) -> Image:
    image = np.ascontiguousarray(image).copy()
    scale = max(0.5, image.shape[1] / 960)
    width, height = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, scale, 1)[0]
    cv2.rectangle(image, (0, 0), (width + 16, height + 16), (0, 0, 0), -1)
    cv2.putText(image, text, (8, height + 8), cv2.FONT_HERSHEY_SIMPLEX, scale, (255, 255, 255), 1, cv2.LINE_AA)
    return image
