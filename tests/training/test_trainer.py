"""Training runs: they learn, keep the best weights, start from Python, and report problems."""

import json
from contextlib import nullcontext
from dataclasses import replace

import cv2
import pytest
import torch
from safetensors.torch import load_file

import stmg
from commands import run_stmg
from stmg.errors import DataError, ModelError, SettingsError, TrainingError
from stmg.models.torch_models import load_network
from stmg.training.processes import Machines
from stmg.training.recipe import Loss, Optimizer, to_yaml
from stmg.training.trainer import train
from trainings import CPU, SIZE, last_weights, run, street, tiny_recipe


def test_a_run_learns_and_leaves_a_checkpoint(tmp_path):
    recipe = tiny_recipe(steps=25, batch=4, optimizer=Optimizer(learning_rate=5e-3))
    losses = [report.losses["loss"] for report in run(recipe, tmp_path)]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
    segmenter = stmg.load(tmp_path / "last")
    assert segmenter.class_names[3] == "Road"
    assert (tmp_path / "recipe.yaml").read_text() == to_yaml(recipe)
    assert list((tmp_path / "tensorboard").iterdir())


def test_evaluation_keeps_the_best_and_draws(tmp_path):
    (*_, last) = run(tiny_recipe(data=street(val="train")), tmp_path)
    assert 0 <= last.figures["miou"] <= 100
    assert {path.name for path in (tmp_path / "pictures").iterdir()} == {"000003.jpg", "000006.jpg"}
    card = json.loads((tmp_path / "best" / "stmg.json").read_text())
    assert card["notes"]["figures"]["score"] >= last.figures["score"] - 1e-9
    assert json.loads((tmp_path / "last" / "stmg.json").read_text())["notes"]["step"] == 6


def test_from_python_by_the_path_of_a_recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(to_yaml(tiny_recipe()))
    folder = stmg.train("tiny.yaml", ["steps=2", "ema_decay=0"], machines=CPU)
    assert folder.resolve() == tmp_path / "runs" / "tiny"
    assert "steps: 2\n" in (folder / "recipe.yaml").read_text()
    assert last_weights(folder)
    assert stmg.train(tmp_path / "tiny.yaml", "steps=1", out="other", machines=CPU).resolve() == tmp_path / "other"


def test_a_recipe_without_a_file_takes_a_folder_and_no_overrides(tmp_path):
    with pytest.raises(SettingsError, match="out="):
        train(tiny_recipe(), machines=CPU)
    with pytest.raises(SettingsError, match=r"dataclasses\.replace"):
        train(tiny_recipe(), ["steps=3"], out=tmp_path, machines=CPU)


@pytest.mark.slow
def test_two_processes_learn_what_one_learns_on_the_joined_batch(tmp_path):
    # Plain SGD, so that a step is the gradient itself; statistics of batch-norms are each process's own, so they rest.
    recipe = tiny_recipe(
        steps=2,
        batch=4,
        ema_decay=0.0,
        frozen_norm=True,
        evaluate_every=2,
        optimizer=Optimizer(name="sgd", learning_rate=0.1, momentum=0.0, schedule="constant", warm_up=0),
        loss=Loss(class_weights="root"),
    )
    path = tmp_path / "recipe.yaml"
    path.write_text(to_yaml(recipe))
    for devices in (1, 2):
        options = ("--device", "cpu", "--devices", devices, "--threads", 1, "--out", tmp_path / str(devices))
        result = run_stmg("train", path, *options)
        assert result.returncode == 0, result.stdout + result.stderr
    one, two = last_weights(tmp_path / "1"), last_weights(tmp_path / "2")
    for name in one:
        assert torch.allclose(one[name], two[name], rtol=1e-4, atol=1e-6), name


def test_a_loss_that_is_not_a_number_stops_the_run_and_saves_the_batch(tmp_path):
    diverging = Optimizer(name="sgd", learning_rate=1e30, schedule="constant", warm_up=0)
    with pytest.raises(TrainingError, match="not a number at step"):
        run(tiny_recipe(steps=30, optimizer=diverging), tmp_path)
    assert load_file(tmp_path / "failed_batch_0.safetensors")["images"].shape == (2, 1, *SIZE, 3)


def count_threads():
    return cv2.getNumThreads(), torch.get_num_threads()


@pytest.mark.parametrize("learning_rate", [1e-3, 1e30])
def test_threads_are_as_many_afterwards_as_before_even_after_an_error(tmp_path, learning_rate):
    opencv, torchs = count_threads()
    cv2.setNumThreads(3)
    try:
        settings = Optimizer(name="sgd", learning_rate=learning_rate, schedule="constant", warm_up=0)
        recipe = tiny_recipe(steps=2 if learning_rate < 1 else 30, optimizer=settings)
        within = []
        with nullcontext() if learning_rate < 1 else pytest.raises(TrainingError):
            machines = replace(CPU, threads=torchs + 1)
            train(recipe, out=tmp_path, machines=machines, on_step=lambda _: within.append(count_threads()))
        assert set(within) == {(1, torchs + 1)}
        assert count_threads() == (3, torchs)
    finally:
        cv2.setNumThreads(opencv)


def test_a_batch_that_cannot_be_shared(tmp_path):
    with pytest.raises(SettingsError, match="a batch of 3 cannot be shared by 2"):
        train(tiny_recipe(batch=3), out=tmp_path, machines=Machines(device="cpu", devices=2))


def test_one_clip_is_too_few_for_a_batch_norm(tmp_path):
    with pytest.raises(SettingsError, match=r"two clips per process.*frozen_norm=true"):
        run(tiny_recipe(batch=1), tmp_path)
    with pytest.raises(SettingsError, match=r"at least two clips per process: set batch=2 or more$"):
        run(tiny_recipe(stage="stmg", batch=1, frozen_norm=True, data=street(length=2)), tmp_path)


@pytest.mark.parametrize(
    "machines",
    [
        Machines(device="abacus"),
        Machines(device="cpu", precision="fp16"),
    ],
)
def test_machines_that_are_not_there_are_reported_in_one_line(tmp_path, machines):
    with pytest.raises(SettingsError, match=r"abacus|fp16") as caught:
        train(tiny_recipe(), out=tmp_path, machines=machines)
    assert "\n" not in str(caught.value)


def test_a_run_starts_from_a_checkpoint_by_its_folder_or_its_name(tmp_path):
    still = Optimizer(learning_rate=1e-12, warm_up=0)
    for source, name in (("small-streets", "first"), (str(tmp_path / "first" / "last"), "second")):
        run(tiny_recipe(steps=1, ema_decay=0.0, pretrained=source, optimizer=still, frozen_norm=True), tmp_path / name)
    shipped, started = (load_network(name)[0].plain() for name in ("small-streets", tmp_path / "second" / "last"))
    for name, value in shipped.named_parameters():
        assert torch.allclose(value, dict(started.named_parameters())[name], atol=1e-4)
    with pytest.raises(ModelError, match="nowhere"):
        run(tiny_recipe(pretrained="nowhere"), tmp_path / "nowhere")


def test_a_split_that_is_not_there_is_reported_before_the_first_step_and_may_be_left_out_later(tmp_path):
    with pytest.raises(DataError, match="test"):
        run(tiny_recipe(data=street(val="test")), tmp_path)
    run(tiny_recipe(data=street(val="val"), steps=2), tmp_path)
    run(tiny_recipe(data=street(val=""), steps=2), tmp_path)
