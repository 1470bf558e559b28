"""Street video with exact labels, rendered from a seed: the data of the tests, the demo and the CI."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from math import ceil, floor, sin

import cv2
import numpy as np
import numpy.typing as npt

from stmg.data.camvid import CLASS_NAMES, PALETTE
from stmg.data.dataset import Dataset, Video
from stmg.data.synthetic.backdrop import draw_sky, draw_skyline, light_ground
from stmg.data.synthetic.blocks import Materials, SceneObject, make_block
from stmg.data.synthetic.canvas import Canvas
from stmg.data.synthetic.plan import BLOCK, RANGE, Plan
from stmg.data.synthetic.textures import ROAD
from stmg.data.synthetic.traffic import Traffic
from stmg.errors import DataError, SettingsError
from stmg.video.frames import Image, resize_image
from stmg.video.labels import Labels, resize_labels

_Frame = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]


class Scene:
    """One street. Any of its frames can be rendered.

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

    def __reduce__(self) -> tuple[type[Scene], tuple[object, ...]]:
        # A scene is its arguments: cheap to hand to another process.
        return Scene, (self.seed, self.size, self.camera, self.fps)


def render(
    seed: int, num_frames: int, size: tuple[int, int] = (360, 480), camera: str = "drive", fps: float = 15.0
) -> Iterator[_Frame]:
    """The first `num_frames` frames of a scene."""
    scene = Scene(seed, size, camera, fps)
    return (scene.frame(index) for index in range(num_frames))


SPACING = 5  # of the frames that count as labeled: neighbors look alike, and an epoch should not
FIRST_VAL_SEED = 900_000


@dataclass(frozen=True)
class RenderedVideo:
    """The first frames of a scene."""

    seed: int
    num_frames: int
    size: tuple[int, int]
    every_label: bool
    rate: float | None = 15.0

    @property
    def name(self) -> str:
        return f"street {self.seed}"

    @property
    def labeled(self) -> Sequence[int]:
        return range(0, self.num_frames, 1 if self.every_label else SPACING)

    def __len__(self) -> int:
        return self.num_frames

    def image(self, index: int, size: tuple[int, int] | None = None) -> Image:
        image, _ = self._frame(index)
        return image if size is None else resize_image(image, size)

    def truth(self, index: int, size: tuple[int, int] | None = None) -> Labels | None:
        _, labels = self._frame(index)
        return labels if size is None else resize_labels(labels, size)

    def _frame(self, index: int) -> tuple[Image, Labels]:
        if index not in self._last:  # image and truth are read one after the other
            self._last.clear()
            self._last[index] = self._scene.frame(index)
        return self._last[index]

    @cached_property
    def _last(self) -> dict[int, tuple[Image, Labels]]:
        return {}

    @property
    def _scene(self) -> Scene:
        return _make_scene(self.seed, self.size, choose_camera(self.seed))


def choose_camera(seed: int) -> str:
    """Choose the camera: in one street of four it stands still."""
    return "fixed" if seed % 4 == 3 else "drive"


@lru_cache(maxsize=100)  # of some 20 MB each
def _make_scene(seed: int, size: tuple[int, int], camera: str) -> Scene:
    return Scene(seed, size, camera)


def open_streets(name: str, num_frames: int = 60, size: tuple[int, int] = (360, 480)) -> Dataset:
    """`street:0-99`: the streets of these seeds to train on, and others, never among them, to validate on."""
    match = re.fullmatch(r"street:(\d+)-(\d+)", name)
    if match is None or int(match[1]) > int(match[2]) or int(match[2]) >= FIRST_VAL_SEED:
        raise DataError(f"{name} is not a range of rendered streets; street:0-99 is the first hundred seeds")

    def videos(seeds: range, every_label: bool) -> tuple[Video, ...]:
        return tuple(RenderedVideo(seed, num_frames, size, every_label) for seed in seeds)

    val = range(FIRST_VAL_SEED, FIRST_VAL_SEED + 4)
    splits = {"train": videos(range(int(match[1]), int(match[2]) + 1), False), "val": videos(val, True)}
    return Dataset("rendered streets", CLASS_NAMES, PALETTE, splits)


class Street:
    """A street built block by block from its plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.materials = plan, Materials(plan)
        self.traffic = Traffic(plan, self.materials.cars)
        self.block = lru_cache(12)(partial(make_block, plan, self.materials))

    def draw(self, size: tuple[int, int], time: float) -> Canvas:
        """The street as the camera sees it at `time`."""
        plan, distance = self.plan, self.plan.traveled(time)
        canvas = self._canvas(size, distance)
        first, last = floor(distance / BLOCK) - 1, ceil((distance + RANGE) / BLOCK)
        blocks = [self.block(number) for number in range(first, last + 1)]
        movers = self.traffic.objects(distance, time)
        objects = self._in_order(canvas, movers + [item for block in blocks for item in block.objects])
        draw_sky(self.materials.sky, 2 * (time % 500), canvas)
        far = distance + 6000
        plain = np.array([[-6000, 0, distance], [6000, 0, distance], [6000, 0, far], [-6000, 0, far]])
        canvas.polygon(plain, plan.asphalt, ROAD)
        for z, polygon in (flat for block in blocks for flat in block.ground):
            if z - distance < 110:
                canvas.polygon(*polygon)
        shadows = [item.shadow for item in objects if item.shadow is not None]
        light_ground(self.materials.grains, shadows, 0.75 - 0.5 * plan.sun, plan.haze, canvas)
        canvas.haze = plan.haze
        for skyline, label, height in self.materials.skylines:
            draw_skyline(skyline, label, height, distance + RANGE, canvas)
        for item in objects:
            item.draw(canvas)
        return canvas

    def _canvas(self, size: tuple[int, int], distance: float) -> Canvas:
        """Empty canvas of the camera, which sways with the distance it has gone: it is still when it stands."""
        plan = self.plan
        across = plan.side * (plan.lane / 2 if plan.driving else plan.kerb + 0.4)
        position = np.array([across + 0.18 * sin(distance / 13), plan.height + 0.008 * sin(distance / 1.7), distance])
        yaw = 0.025 * sin(distance / 19) + 0.012 * sin(distance / 6.3)
        pitch = plan.pitch + 0.003 * sin(distance / 3.1) + 0.004 * sin(distance / 9)
        if not plan.driving:
            yaw -= plan.side * (0.06 + 0.14 * plan.phase)
        return Canvas(size, plan.focal * sum(size), position, yaw, pitch)

    def _in_order(self, canvas: Canvas, objects: list[SceneObject]) -> list[SceneObject]:
        """The objects in view, in drawing order.

        From within the street, what is further aside never covers what is closer to the camera's own band, and within
        a band nearer objects cover farther ones, so sorting by band and then by z is exact.
        """
        x, _, z = canvas.position
        band = self.plan.band(x)
        visible = [item for item in objects if item.end > z and item.z - z < item.reach]
        return sorted(visible, key=lambda item: (-abs(item.band - band), -item.z))
