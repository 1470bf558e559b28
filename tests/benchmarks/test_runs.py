"""Runs: one after the other, what is there left out, what is done kept."""

from __future__ import annotations

import json
import sys
from argparse import Namespace

import pytest

from benchmarks import __main__ as program
from benchmarks.runs import RUNS, TRIAL
from benchmarks.tables import RESULTS
from test_readme import check_command

FAKE = """
import json, pathlib, sys
words = sys.argv[1:]
with open("calls.jsonl", "a") as calls:
    calls.write(json.dumps(words) + "\\n")
if "exports/lite0/openvino" in words:
    sys.exit(2)
out = pathlib.Path(words[words.index("--out") + 1])
out.mkdir(parents=True, exist_ok=True)
if words[0] != "export":
    (out / f"{words[0]}.json").write_text("{}")
"""


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A working folder in which a program takes the place of stmg that writes down how it was called."""
    package = tmp_path / "fake" / "stmg"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(FAKE)
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    program.link_data(tmp_path, tmp_path / "work")
    return tmp_path / "work"


def make_options(**options) -> Namespace:
    return Namespace(**{"only": "", "data": None, "again": False, "trial": False, **options})


def calls(work) -> list[list[str]]:
    return [json.loads(line) for line in (work / "calls.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_commands_exist(run):
    for words in (*run.exports, run.command, (*run.command, *TRIAL[run.command[0]])):
        check_command(["stmg", *words])


def test_without_the_data_only_rendered_streets_are_left(capsys, tmp_path):
    chosen = program.choose_runs(make_options(), tmp_path)
    assert {run.page for run in chosen} == {"streets"}
    assert "lite0-camvid is skipped: it needs CamVid, --data FOLDER" in capsys.readouterr().out


def test_a_result_of_this_version_and_command_is_left_out(tmp_path, capsys):
    run = next(run for run in RUNS if program.is_current(run))
    options = make_options(data=tmp_path, only=run.name)
    assert run not in program.choose_runs(options)
    assert f"{run.name} is skipped: its result is there" in capsys.readouterr().out
    assert run in program.choose_runs(make_options(data=tmp_path, only=run.name, again=True))
    content = json.loads((RESULTS / f"{run.name}.json").read_text())
    for changed in (
        {**content, "command": "stmg benchmark something else"},
        {**content, "interrupted": True},
        {**content, "machine": {**content["machine"], "stmg": "0.0.1"}},
    ):
        (tmp_path / f"{run.name}.json").write_text(json.dumps(changed))
        assert run in program.choose_runs(options, tmp_path)


def test_runs_go_on_after_one_that_failed_and_results_are_kept(work, tmp_path, capsys):
    runs = [run for run in RUNS if run.name in ("lite0-camvid", "lite0-camvid-pytorch", "ddrnet23-slim-streets")]
    failed = program.carry_out_all(runs, work, tmp_path / "kept", trial=False)
    assert [run.name for run in failed] == ["lite0-camvid"]
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == [
        "ddrnet23-slim-streets.json",
        "lite0-camvid-pytorch.json",
    ]
    said = capsys.readouterr().out
    first, total = runs[0].minutes, sum(run.minutes for run in runs)
    assert f"1/3 lite0-camvid: about {first} min, {total} min for all that is left" in said
    # As the results say of themselves what was typed, and it is the same on every machine.
    assert ["stmg", *calls(work)[-1]] == runs[-1].typed.split()
    assert calls(work)[0][:2] == ["export", "lite0-camvid"]


def test_a_trial_is_short(work, tmp_path):
    (run,) = (run for run in RUNS if run.name == "ddrnet23-slim-streets")
    assert program.carry_out_all([run], work, tmp_path / "kept", trial=True) == []
    assert calls(work)[0][-6:] == ["--frames", "6", "--repeats", "1", "--out", "results/ddrnet23-slim-streets"]


def test_ctrl_c_keeps_what_is_done_and_writes_the_tables(monkeypatch, tmp_path):
    written = []

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "carry_out_all", stop)
    monkeypatch.setattr(program, "write_pages", lambda: written.append(True))
    monkeypatch.setattr(program, "WORK", tmp_path)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--only", "small-streets"])
    assert program.main() == 130
    assert written == [True]


@pytest.mark.parametrize(
    ("arguments", "message"), [(["--only", "nothing"], "--only is part"), (["--data", "nowhere"], "is no folder")]
)
def test_a_mistake_is_one_line(arguments, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
    with pytest.raises(SystemExit) as left:
        program.main()
    assert left.value.code == 2
    assert message in capsys.readouterr().err
