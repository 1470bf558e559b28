"""Overlay video: the frames of a run with their labels drawn over them."""

from __future__ import annotations

from pathlib import Path

from stmg.errors import SettingsError
from stmg.outputs.video_file import VideoFile
from stmg.streaming.state import FrameResult
from stmg.video.frames import Image


class OverlayVideo(VideoFile):
    """Frames with their labels drawn over them, as a video."""

    def __init__(self, path: str | Path, fps: float, opacity: float = 0.5) -> None:
        super().__init__(path, fps)
        if not 0 <= opacity <= 1:
            raise SettingsError(f"opacity is from 0 to 1; got {opacity=}")
        self.opacity = opacity

    def _draw(self, result: FrameResult) -> Image:
        return result.plot(self.opacity)
