from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from clips import clip
from stmg.jobs.batch import BatchRun
from stmg.jobs.task import BatchSettings
from stmg.jobs.videos import find_videos
from stmg.models.spec import ModelSpec

BOX = """
import numpy as np
def box():
    return lambda image: image.transpose(2, 0, 1).astype(np.float32)
"""


class Drives(NamedTuple):
    """What batches are run on."""

    folder: Path
    """a.mp4 of 20 frames, b/c.mp4 of 30, and broken.mp4, which is no video."""
    model: str
    """A black box that needs no PyTorch."""


@pytest.fixture(scope="session")
def drives(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drives")
    (folder / "box.py").write_text(BOX)
    videos = folder / "videos"
    (videos / "b").mkdir(parents=True)
    clip(videos / "a.mp4", 20)
    clip(videos / "b" / "c.mp4", 30)
    (videos / "broken.mp4").write_bytes(b"no video at all" * 100)
    return Drives(videos, f"{folder / 'box.py'}:box")


@pytest.fixture
def make_run(drives):
    """A batch over videos, with the black box and its motion fixed."""

    def make(videos, out, *, model=drives.model, ray=None, workers=None, **options):
        spec = ModelSpec(str(model), {"threads": 1, "motion": "dis", "mode": "offline"})
        settings = BatchSettings(spec=spec, **{"save": ("records", "labels"), **options})
        return BatchRun(find_videos([videos]), settings, str(out), ray=ray, workers=workers)

    return make
