import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import stmg
from stmg.errors import MissingPackageError, install_command


@pytest.mark.parametrize("name", stmg.__all__)
def test_every_public_name_is_there_and_documented(name):
    assert getattr(stmg, name).__doc__


def test_public_names_are_the_same_for_type_checkers_for_users_and_for_the_importer():
    tree = ast.parse(Path(stmg.__file__).read_text())
    checking = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {alias.name: node.module for node in checking.body for alias in node.names}
    assert typed == stmg._MODULE_OF
    errors = {name for name in stmg.__all__ if name.endswith(("Error", "Warning"))}
    assert sorted(stmg.__all__) == sorted([*typed, *errors]) == sorted(set(stmg.__all__))
    assert all(issubclass(getattr(stmg, name), stmg.StmgError | stmg.StmgWarning) for name in errors)


def test_importing_the_package_imports_no_heavy_library():
    code = "import sys, stmg; print([name for name in ('torch', 'cv2', 'av', 'numpy') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        stmg.nothing  # noqa: B018


@pytest.mark.parametrize(("name", "extra"), [("accelerate", "torch"), ("export", "export"), ("train", "train")])
def test_a_missing_package_names_the_extra_that_brings_it(monkeypatch, name, extra):
    def import_module(_):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(stmg, "import_module", import_module)
    with pytest.raises(MissingPackageError, match=re.escape(f"stmg.{name} needs PyTorch: {install_command(extra)}")):
        getattr(stmg, name)
