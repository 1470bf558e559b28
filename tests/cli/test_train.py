import json
import re
import signal

import pytest
import typer

from commands import is_one_line, run_stmg, start_stmg
from stmg.cli.train import StepReporter, train
from stmg.training.trainer import StepReport
from trainings import hold_at
from waiting import PATIENCE, Held

STEPS = 12
RECIPE = f"""
network: small
steps: {STEPS}
batch: 2
evaluate_every: {STEPS}
save_every: {STEPS}
data: {{path: "street:0-0", size: [48, 64], storage_scale: 1.0, val: ""}}
augment: {{crop: [48, 64]}}
"""


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(RECIPE)
    return path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.yaml",), "No such file"),
        (("bare.yaml",), "no data is given"),
        (("bare.yaml", "data.path=street:0-0", "network=big"), "there is no network 'big'"),
        (("bare.yaml", "speed=3"), "speed"),
        (("bare.yaml", "batch"), "batch"),
        (("bare.yaml", "data.path=street:0-0", "--device", "quantum"), "quantum"),
        (("bare.yaml", "data.path=street:0-0", "--precision", "fp8"), "fp8"),
    ],
)
def test_what_cannot_be_trained_is_refused_in_a_line(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bare.yaml").write_text("network: small")
    device = () if "--device" in arguments else ("--device", "cpu")
    done = run_stmg("train", *arguments, "--out", tmp_path / "run", *device)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert is_one_line(done.stderr)


@pytest.mark.slow
def test_a_signal_ends_the_step_saves_and_the_same_command_goes_on(recipe, tmp_path):
    out = tmp_path / "run"
    command = ("train", recipe, "--out", out, "--device", "cpu", "--threads", 1)
    held, stopped = Held(tmp_path), 5
    process = start_stmg(*command, before=hold_at(stopped, held))
    held.wait(process)
    process.send_signal(signal.SIGTERM)
    held.release()
    printed, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + signal.SIGTERM, error
    assert "Traceback" not in error
    assert re.search(rf"step \d+/{STEPS}", printed)
    assert f"stopped after step {stopped} and saved; the same command resumes" in printed
    assert not (out / "last").exists()
    done = run_stmg(*command)
    assert done.returncode == 0, done.stderr
    assert int(re.search(rf"step (\d+)/{STEPS}", done.stdout)[1]) == stopped + 2  # the first is only counted from
    assert json.loads((out / "last" / "stmg.json").read_text())["notes"]["step"] == STEPS
    assert "done" in done.stdout


def test_ctrl_c_before_the_first_step_claims_nothing(recipe, tmp_path, monkeypatch, capsys):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("stmg.training.trainer.train", interrupt)
    with pytest.raises(typer.Exit) as left:
        train(recipe, out=tmp_path / "run")
    assert left.value.exit_code == 130
    assert "nothing was saved yet" in capsys.readouterr().out


def test_figures_of_an_evaluation_are_printed_once(capsys):
    reporter = StepReporter()
    figures = {"miou": 61.5, "score": 1.0, "iou road": 99.0}
    for step in (1, 2):
        reporter(StepReport(step, 5, {"loss": 0.25}, 0.1, figures))
    reporter.close()
    assert capsys.readouterr().out.count("miou 61.50") == 1
    assert reporter.step == 2
