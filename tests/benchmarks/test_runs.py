"""Runs: they execute one after the other, skip results that exist, and keep what is done."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from argparse import Namespace

import pytest

from benchmarks import __main__ as program
from benchmarks import budgets
from benchmarks.history import Commit, stamp_file
from benchmarks.measurement import read_measurement
from benchmarks.run import RESULTS
from benchmarks.runs import RUNS
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
    (out / f"{words[0]}.json").write_text('{"machine": {"stmg": "0.1.0"}}')
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
def test_commands_exist(run, monkeypatch):
    for words in run.exports:
        check_command(["stmg", *words])
        check_command(["stmg", *words, *program._shorter(words[0], trial=True)])
    if not run.program:
        check_command(["stmg", *run.command, *program._shorter(run.command[0], trial=True)])
    else:
        module = importlib.import_module(f"benchmarks.{run.program}")
        parsed = []

        def parse(parser, arguments=None, namespace=None):
            parsed.append(parser.parse_known_args(arguments, namespace)[1])
            raise SystemExit(0)

        monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse)
        monkeypatch.setattr(sys, "argv", [run.program, *run.command, *program._shorter(run.program, trial=True)])
        with pytest.raises(SystemExit):
            module.main()
        assert parsed == [[]]


def test_without_the_data_only_rendered_streets_are_left(capsys, tmp_path):
    chosen = program.choose_runs(make_options(), tmp_path)
    assert {"ddrnet23-slim-streets", "budgets-small-streets"} <= {run.name for run in chosen}
    assert not any("CAMVID" in word for run in chosen for word in run.command)
    assert "lite0-camvid is skipped: it needs CamVid, --data FOLDER" in capsys.readouterr().out


def test_a_result_of_this_code_and_command_is_left_out(tmp_path, capsys, monkeypatch):
    run = next(run for run in RUNS if run.name == "ddrnet23-slim-streets")
    path = tmp_path / run.file
    path.write_bytes((RESULTS / run.file).read_bytes())
    options = make_options(only=run.name)
    monkeypatch.setattr(
        program, "why_outdated", lambda version, paths: "" if version.endswith("+g123456789abc") else "old"
    )
    assert run in program.choose_runs(options, tmp_path)
    stamp_file(path, Commit("123456789abc", dirty=False))
    capsys.readouterr()
    assert run not in program.choose_runs(options, tmp_path)
    assert f"{run.name} is skipped: its result is of this code" in capsys.readouterr().out
    assert run in program.choose_runs(make_options(only=run.name, again=True), tmp_path)
    content = json.loads(path.read_text())
    for changed in ({**content, "command": "stmg benchmark something else"}, {**content, "interrupted": True}):
        path.write_text(json.dumps(changed))
        assert run in program.choose_runs(options, tmp_path)


def test_results_from_before_commits_were_recorded_are_called_so(capsys, tmp_path):
    (run,) = (run for run in RUNS if run.name == "ddrnet23-slim-streets")
    content = json.loads((RESULTS / run.file).read_text())
    content["machine"]["stmg"] = "0.1.0"
    (tmp_path / run.file).write_text(json.dumps(content))
    assert program.why_measure(run, tmp_path) == "from before commits were recorded"


def test_a_kept_result_names_the_commit_that_was_measured(work, tmp_path, monkeypatch):
    commits = iter(2 * [Commit("123456789abc", False)])
    monkeypatch.setattr(program, "current_commit", lambda paths: next(commits))
    (run,) = (run for run in RUNS if run.name == "ddrnet23-slim-streets")
    assert program.execute(run, work, tmp_path / "kept", set(), trial=True)
    assert json.loads((tmp_path / "kept" / run.file).read_text())["machine"]["stmg"] == "0.1.0+g123456789abc"
    commits = iter([Commit("123456789abc", False), Commit("ffffffffffff", False)])  # committed while it ran
    assert program.execute(run, work, tmp_path / "kept", set(), trial=True)
    assert json.loads((tmp_path / "kept" / run.file).read_text())["machine"]["stmg"] == "0.1.0+g123456789abc.dirty"


def test_an_export_that_several_runs_need_is_made_once(work, tmp_path):
    runs = [run for run in RUNS if run.name in ("ddrnet23-slim-camvid", "ddrnet23-slim-camvid-finer-motion")]
    assert program.execute_all(runs, work, tmp_path / "kept", trial=False) == []
    exports = [tuple(words) for words in calls(work) if words[0] == "export"]
    assert len(exports) == len(set(exports)) == 3


def test_runs_go_on_after_one_that_failed_and_results_are_kept(work, tmp_path, capsys):
    runs = [run for run in RUNS if run.name in ("lite0-camvid", "lite0-camvid-pytorch", "ddrnet23-slim-streets")]
    failed = program.execute_all(runs, work, tmp_path / "kept", trial=False)
    assert [run.name for run in failed] == ["lite0-camvid"]
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == [
        "ddrnet23-slim-streets.json",
        "lite0-camvid-pytorch.json",
    ]
    said = capsys.readouterr().out
    first, total = runs[0].minutes, sum(run.minutes for run in runs)
    assert f"1/3 lite0-camvid: about {first} min, {total} min for all that is left" in said
    # As the results say of themselves what was typed, and it is the same on every machine.
    assert ["stmg", *calls(work)[-1]] == runs[-1].command_line.split()
    assert calls(work)[0][:2] == ["export", "lite0-camvid"]


def test_a_trial_is_short(work, tmp_path):
    (run,) = (run for run in RUNS if run.name == "ddrnet23-slim-streets")
    assert program.execute_all([run], work, tmp_path / "kept", trial=True) == []
    assert calls(work)[0][-6:] == ["--frames", "6", "--repeats", "1", "--out", "results/ddrnet23-slim-streets"]


def test_ctrl_c_keeps_what_is_done_and_writes_the_tables(monkeypatch, tmp_path):
    written = []

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "execute_all", stop)
    monkeypatch.setattr(program, "write_documents", lambda: written.append(True) or [])
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


@pytest.mark.parametrize("mode", ["offline", "online"])
def test_budgets_are_measured_on_streets(mode, tmp_path, monkeypatch):
    out = tmp_path / "budgets.json"
    words = (
        f"small-streets street:40-40 --mode {mode} --motions dis --longest 12 --budgets 0.4 2 --length 4 --out {out}"
    )
    monkeypatch.setattr(sys, "argv", ["budgets", *words.split()])
    budgets.main()
    rows = read_measurement(out).rows
    assert list(rows) == ["dis, longest 12, budget 0.4", "dis, longest 12, budget 2"]
    assert rows["dis, longest 12, budget 2"]["frames"] >= rows["dis, longest 12, budget 0.4"]["frames"] >= 1


def test_the_papers_mode_is_measured_on_exports_with_partial_frames_alone():
    for run in RUNS:
        runtimes = {row.reference for row in run.rows if row.kind == "paper" and row.runtime is not None}
        assert not runtimes or all("--partial" in command for command in run.exports), run.name
        assert len(runtimes) in (0, len(run.exports)), run.name


def test_runs_that_share_an_exported_folder_export_it_by_the_same_command():
    commands = {}
    for command in (command for run in RUNS for command in run.exports):
        assert commands.setdefault(command[-1], command) == command
