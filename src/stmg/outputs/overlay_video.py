"""Overlay video: the frames of a run with their labels drawn over them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stmg.errors import SettingsError
from stmg.outputs.video_file import VideoFile
from stmg.streaming.state import FrameResult
from stmg.video.frames import Image
from stmg.video.overlay import draw_labels_i420


class OverlayVideo(VideoFile):
    """Frames with their labels drawn over them, as a video."""

    def __init__(self, path: str | Path, fps: float, opacity: float = 0.5) -> None:
        super().__init__(path, fps)
        if not 0 <= opacity <= 1:
            raise SettingsError(f"opacity is from 0 to 1; got {opacity=}")
        self.opacity = opacity

    def _draw(self, result: FrameResult) -> Image:
        return result.plot(self.opacity)

    def _planes(self, result: FrameResult) -> NDArray[np.uint8]:
        size = result.image.shape[:2]
        if size != self._size or size[0] % 2 or size[1] % 2:
            return super()._planes(result)
        return draw_labels_i420(result.image, result.labels, result.palette, self.opacity)
