"""The package: a complete wheel that runs with only the base dependencies."""

from __future__ import annotations

import re
import zipfile

import pytest
import yaml

import stmg
from clips import clip
from documents import ROOT
from environments import PROJECT, make_environment, run


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    return make_environment(tmp_path_factory.mktemp("venv"), wheel)


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_its_weights_and_no_tests(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    for name in ("stmg/py.typed", "stmg/cli/__init__.py", "stmg/weights/small-streets/model.safetensors"):
        assert name in names
    assert {name.split("/")[0] for name in names} == {"stmg", f"stmg-{stmg.__version__}.dist-info"}
    assert not [name for name in names if "test" in name or name.endswith(".pyc")]


@pytest.mark.slow
def test_the_wheel_runs_on_its_base_install(python, tmp_path):
    done = run(python, "-m", "stmg", "--help", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "segment" in done.stdout
    done = run(python, python.parent / "stmg", "--version", folder=tmp_path)
    assert done.stdout == f"stmg {stmg.__version__}\n"
    done = run(python, "-c", "import stmg; print(stmg.__file__)", folder=tmp_path)
    assert "site-packages" in done.stdout
    clip(tmp_path / "drive.mp4", 4, (32, 48))
    function = 'lambda image: image.transpose(2, 0, 1).astype("float32")'
    (tmp_path / "nets.py").write_text(f"def build():\n    return {function}\n")
    done = run(python, "-m", "stmg", "segment", "drive.mp4", "--model", "nets.py:build", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "overlay.mp4").is_file()
    done = run(python, "-m", "stmg", "segment", "drive.mp4", "--model", "small-streets", folder=tmp_path)
    assert done.returncode == 2
    assert "stmg[torch]" in done.stderr


def test_the_version_is_in_one_place():
    assert "version" in PROJECT["dynamic"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == stmg.__version__
    assert re.search(rf"^## {re.escape(stmg.__version__)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_the_python_versions_are_those_that_are_tested():
    named = {line.rsplit(" ", 1)[1] for line in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", line)}
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert named == set(workflow["jobs"]["test"]["strategy"]["matrix"]["python"])
