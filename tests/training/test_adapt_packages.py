"""Adapting says what is missing before the work, not after it."""

import sys

import pytest

import stmg
from graphs import save_one_channel
from stmg.errors import MissingPackageError, install_command


def test_a_missing_package_is_said_before_anything_is_opened(tmp_path, monkeypatch):
    graph = save_one_channel(tmp_path / "net.onnx", sigmoid=False)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingPackageError) as error:
        stmg.adapt(stmg.ModelSpec(str(graph), {"runtime": "openvino"}), tmp_path / "nowhere.mp4", tmp_path / "out")
    assert install_command("export") in str(error.value)
    assert not (tmp_path / "out").exists()
