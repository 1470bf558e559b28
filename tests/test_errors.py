import re

import pytest

from stmg import errors
from stmg.errors import MissingPackageError, explain_missing, first_line, install_command


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("wrong size"), "wrong size"),
        (RuntimeError("\n  no such layer \nat graph.cc:12"), "no such layer "),
        (ValueError(), "ValueError"),
        (OSError(" \n"), "OSError"),
    ],
)
def test_the_first_line_of_an_error(error, line):
    assert first_line(error) == line


def test_the_command_that_brings_an_extra_works_where_the_package_is(tmp_path, monkeypatch):
    package = tmp_path / "src" / "stmg"
    monkeypatch.setattr(errors, "__file__", str(package / "errors.py"))
    assert install_command("serve") == 'pip install "stmg[serve]"'
    (tmp_path / "pyproject.toml").touch()
    assert install_command("serve") == f'pip install -e "{tmp_path}[serve]"'
    monkeypatch.chdir(tmp_path)
    assert install_command("serve") == 'pip install -e ".[serve]"'


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Packages that are installed: one that is whole, and one that needs another that is not there."""
    (tmp_path / "whole.py").write_text("")
    (tmp_path / "broken.py").write_text("import nowhere_to_be_found")
    monkeypatch.syspath_prepend(tmp_path)


def test_a_package_that_is_not_installed_is_named_with_its_extra(packages):
    with (
        pytest.raises(MissingPackageError, match=re.escape(f"plots need it: {install_command('plots')}")) as caught,
        explain_missing("whole", "absent", why="plots need it", extra="plots"),
    ):
        import absent  # noqa: F401
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_a_package_that_is_installed_and_fails_keeps_its_own_error(packages):
    with (
        pytest.raises(ModuleNotFoundError, match="nowhere_to_be_found"),
        explain_missing("broken", why="plots need it", extra="plots"),
    ):
        import broken  # noqa: F401
