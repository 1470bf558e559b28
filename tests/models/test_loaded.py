"""Python, the command line and the server compute a video at the same size."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import stmg
from clips import clip
from graphs import save_one_channel
from stmg.models.load import resolve
from stmg.models.loaded import LoadedModel, LoadedModels
from stmg.models.spec import ModelSpec
from stmg.runtimes.manifest import MANIFEST


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
    spec = ModelSpec(name, {"motion": "none"})
    from_python = stmg.load(name, motion="none")
    from_the_command_line = LoadedModel(name, spec).segmenter_for(spec, source_size)
    served = LoadedModels().get(spec).segmenter_for(spec)
    segmenters = (from_python, from_the_command_line, served)
    assert [segmenter.size_for(source_size) for segmenter in segmenters] == [expected] * 3
    video = clip(tmp_path / "video.mp4", 4, size=source_size)
    first, *others = ([result.labels for result in segmenter.stream(video)] for segmenter in segmenters)
    assert all(np.array_equal(first, labels) for labels in others)


def test_a_size_that_was_given_is_worked_at(tmp_path):
    path = Path(save_one_channel(tmp_path / "graph.onnx", sigmoid=False, size=None))
    for size in ((48, 64), None):
        spec = ModelSpec(str(path), {"size": size})
        assert LoadedModel("graph", spec).segmenter_for(spec, (240, 320)).size_for((240, 320)) == size


def test_a_network_in_code_is_built_for_the_size_of_its_source(tmp_path):
    (tmp_path / "net.py").write_text(
        "def build():\n    return lambda image: image.transpose(2, 0, 1).astype('float32')\n"
    )
    spec, sizes = ModelSpec(f"{tmp_path}/net.py:build"), []

    def load(spec):
        sizes.append(spec.settings.size)
        return resolve(spec)

    model = LoadedModel("net", spec, load)
    for source_size in ((48, 64), (48, 64), (96, 64)):
        model.segmenter_for(spec, source_size)
    model.segmenter_for(spec)  # whatever it was built for
    assert sizes == [(48, 64), (96, 64)]
    given = ModelSpec(spec.name, {"size": (32, 32)})
    LoadedModel("net", given, load).segmenter_for(given, (48, 64))
    assert sizes[2:] == [(32, 32)]


def test_settings_of_a_stream_leave_those_of_the_model_for_other_modes(tmp_path):
    spec = ModelSpec("small-streets", {"default_schedulers": {"offline": "always-key"}})
    model = LoadedModel("small", spec)
    own, settings = model.segmenter.settings, model.segmenter_for(spec).settings
    assert settings.default_schedulers["offline"].name == "always-key"
    assert settings.default_schedulers["online"] == own.default_schedulers["online"]
