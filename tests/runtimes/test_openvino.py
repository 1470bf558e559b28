"""OpenVINO as it is imported: without its telemetry."""

import os
import subprocess
import sys

import pytest

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
