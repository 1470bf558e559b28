"""CamVid's labeled drive as a coded video with its labels, to see what the codec's own motion is worth.

python benchmarks/coded.py CAMVID OUT [--b-frames 0]
stmg ablate MODEL OUT
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import av
import cv2
from rich.progress import track

from stmg.data.camvid import open_camvid


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("camvid", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--b-frames", type=int, default=3, help="x264's own default is 3")
    arguments = parser.parse_args()
    data = open_camvid(arguments.camvid)
    (video,) = data.videos("val")
    labels = arguments.out / "labels"
    labels.mkdir(parents=True, exist_ok=True)
    height, width = video.image(0).shape[:2]
    with av.open(str(arguments.out / "drive.mp4"), "w") as container:
        stream = container.add_stream("libx264", rate=round(video.rate or 15))
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.options = {"bf": str(arguments.b_frames)}
        for index in track(range(len(video)), "coding"):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(video.image(index), format="rgb24")))
            cv2.imwrite(str(labels / f"{index:06d}.png"), video.truth(index))
        container.mux(stream.encode())
    description = {"classes": list(data.class_names), "val": [{"frames": "drive.mp4", "labels": "labels"}]}
    (arguments.out / "dataset.yaml").write_text(json.dumps(description, indent=1))  # which is YAML, too


if __name__ == "__main__":
    main()
