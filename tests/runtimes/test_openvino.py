"""Importing OpenVINO turns its telemetry off, and unreadable files raise clear errors."""

import os
import subprocess
import sys

import pytest

from stmg.errors import ModelError
from stmg.runtimes.openvino import READERS, OpenVino

pytest.importorskip("openvino")
SCRIPT = """
from stmg.runtimes.openvino import import_openvino
import_openvino().convert_model
try:
    import nncf
except ImportError:
    pass
"""


def test_its_telemetry_is_not_even_set_up(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "TF_BUILD", "JENKINS_URL")}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, env={**environment, "HOME": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "intel").exists()  # where the identity that it sends would be


@pytest.mark.parametrize("suffix", READERS)
def test_a_damaged_file_is_reported(tmp_path, suffix):
    path = tmp_path / f"net{suffix}"
    path.write_bytes(b"\xff\xfe no graph" * 20)
    with pytest.raises(ModelError, match=r"net\.\w+ cannot be loaded: \S"):
        OpenVino(1).open(path)
