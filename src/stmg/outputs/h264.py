"""H.264: images that are there already, or drawn one by one, as a video."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import av

from stmg.video.frames import Image


def write_h264(path: Path, images: Iterable[Image], fps: float, quality: int) -> None:
    """Write RGB images of one size, both sides even; the same images always make the same file.

    quality: x264's constant rate factor; 16 looks as the images do, 23 makes a small file.
    """
    with av.open(str(path), "w") as container:
        rate = Fraction(fps).limit_denominator(1001)
        # With macroblock trees x264 writes another file each time.
        stream = container.add_stream("libx264", rate=rate, options={"crf": str(quality), "mbtree": "0"})
        for number, image in enumerate(images):
            if number == 0:
                stream.height, stream.width, stream.pix_fmt = *image.shape[:2], "yuv420p"
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))
