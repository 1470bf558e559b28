"""H.264: images come back as they went in, nearly, at their rate."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from stmg.data.synthetic.scene import Scene
from stmg.outputs.videos import write_h264
from stmg.video.sources import open_video
from zoo import panning


def test_a_video_has_the_images_at_their_rate(tmp_path: Path) -> None:
    images = panning(5)
    write_h264(tmp_path / "pan.mp4", iter(images), fps=29.97, quality=16)
    with open_video(tmp_path / "pan.mp4") as video:
        assert abs(video.fps - 29.97) < 0.01
        frames = [frame.image for frame in video]
    assert len(frames) == len(images)
    assert all(np.abs(a.astype(int) - b).mean() < 8 for a, b in zip(images, frames, strict=True))


def test_the_same_images_make_the_same_file(tmp_path: Path) -> None:
    """Figures of a rendered street are those of its video, so they can be produced again."""
    scene, files = Scene(), set()
    images = [scene.frame(index)[0] for index in range(40)]
    for _ in range(4):
        write_h264(tmp_path / "pan.mp4", iter(images), fps=30, quality=16)
        files.add((tmp_path / "pan.mp4").read_bytes())
    assert len(files) == 1
