"""Street video with exact labels, rendered from a seed: what the tests, the demo and the CI train and run on."""

from collections.abc import Iterator

import cv2
import numpy as np
import numpy.typing as npt

from stmg.data.synthetic.plan import Plan
from stmg.data.synthetic.street import Street
from stmg.errors import SettingsError

_Frame = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]


class Scene:
    """One street, of which any frame can be rendered.

    Everything is a closed form of seed and time, so a frame is the same whenever and wherever it is rendered.
    """

    def __init__(
        self, seed: int = 0, size: tuple[int, int] = (360, 480), camera: str = "drive", fps: float = 15.0
    ) -> None:
        if camera not in ("drive", "fixed"):
            raise SettingsError(f'camera must be "drive" or "fixed", got {camera!r}')
        if min(size) < 32:
            raise SettingsError(f"size (height, width) must be at least (32, 32), got {size}")
        if not fps > 0:
            raise SettingsError(f"fps must be above 0, got {fps}")
        self.seed, self.size, self.camera, self.fps = seed, size, camera, fps
        self._plan = Plan(seed, driving=camera == "drive")
        self._street = Street(self._plan)
        rng = self._plan.rng("sensor")
        noise = rng.normal(0, rng.uniform(1.5, 3.5), (size[0] + 64, size[1] + 64, 3))
        self._sensor_noise = noise.round().astype(np.int8)

    def frame(self, index: int) -> _Frame:
        """RGB image (H, W, 3) and labels (H, W), both uint8, at `index / fps` seconds."""
        if index < 0:
            raise SettingsError(f"index must be 0 or more, got {index}")
        time = index / self.fps
        canvas = self._street.draw(self.size, time)
        image = cv2.cvtColor(canvas.pixels, cv2.COLOR_RGBA2RGB)
        image = cv2.GaussianBlur(image, (3, 3), 0.55)  # a lens: edges span a pixel, as in photographs
        image = cv2.multiply(image, np.append(self._plan.brightness(time), 1.0))
        down, right = self._plan.rng("frame", index).integers(0, 64, 2)
        noise = self._sensor_noise[down : down + self.size[0], right : right + self.size[1]]
        image = cv2.add(image, noise, dtype=cv2.CV_8U)
        return image.astype(np.uint8, copy=False), canvas.pixels[..., 3].copy()

    def __reduce__(self) -> tuple[type["Scene"], tuple[object, ...]]:
        # A scene is its arguments: cheap to hand to another process.
        return Scene, (self.seed, self.size, self.camera, self.fps)


def render(
    seed: int, num_frames: int, size: tuple[int, int] = (360, 480), camera: str = "drive", fps: float = 15.0
) -> Iterator[_Frame]:
    """The first `num_frames` frames of a scene."""
    scene = Scene(seed, size, camera, fps)
    return (scene.frame(index) for index in range(num_frames))
