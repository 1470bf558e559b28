"""Importing ONNX Runtime turns its telemetry off."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("onnxruntime")
SCRIPT = "from stmg.runtimes.onnxruntime import OnnxRuntime; OnnxRuntime()"


def test_its_telemetry_is_not_even_set_up(tmp_path):
    command = [sys.executable, "-c", SCRIPT]
    places = {name: str(tmp_path) for name in ("HOME", "XDG_CACHE_HOME")}
    done = subprocess.run(command, env={**os.environ, **places}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.rglob("*onnxruntime*"))  # the identity that it sends, and what is yet to be sent
