"""Python, the command line and the server compute a video at the same size."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import stmg
from clips import clip
from graphs import save_one_channel
from stmg.models.load import SourceSegmenters
from stmg.models.spec import ModelSpec
from stmg.runtimes.manifest import MANIFEST
from stmg.serve.models import Models


@pytest.fixture(params=["a large export", "a fixed graph"])
def case(request, tmp_path, export_to):
    """A model that takes one size only, the size of a video, and the size it is computed at."""
    if request.param == "a fixed graph":
        return str(save_one_channel(tmp_path / "graph.onnx", sigmoid=False)), (240, 320), (48, 64)
    folder = tmp_path / "export"
    shutil.copytree(export_to("onnx"), folder)
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["card"]["size"] = [32, 48]  # exported for frames larger than its checkpoint was meant for
    (folder / MANIFEST).write_text(json.dumps(manifest))
    return str(folder), (50, 70), None


def test_a_model_of_one_size_works_at_the_same_size_however_it_is_opened(case, tmp_path):
    name, source_size, expected = case
    spec, models = ModelSpec(name, {"motion": "none"}), Models()
    from_python = stmg.load(name, motion="none")
    from_the_command_line = SourceSegmenters(spec).open(source_size)
    served = models.get(spec).segmenter_for(spec)
    models.close()
    segmenters = (from_python, from_the_command_line, served)
    assert [segmenter.size_for(source_size) for segmenter in segmenters] == [expected] * 3
    video = clip(tmp_path / "video.mp4", 4, size=source_size)
    first, *others = ([result.labels for result in segmenter.stream(video)] for segmenter in segmenters)
    assert all(np.array_equal(first, labels) for labels in others)


def test_a_size_that_was_given_is_worked_at(tmp_path):
    path = Path(save_one_channel(tmp_path / "graph.onnx", sigmoid=False, size=None))
    segmenter = SourceSegmenters(ModelSpec(str(path), {"size": (48, 64)})).open((240, 320))
    assert segmenter.size_for((240, 320)) == (48, 64)
    assert SourceSegmenters(ModelSpec(str(path))).open((240, 320)).size_for((240, 320)) is None
