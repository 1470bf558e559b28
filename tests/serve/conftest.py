"""A server for tests: a small video, and a function as the network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clips import clip
from servers import Camera, Running, make_config, run_server

NETWORK = """
import numpy as np

def build():
    def network(image):
        bright = image.mean(axis=2, dtype=np.float32)
        return np.stack((bright, 255 - bright, np.full_like(bright, 100)))
    return network

def broken():
    def network(image):
        raise RuntimeError("the network is broken")
    return network
"""


@pytest.fixture(scope="session")
def network_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("network") / "nets.py"
    path.write_text(NETWORK)
    return path


@pytest.fixture(scope="session")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30 frames of 96x128 at 25 FPS."""
    return clip(tmp_path_factory.mktemp("video") / "clip.mp4")


@pytest.fixture(scope="module")
def running(network_file: Path, video: Path) -> Iterator[Running]:
    """A server with one stream, and another source that may be added."""
    config = make_config(network_file, {"clip": video}, sources={"spare": str(video)})
    with run_server(config) as server:
        server.wait_live("clip")
        yield server


@pytest.fixture
def camera(tmp_path: Path) -> Iterator[Camera]:
    source = Camera(clip(tmp_path / "clip.ts", 30).read_bytes())
    source.start()
    yield source
    source.close()
