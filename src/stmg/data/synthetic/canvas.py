"""The camera and its drawing surface: projects polygons, textured planes, posts and limbs, with their labels."""

from collections.abc import Sequence
from math import cos, exp, hypot, inf, log2, pi, sin
from typing import NamedTuple

import cv2
import numpy as np

from stmg.data.synthetic.textures import Array, Color, Texture

Point = tuple[float, float, float]
Limb = tuple[Point, Point, float, float, Color]  # from, to, radius there and there, color

NEAR = 0.4  # metres in front of the lens at which surfaces are cut
AXES = X, UP, Z = np.eye(3)
UNIT_SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
HALF_TURN = np.linspace(pi / 2, 3 * pi / 2, 6)


class Outline(NamedTuple):
    """Convex polygon in the image: its corners in sixteenths of a pixel (cv2's `shift=4`) and bounds in pixels."""

    corners: Array
    left: float
    top: float
    right: float
    bottom: float

    def corners_from(self, left: int, top: int) -> Array:
        """The corners as seen from the pixel (left, top)."""
        return self.corners - np.array([16 * left, 16 * top], np.int32)


class Canvas:
    """The image of a pinhole camera. Pixels are (R, G, B, class): one write sets both, so they cannot disagree.

    World axes are x right, y up, z along the street, in metres.
    """

    def __init__(self, size: tuple[int, int], focal: float, position: Array, yaw: float, pitch: float) -> None:
        height, width = size
        self.pixels = np.zeros((height, width, 4), np.uint8)
        self.focal, self.position = focal, position
        self.haze = (0.0, inf)  # its brightness, and the distance over which it hides all but 1/e
        forward = np.array([sin(yaw) * cos(pitch), sin(pitch), cos(yaw) * cos(pitch)])
        right = np.array([cos(yaw), 0.0, -sin(yaw)])
        lens = np.array([[focal, 0, (width - 1) / 2], [0, focal, (height - 1) / 2], [0, 0, 1]])
        self.matrix = lens @ np.stack([right, np.cross(right, forward), forward])

    def project(self, points: Array) -> list[Point]:
        """Points (n, 3) of the world as homogeneous image points, whose last coordinate is the depth."""
        image: list[Point] = ((points - self.position) @ self.matrix.T).tolist()
        return image

    def outline(self, points: list[Point]) -> Outline | None:
        """Visible part of a convex polygon of homogeneous image points, if any."""
        if min(point[2] for point in points) < NEAR:
            points = _clip_to_near_plane(points)
            if not points:
                return None
        columns, rows = [x / depth for x, _, depth in points], [y / depth for _, y, depth in points]
        left, right, top, bottom = min(columns), max(columns), min(rows), max(rows)
        height, width = self.pixels.shape[:2]
        if right < 0 or bottom < 0 or left > width - 1 or top > height - 1:
            return None
        corners = [(round(16 * x), round(16 * y)) for x, y in zip(columns, rows, strict=True)]
        return Outline(np.array(corners, np.int32), left, top, right, bottom)

    def tone(self, depth: float, shade: float) -> tuple[float, float]:
        """Gain and offset which shade a color and then fade it into the haze at `depth` metres."""
        clear = exp(-max(depth, 0.0) / self.haze[1])
        return shade * clear, self.haze[0] * (1 - clear)

    def polygon(self, points: Array, color: Color, label: int, shade: float = 1.0, hull: bool = False) -> None:
        """Fill a flat convex polygon with corners (n, 3), or with `hull` the outline of a solid with these corners."""
        seen = self.project(points)
        outline = self.outline(seen)
        if outline is not None:
            gain, offset = self.tone(sum(point[2] for point in seen) / len(seen), shade)
            red, green, blue = (min(255.0, channel * gain + offset) for channel in color)
            corners = cv2.convexHull(outline.corners) if hull else outline.corners
            cv2.fillConvexPoly(self.pixels, corners, (red, green, blue, label), shift=4)

    def surface(
        self,
        texture: Texture,
        origin: Array,
        across: Array,
        down: Array,
        label: int,
        shade: float = 1.0,
        part: Array = UNIT_SQUARE,
    ) -> None:
        """Draw the polygon `part` (n, 2) of `texture` on the plane from corner `origin` along `across` and `down`."""
        plane = self.matrix @ np.array([across, down, origin - self.position]).T
        seen: list[Point] = (part @ plane[:, :2].T + plane[:, 2]).tolist()
        outline = self.outline(seen)
        if outline is None:
            return
        rows, columns = self.pixels.shape[:2]
        left, right = max(0, int(outline.left)), min(columns, int(outline.right) + 2)
        top, bottom = max(0, int(outline.top)), min(rows, int(outline.bottom) + 2)
        depth = sum(max(point[2], NEAR) for point in seen) / len(seen)
        gain, offset = self.tone(depth, shade)
        if right - left < 5 and not texture.has_alpha:  # a sliver: its mean color is all that can be seen of it
            red, green, blue = (channel * gain + offset for channel in texture.mean)
            cv2.fillConvexPoly(self.pixels, outline.corners, (red, green, blue, label), shift=4)
            return
        # Shrink the texture to the pixels that its edges span around the middle of its visible part.
        (xu, xv, x0), (yu, yv, y0), (wu, wv, w0) = plane.tolist()
        x, y = (outline.left + outline.right) / 2, (outline.top + outline.bottom) / 2
        wide, tall = hypot(xu - x * wu, yu - y * wu) / depth, hypot(xv - x * wv, yv - y * wv) / depth
        pixels = texture.level(coarseness(texture.width, wide), coarseness(texture.height, tall))
        height, width = pixels.shape[:2]
        u = [(xu - left * wu) / width, (yu - top * wu) / width, wu / width]
        v = [(xv - left * wv) / height, (yv - top * wv) / height, wv / height]
        start = [x0 - left * w0, y0 - top * w0, w0]
        warp = np.array([[a, b, c + (a + b) / 2] for a, b, c in zip(u, v, start, strict=True)])
        patch = cv2.warpPerspective(pixels, warp, (right - left, bottom - top), borderMode=cv2.BORDER_REPLICATE)
        mask = np.zeros(patch.shape[:2], np.uint8)
        cv2.fillConvexPoly(mask, outline.corners_from(left, top), 255, shift=4)
        if texture.has_alpha:
            mask *= patch[..., 3] > 127
        patch = cv2.convertScaleAbs(patch, alpha=gain, beta=offset)
        patch[..., 3] = label
        cv2.copyTo(patch, mask, self.pixels[top:bottom, left:right])

    def post(self, foot: Array, height: float, radii: tuple[float, float], color: Color, label: int) -> None:
        """Draw an upright of `height` metres which tapers from `radii[0]` to `radii[1]`."""
        low, high = radii
        sides = np.array([[-low, 0, 0], [low, 0, 0], [high, height, 0], [-high, height, 0]])
        self.polygon(foot + sides, color, label)
        if foot[2] - self.position[2] < 30:  # rounded by a lit stripe
            self.polygon(foot + sides * (0.4, 1, 1), color, label, 1.2)

    def limbs(self, limbs: Sequence[Limb], label: int, origin: Array, axes: Array = AXES) -> None:
        """Draw tapering round-ended rods given in `axes` (right, up, forward) from `origin`, far ones first.

        None is drawn when one touches the lens.
        """
        count = len(limbs)
        joints = np.array([limb[0] for limb in limbs] + [limb[1] for limb in limbs])
        seen = (joints @ axes + (origin - self.position)) @ self.matrix.T
        if seen[:, 2].min() < NEAR:
            return
        centers = seen[:, :2] / seen[:, 2:]
        if centers[:, 0].max() < -99 or centers[:, 0].min() > self.pixels.shape[1] + 99:
            return
        radii = np.array([limb[2] for limb in limbs] + [limb[3] for limb in limbs])
        radii = np.maximum(radii * self.focal / seen[:, 2], 0.5)
        along = centers[count:] - centers[:count]
        angle = np.arctan2(along[:, 1], along[:, 0])[:, None]
        angles = np.concatenate([angle + HALF_TURN, angle + HALF_TURN + pi])
        rims = centers[:, None] + radii[:, None, None] * np.stack([np.cos(angles), np.sin(angles)], axis=2)
        outlines = np.rint(16 * np.concatenate([rims[:count], rims[count:]], axis=1)).astype(np.int32)
        depth = seen[:count, 2] + seen[count:, 2]
        gain, offset = self.tone(float(depth.mean()) / 2, 1.0)
        for number in np.argsort(-depth, kind="stable").tolist():
            red, green, blue = limbs[number][4]
            color = (red * gain + offset, green * gain + offset, blue * gain + offset, label)
            cv2.fillConvexPoly(self.pixels, outlines[number], color, shift=4)


def heading_axes(heading: float, size: float = 1.0) -> Array:
    """Axes (right, up, forward) of an object that heads towards `heading`: 0 is along z, and it grows to the right."""
    return size * np.array([[cos(heading), 0, -sin(heading)], [0, 1, 0], [sin(heading), 0, cos(heading)]])


def coarseness(texels: int, pixels: float) -> int:
    """Number of times to halve `texels` so that they cover `pixels` without aliasing."""
    return max(0, int(log2(max(texels / max(pixels, 1.0), 1.0)) + 0.4))


def _clip_to_near_plane(points: list[Point]) -> list[Point]:
    """The part of a convex polygon of homogeneous points that lies beyond the near plane."""
    points_beyond: list[Point] = []
    for (x, y, depth), (next_x, next_y, next_depth) in zip(points, points[1:] + points[:1], strict=True):
        if depth >= NEAR:
            points_beyond.append((x, y, depth))
        if (depth >= NEAR) != (next_depth >= NEAR):
            share = (NEAR - depth) / (next_depth - depth)
            points_beyond.append((x + share * (next_x - x), y + share * (next_y - y), NEAR))
    return points_beyond
