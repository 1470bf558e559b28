"""Changed weights make another task, wherever the model keeps them."""

import sys

import numpy as np
import onnx
import pytest

from stmg.errors import ModelError
from stmg.jobs.task import BatchSettings
from stmg.jobs.videos import Video
from stmg.models.spec import ModelSpec

VIDEO = Video("a.mp4", "a.mp4", 1, "1")


def key(name, **options):
    return BatchSettings(spec=ModelSpec(name, options)).key(VIDEO)


def save_with_external_data(path):
    weights = onnx.numpy_helper.from_array(np.zeros((64, 64), np.float32), "weights")
    graph = onnx.helper.make_graph([], "empty", [], [], [weights])
    options = {"save_as_external_data": True, "location": f"{path.name}.data", "size_threshold": 0}
    onnx.save(onnx.helper.make_model(graph), path, **options)


@pytest.mark.parametrize("has_onnx", [True, False])
@pytest.mark.parametrize(("name", "weights"), [("m.xml", "m.bin"), ("m.onnx", "m.onnx.data"), ("m.tflite", "m.tflite")])
def test_a_graph_file_with_other_weights_is_another_task(tmp_path, monkeypatch, name, weights, has_onnx):
    path = tmp_path / name
    if path.suffix == ".onnx":
        save_with_external_data(path)
    else:
        path.write_bytes(b"graph")
        (tmp_path / weights).write_bytes(b"weights")
    if not has_onnx:
        monkeypatch.setitem(sys.modules, "onnx", None)
    before = key(name=str(path))
    (tmp_path / "unrelated.txt").write_bytes(b"")
    assert key(name=str(path)) == before
    (tmp_path / weights).write_bytes(b"other weights")
    assert key(name=str(path)) != before


def test_what_a_model_runs_with_counts_too(tmp_path):
    names = ("net.py", "weights.pth", "corrector.json", "model.safetensors")
    code, weights, corrector, model = files = [tmp_path / name for name in names]
    specs = {
        code: {"name": f"{code}:build"},
        weights: {"name": "small", "weights": weights},
        corrector: {"name": "small-streets", "corrector": str(tmp_path)},
        model: {"name": str(tmp_path), "corrector": "none"},
    }
    for file in files:
        keys = []
        for content in (b"1", b"22"):
            file.write_bytes(content)
            keys.append(key(**specs[file]))
        file.unlink()
        assert keys[0] != keys[1], file.name


def test_a_damaged_graph_is_reported(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"\xff\xff\xff no graph")
    with pytest.raises(ModelError, match=r"m.onnx cannot be read"):
        key(name=str(tmp_path / "m.onnx"))


def test_settings_written_in_another_way_are_the_same_task(tmp_path, monkeypatch):
    (tmp_path / "net.py").write_text("")
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path)

    def settings_key(save, background=None, *, name, **options):
        return BatchSettings(spec=ModelSpec(name, options), save=save, background=background).key(VIDEO)

    for one, same in (("net.py:f", "./net.py:f"), ("model", "./model"), ("model", str(tmp_path / "model"))):
        network = {} if one == "model" else {"name": one}
        other = {"name": same} if network else {"name": "small", "corrector": same}
        network = network or {"name": "small", "corrector": one}
        assert settings_key(("records", "labels"), **network) == settings_key(("labels", "records"), **other)
    plain = {"name": "net.py:f"}
    assert settings_key(("cutout",), "green", **plain) == settings_key(("cutout",), "#008000", **plain)
    assert settings_key(("cutout",), "green", **plain) != settings_key(("cutout",), "red", **plain)
    assert settings_key(("labels",), **plain) != settings_key(("records",), **plain)
    streams = [{"motion": "none", "fusion": 0.5}, {"fusion": 0.5, "motion": "none"}, {"fusion": 0.4, "motion": "none"}]
    first, second, third = (settings_key(("labels",), **plain, **streaming) for streaming in streams)
    assert first == second != third
    assert settings_key(("labels",), **plain, size="48x64") == settings_key(("labels",), **plain, size=(48, 64))
