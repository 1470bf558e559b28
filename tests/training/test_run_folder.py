"""Resuming: an interrupted run ends with the weights of an uninterrupted one."""

import json
import math
import os
import signal
import subprocess

import pytest
import torch

from commands import alone, run_stmg, start_stmg
from stmg.errors import SettingsError, TrainingError
from stmg.training.base import BaseStage, BaseTraining
from stmg.training.recipe import to_yaml
from stmg.training.trainer import train
from trainings import CPU, hold_at, last_weights, run, same_weights, stop_at, street, tiny_recipe
from waiting import PATIENCE, Held


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that was not interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    run(tiny_recipe(), folder)
    return folder


def test_a_run_goes_on_from_the_last_saved_step(tmp_path, whole):
    with pytest.raises(KeyboardInterrupt):
        train(tiny_recipe(), out=tmp_path, machines=CPU, on_step=stop_at(5))
    reports = run(tiny_recipe(), tmp_path)
    assert reports[0].step == 5  # 4 was saved
    assert same_weights(whole, tmp_path)


@alone
def test_ctrl_c_finishes_the_step_and_saves(tmp_path, whole, monkeypatch):
    recipe = tiny_recipe(save_every=100, evaluate_every=100)
    forward, calls, reports = BaseTraining.forward, [], []

    def interrupted_forward(self, batch):
        calls.append(batch)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return forward(self, batch)

    handler = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(BaseTraining, "forward", interrupted_forward)
    with pytest.raises(KeyboardInterrupt):
        train(recipe, out=tmp_path, machines=CPU, on_step=reports.append)
    assert [report.step for report in reports] == [1, 2, 3]  # the third was finished, a fourth not begun
    assert torch.load(tmp_path / "state.pt", weights_only=True)["progress"]["step"] == 3
    assert signal.getsignal(signal.SIGINT) is handler
    assert [report.step for report in run(recipe, tmp_path)] == [4, 5, 6]
    assert same_weights(whole, tmp_path)


@alone
def test_ctrl_c_interrupts_an_evaluation_at_once_and_a_resumed_run_begins_with_it(tmp_path, whole, monkeypatch):
    def interrupted_evaluation(self, network, device):
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("it goes on")

    with monkeypatch.context() as patch:
        patch.setattr(BaseStage, "evaluate", interrupted_evaluation)
        with pytest.raises(KeyboardInterrupt):
            run(tiny_recipe(), tmp_path)
    assert not (tmp_path / "last").exists()
    assert [report.step for report in run(tiny_recipe(), tmp_path)] == [4, 5, 6]  # 3 is evaluated, not trained again
    assert same_weights(whole, tmp_path)
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    del state["progress"]["evaluated"]  # as earlier versions saved it, after the evaluation
    torch.save(state, tmp_path / "state.pt")
    monkeypatch.setattr(BaseStage, "evaluate", interrupted_evaluation)
    assert run(tiny_recipe(), tmp_path) == []


@pytest.mark.slow
def test_a_killed_run_goes_on_as_if_it_had_not_been(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(to_yaml(tiny_recipe(steps=12, save_every=5, evaluate_every=12)))
    options = ("train", path, "--device", "cpu", "--threads", 1, "--out")
    assert run_stmg(*options, tmp_path / "whole").returncode == 0
    held = Held(tmp_path)
    victim = start_stmg(*options, tmp_path / "killed", before=hold_at(8, held))
    held.wait(victim)
    assert (tmp_path / "killed" / "state.pt").exists()
    victim.kill()
    try:
        victim.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        pytest.fail("the killed run did not end")
    assert victim.returncode == -signal.SIGKILL
    assert not (tmp_path / "killed" / "last").exists()
    assert run_stmg(*options, tmp_path / "killed").returncode == 0
    assert same_weights(tmp_path / "whole", tmp_path / "killed")


def test_a_finished_run_stays_as_it_is(tmp_path):
    recipe = tiny_recipe(steps=2, save_every=1)
    run(recipe, tmp_path)
    before = last_weights(tmp_path)
    assert run(recipe, tmp_path) == []
    assert all(torch.equal(before[name], value) for name, value in last_weights(tmp_path).items())


def test_the_best_weights_are_the_best_on_the_split_that_is_scored_now(tmp_path):
    state = tmp_path / "state.pt"
    recipes = {val: tiny_recipe(steps=12, data=street(val=val)) for val in ("", "train", "val")}
    for val, last in (("", 5), ("train", 8)):
        with pytest.raises(KeyboardInterrupt):
            train(recipes[val], out=tmp_path, machines=CPU, on_step=stop_at(last))
        saved = torch.load(state, weights_only=True)
        assert (saved["progress"]["best"] == -math.inf) == (val == "")  # no score, though weights were saved as best
        assert json.loads((tmp_path / "best" / "stmg.json").read_text())["notes"]["step"] == (6 if val else 3)
    saved["progress"]["best"] = 1e9  # the other split is harder
    torch.save(saved, state)
    run(recipes["val"], tmp_path)
    assert json.loads((tmp_path / "best" / "stmg.json").read_text())["notes"]["step"] >= 9


def test_a_folder_belongs_to_one_recipe(tmp_path):
    run(tiny_recipe(steps=2, save_every=1), tmp_path)
    with pytest.raises(SettingsError, match="holds a run with another steps"):
        run(tiny_recipe(steps=3, save_every=1), tmp_path)
    run(tiny_recipe(steps=2, save_every=2, notes="other words"), tmp_path)
    (tmp_path / "recipe.yaml").write_text("stepz: 3")
    with pytest.raises(SettingsError, match="holds a run of another version"):
        run(tiny_recipe(steps=2), tmp_path)


def test_a_damaged_or_foreign_state_is_reported_in_one_line(tmp_path):
    recipe = tiny_recipe(steps=2, save_every=1)
    run(recipe, tmp_path)
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    del state["average"]
    torch.save(state, tmp_path / "state.pt")
    for _ in range(2):
        with pytest.raises(TrainingError, match=r"cannot be resumed from.*delete") as caught:
            run(recipe, tmp_path)
        assert "\n" not in str(caught.value)
        (tmp_path / "state.pt").write_bytes(b"nothing")
