"""Logs of a run: curves and pictures for TensorBoard, pictures as files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import cv2

from stmg.files import write_atomically
from stmg.video.frames import Image

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class Log:
    """What a run writes besides its weights; without TensorBoard, pictures alone."""

    def __init__(self, folder: Path, step: int) -> None:
        """A log from a step on: what an interrupted run wrote beyond it is dropped."""
        self.folder = folder
        self._writer: SummaryWriter | None = None
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)

    def add_values(self, group: str, values: Mapping[str, float], step: int) -> None:
        if self._writer is not None:
            for name, value in values.items():
                self._writer.add_scalar(f"{group}/{name}", value, step)

    def add_picture(self, picture: Image, step: int) -> None:
        if self._writer is not None:
            self._writer.add_image("val/picture", picture, step, dataformats="HWC")
        folder = self.folder / "pictures"
        folder.mkdir(parents=True, exist_ok=True)
        bgr = cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)
        _, data = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, 85])
        write_atomically(folder / f"{step:06d}.jpg", data.tobytes())

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
