import pytest

from stmg import errors
from stmg.errors import first_line, install_command


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
