"""Alpha: the probability of the foreground in gray, black to white, as a video or as one PNG per frame."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

from stmg.errors import SettingsError
from stmg.outputs.image_folder import ImageFolder
from stmg.outputs.video_file import VideoFile
from stmg.streaming.state import FrameResult
from stmg.video.frames import Image


class AlphaVideo(VideoFile):
    """The probability of the foreground as a gray video."""

    def _draw(self, result: FrameResult) -> Image:
        gray: Image = cv2.cvtColor(alpha_of(result), cv2.COLOR_GRAY2RGB)
        return gray


class AlphaImages(ImageFolder):
    """The probability of the foreground as gray images, 0 to 255."""

    def _draw(self, result: FrameResult) -> PillowImage.Image:
        return PillowImage.fromarray(alpha_of(result))


def alpha_of(result: FrameResult) -> NDArray[np.uint8]:
    """The probability of the foreground, (H, W), 0 to 255; an error where the network has several classes."""
    if result.probability is None:
        raise SettingsError(
            "alpha and cutout show the foreground of networks with one channel; this one tells several classes apart, "
            "which overlay and labels show"
        )
    alpha: NDArray[np.uint8] = cv2.convertScaleAbs(result.probability, alpha=255)
    return alpha
