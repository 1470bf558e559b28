"""Help, version and errors: mistakes of the user, problems of the machine, bugs in stmg or in user code."""

import re
import subprocess
import sys

import cv2
import numpy as np
import pytest

import stmg
import stmg.cli
from commands import is_one_line, run_stmg, spawn_stmg
from stmg.errors import FrameError, MissingPackageError, SettingsError, StmgError, TrainingError

VERBS = (
    "segment",
    "serve",
    "evaluate",
    "benchmark",
    "ablate",
    "tune",
    "report",
    "export",
    "inspect",
    "train",
    "data",
    "demo",
)


def test_help_lists_every_verb_with_a_line_about_it():
    text = spawn_stmg("--help", columns=80).stdout
    for verb in VERBS:
        assert re.search(rf"^│ {verb} +\w", text, re.MULTILINE), verb
    for panel in ("Run", "Measure", "Train"):
        assert f"─ {panel} ─" in text
    assert spawn_stmg("--version").stdout.strip() == f"stmg {stmg.__version__}"


@pytest.mark.parametrize("verb", [*((verb,) for verb in VERBS), ("data", "check")], ids=" ".join)
def test_the_help_of_each_verb_fits_a_terminal(verb):
    done = run_stmg(*verb, "--help", columns=80)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "…" not in done.stdout


def test_help_needs_neither_pytorch_nor_the_video_libraries():
    script = (
        "import sys, stmg.cli; print(*[name for name in ('torch', 'cv2', 'av', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def raise_in_main(monkeypatch, capsys, error):
    """What `main` prints for an error out of a verb, and its exit code."""
    namespace = {"error": error}
    exec("def app(**options):\n    raise error", namespace)  # in no file, so it does not pass for a user's own code
    monkeypatch.setattr(stmg.cli, "app", namespace["app"])
    with pytest.raises(SystemExit) as left:
        stmg.cli.main()
    return left.value.code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StmgError("wrong"), 2),
        (SettingsError("wrong"), 2),
        (FrameError("wrong"), 2),
        (TrainingError("wrong"), 2),
        (MissingPackageError("wrong"), 2),
        (FileNotFoundError(2, "No such file or directory", "wrong.mp4"), 2),
        (PermissionError(13, "Permission denied", "wrong.mp4"), 1),
        (OSError(28, "No space left on device: wrong.mp4"), 1),
        (MemoryError("wrong"), 1),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: wrong"), 1),
    ],
)
def test_a_users_mistake_and_the_machines_trouble_are_one_line(monkeypatch, capsys, error, code):
    got, text = raise_in_main(monkeypatch, capsys, error)
    assert got == code
    assert is_one_line(text)
    assert text.startswith("error:")
    assert "wrong" in text


def test_a_message_of_several_lines_becomes_one_and_brackets_stay(monkeypatch, capsys):
    _, text = raise_in_main(monkeypatch, capsys, SettingsError("first\n  second [bold]third[/bold]"))
    assert text == "error: first second [bold]third[/bold]\n"


@pytest.mark.parametrize(
    "error", [TypeError("oh"), ValueError("oh"), KeyError("oh"), RuntimeError("oh"), AssertionError("oh")]
)
def test_anything_else_is_a_bug_with_its_traceback(monkeypatch, capsys, error):
    code, text = raise_in_main(monkeypatch, capsys, error)
    assert code == 1
    assert text.startswith("Traceback")
    assert f"{type(error).__name__}: " in text
    assert text.endswith("this is a bug in stmg\n")


def test_a_missing_pytorch_names_the_extra(monkeypatch, capsys):
    code, text = raise_in_main(monkeypatch, capsys, ModuleNotFoundError("No module named 'torch'", name="torch"))
    assert code == 2
    assert is_one_line(text)
    assert '[torch]"' in text
    code, text = raise_in_main(monkeypatch, capsys, ModuleNotFoundError("No module named 'cv3'", name="cv3"))
    assert code == 1
    assert "this is a bug in stmg" in text


def test_a_mistake_shows_its_traceback_where_that_is_wanted(monkeypatch, capsys):
    monkeypatch.setenv("STMG_DEBUG", "1")
    code, text = raise_in_main(monkeypatch, capsys, SettingsError("wrong"))
    assert code == 2
    assert "Traceback" in text
    assert "bug in stmg" not in text


@pytest.mark.parametrize("error", ["OSError(28, 'full')", "ValueError('wrong')", "FileNotFoundError(2, 'gone')"])
def test_an_error_out_of_a_users_file_keeps_its_traceback(tmp_path, error):
    (tmp_path / "mine.py").write_text(f"def box():\n    raise {error}\n")
    (tmp_path / "frames").mkdir()
    cv2.imwrite(str(tmp_path / "frames" / "0.png"), np.zeros((32, 32, 3), np.uint8))
    model = f"{tmp_path / 'mine.py'}:box"
    done = run_stmg("segment", tmp_path / "frames", "--model", model, "--out", tmp_path / "out")
    assert done.returncode == 1
    assert "mine.py" in done.stderr
    assert f"raise {error}" in done.stderr
    assert "bug in stmg" not in done.stderr


def test_an_error_that_ours_explains_still_names_the_users_own_file_and_line(tmp_path):
    code = tmp_path / "mine.py"
    code.write_text(
        "from torch import nn\nclass Net(nn.Module):\n    def forward(self, image):\n        return image.view(1, 2)\n"
        "def build():\n    return Net()\ndef needs():\n    import nowhere_to_be_found\n"
    )
    (tmp_path / "broken.py").write_text("def build(:\n")
    (tmp_path / "bytes.py").write_bytes(b"name = '\xff'\n")
    for model, exit_code, message in (
        (f"{code}:build", 2, f"({code}, line 4, in forward)"),
        (f"{code}:needs", 1, f'File "{code}", line 8, in needs'),
        (f"{tmp_path / 'broken.py'}:build", 2, f"{tmp_path / 'broken.py'}, line 1: invalid syntax"),
        (f"{tmp_path / 'bytes.py'}:build", 2, "bytes.py"),
    ):
        done = run_stmg("inspect", model)
        assert done.returncode == exit_code, done.stderr
        assert message in done.stderr
        assert "bug in stmg" not in done.stderr
        assert is_one_line(done.stderr) == (exit_code == 2)


def test_what_is_typed_wrong_names_the_option():
    done = spawn_stmg("segment", "a.mp4", "--modle", "x")
    assert done.returncode == 2
    assert "--modle" in done.stderr
    assert run_stmg("segmnt").returncode == 2
