import importlib
import sys

import pytest

from stmg.errors import ModelError
from stmg.models.names import is_user_function
from stmg.models.user_code import call_user_function


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("models.py:network", True),
        ("package.module:make", True),
        ("small-streets", False),
        ("owner/model", False),
        ("models.py", False),
        ("models.py:3", False),
        (r"C:\models\small", False),
    ],
)
def test_a_function_is_known_by_its_colon(name, expected):
    assert is_user_function(name) == expected


def test_a_path_that_is_there_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run:last").mkdir()
    assert not is_user_function("run:last")


def test_a_function_of_a_file_finds_the_files_beside_it(tmp_path):
    (tmp_path / "beside_it.py").write_text("answer = 42")
    (tmp_path / "some_models.py").write_text("import beside_it\ndef make():\n    return beside_it.answer")
    assert call_user_function(f"{tmp_path / 'some_models.py'}:make") == 42


def test_a_function_of_a_module_is_called():
    assert call_user_function("os:getcwd")


def test_what_is_not_there_is_named(tmp_path):
    path = tmp_path / "other_models.py"
    with pytest.raises(ModelError, match=r"other_models\.py does not exist"):
        call_user_function(f"{path}:make")
    path.write_text("size = 3\ndef network(): pass\ndef _hidden(): pass")
    for name in ("make", "size"):
        with pytest.raises(ModelError, match=rf"has no function '{name}'; it has: network$"):
            call_user_function(f"{path}:{name}")
    with pytest.raises(ModelError, match="No module named 'nowhere'"):
        call_user_function("nowhere.models:make")


def test_a_function_that_needs_arguments_is_reported(tmp_path):
    path = tmp_path / "wanting_models.py"
    path.write_text("def make(classes):\n    return classes\ndef default(classes=3):\n    return classes\n")
    with pytest.raises(ModelError, match=r"make is called without arguments: missing .*'classes'; give them defaults"):
        call_user_function(f"{path}:make")
    assert call_user_function(f"{path}:default") == 3


def test_an_error_of_the_users_own_code_is_shown_as_it_is(tmp_path):
    path = tmp_path / "broken_models.py"
    path.write_text("def make():\n    return 1 / 0")
    with pytest.raises(ZeroDivisionError):
        call_user_function(f"{path}:make")


def test_a_file_called_like_a_module_of_the_standard_library_replaces_none(tmp_path):
    import queue

    path = tmp_path / "queue.py"
    path.write_text("def build():\n    import sched\n    return sched.__file__")
    (tmp_path / "sched.py").write_text("raise RuntimeError('the standard library comes first')")
    assert call_user_function(f"{path}:build") == importlib.import_module("sched").__file__
    assert sys.modules["queue"] is queue
    assert importlib.reload(queue).Queue


def test_a_file_runs_once_until_it_is_changed(tmp_path):
    path = tmp_path / "counted.py"
    text = f"open({str(tmp_path / 'runs')!r}, 'a').write('x')\ndef one():\n    return 1\ndef two():\n    return 2\n"
    path.write_text(text)
    assert [call_user_function(f"{path}:{name}") for name in ("one", "two", "one")] == [1, 2, 1]
    assert (tmp_path / "runs").read_text() == "x"
    path.write_text(f"{text}def three():\n    return 3\n")
    assert call_user_function(f"{path}:three") == 3
    assert (tmp_path / "runs").read_text() == "xx"


def test_a_module_of_the_current_folder_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own_nets.py").write_text("from os import getcwd\ndef build():\n    return 7\n")
    (tmp_path / "own_package").mkdir()
    (tmp_path / "own_package" / "nets.py").write_text("def build():\n    return 8\n")
    assert call_user_function("own_nets:build") == 7
    assert call_user_function("own_package.nets:build") == 8
    with pytest.raises(ModelError, match=r"own_nets has no function 'make'; it has: build$"):
        call_user_function("own_nets:make")
