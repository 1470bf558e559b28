from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import av
import cv2
import pytest
import torch

import stmg
from stmg.gating.accelerate import accelerate
from stmg.networks import build
from zoo import panning


class Samples(NamedTuple):
    """What the verbs are run on."""

    model: Path
    """A checkpoint of a small network of five classes, untrained."""
    video: Path
    """20 frames of 96x128 at 10 Hz."""
    frames: Path
    """The same frames as images."""


@pytest.fixture(scope="session")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    torch.manual_seed(0)
    network = accelerate(build("small", 5), torch.zeros(1, 3, 96, 128))
    stmg.save(network, folder / "model", stmg.Card("small", 5, (96, 128)))
    (folder / "frames").mkdir()
    with av.open(str(folder / "video.mp4"), "w") as container:
        stream = container.add_stream("libx264", rate=10)
        stream.width, stream.height, stream.pix_fmt = 128, 96, "yuv420p"
        for index, frame in enumerate(panning(20)):
            cv2.imwrite(str(folder / "frames" / f"{index}.png"), frame[:, :, ::-1])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode(None))
    return Samples(folder / "model", folder / "video.mp4", folder / "frames")
