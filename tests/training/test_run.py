import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file

from stmg.checkpoint import load, load_network
from stmg.config import Augment, Data, Loss, Optimiser, Recipe, Stmg, recipe_text
from stmg.data.catalogue import open_dataset
from stmg.data.clips import UNLABELLED
from stmg.data.dataset import DataError
from stmg.networks import build
from stmg.training.base import BaseTraining
from stmg.training.batches import clips_for, collated
from stmg.training.processes import Machines
from stmg.training.run import train
from stmg.training.stages import STAGES

SIZE = (48, 64)
CPU = Machines(device="cpu")


def recipe(**settings):
    return Recipe(
        **{
            "network": "small",
            "steps": 6,
            "batch": 2,
            "average": 0.5,
            "evaluate_every": 3,
            "save_every": 2,
            "data": Data(path="street:0-0", size=SIZE, stored=1.0, val=""),
            "augment": Augment(crop=SIZE),
            **settings,
        }
    )


def weights(folder):
    return load_file(folder / "last" / "model.safetensors")


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def run(made, folder, **settings):
    seen = []
    train(made, folder, STAGES[made.stage], CPU, report=seen.append, **settings)
    return seen


def test_a_run_learns_and_leaves_a_checkpoint(tmp_path):
    made = recipe(steps=25, batch=4, optimiser=Optimiser(learning_rate=5e-3))
    seen = run(made, tmp_path)
    losses = [told.losses["loss"] for told in seen]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
    segmenter = load(tmp_path / "last")
    assert segmenter.class_names[3] == "Road"
    assert (tmp_path / "recipe.yaml").read_text() == recipe_text(made)
    assert list((tmp_path / "tensorboard").iterdir())


def test_evaluation_keeps_the_best_and_draws(tmp_path):
    made = recipe(data=Data(path="street:0-0", size=SIZE, stored=1.0, val="train"))
    (*_, last) = run(made, tmp_path)
    assert 0 <= last.figures["miou"] <= 100
    assert {path.name for path in (tmp_path / "pictures").iterdir()} == {"000003.jpg", "000006.jpg"}
    card = json.loads((tmp_path / "best" / "stmg.json").read_text())
    assert card["notes"]["figures"]["score"] >= last.figures["score"] - 1e-9
    assert json.loads((tmp_path / "last" / "stmg.json").read_text())["notes"]["step"] == 6


def test_a_stopped_run_goes_on_as_if_it_had_not_been(tmp_path):
    run(recipe(), tmp_path / "whole")

    def stop(told):
        if told.step == 5:  # a step after the last saved one
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(recipe(), tmp_path / "part", STAGES["base"], CPU, report=stop)
    seen = run(recipe(), tmp_path / "part")
    assert seen[0].step == 5  # 4 was saved
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "part"))


@pytest.mark.slow
def test_a_killed_run_goes_on_as_if_it_had_not_been(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(recipe_text(recipe(steps=40, save_every=5, evaluate_every=40)))
    base = [sys.executable, "-m", "stmg", "train", str(path), "--device", "cpu", "--threads", "1", "--out"]
    subprocess.run([*base, str(tmp_path / "whole")], check=True, capture_output=True, timeout=240)
    victim = subprocess.Popen([*base, str(tmp_path / "killed")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    state = tmp_path / "killed" / "state.pt"
    deadline = time.monotonic() + 120
    while not state.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(victim.pid, signal.SIGKILL)
    assert victim.wait() == -signal.SIGKILL
    assert not (tmp_path / "killed" / "last").exists()
    subprocess.run([*base, str(tmp_path / "killed")], check=True, capture_output=True, timeout=240)
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "killed"))


@pytest.mark.slow
def test_two_processes_learn_what_one_learns_on_the_joined_batch(tmp_path):
    # Plain SGD, so that a step is the gradient itself; statistics of batch-norms are each process's own, so they rest.
    settings = {
        "steps": 2,
        "batch": 4,
        "average": 0.0,
        "frozen_norm": True,
        "evaluate_every": 2,
        "optimiser": Optimiser(name="sgd", learning_rate=0.1, momentum=0.0, schedule="constant", warm_up=0),
        "loss": Loss(class_weights="root"),
    }
    path = tmp_path / "recipe.yaml"
    path.write_text(recipe_text(recipe(**settings)))
    for devices in (1, 2):
        out = str(tmp_path / str(devices))
        command = [sys.executable, "-m", "stmg", "train", str(path), "--device", "cpu", "--devices", str(devices)]
        done = subprocess.run([*command, "--threads", "1", "--out", out], capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr
    one, two = weights(tmp_path / "1"), weights(tmp_path / "2")
    for name in one:
        assert torch.allclose(one[name], two[name], rtol=1e-4, atol=1e-6), name


def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_batch(tmp_path):
    made = recipe(steps=30, optimiser=Optimiser(name="sgd", learning_rate=1e30, schedule="constant", warm_up=0))
    with pytest.raises(FloatingPointError, match="not a number at step"):
        run(made, tmp_path)
    assert load_file(tmp_path / "failed_batch_0.safetensors")["images"].shape == (2, 1, *SIZE, 3)


def test_a_folder_belongs_to_one_recipe(tmp_path):
    run(recipe(steps=2, save_every=1), tmp_path)
    with pytest.raises(ValueError, match="holds a run with another steps"):
        run(recipe(steps=3, save_every=1), tmp_path)


def test_a_damaged_state_is_said(tmp_path):
    made = recipe(steps=2, save_every=1)
    run(made, tmp_path)
    (tmp_path / "state.pt").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="cannot be read"):
        run(made, tmp_path)


def test_a_batch_that_cannot_be_shared(tmp_path):
    with pytest.raises(ValueError, match="a batch of 3 cannot be shared by 2"):
        train(recipe(batch=3), tmp_path, STAGES["base"], Machines(device="cpu", devices=2))


def test_one_clip_is_too_few_for_a_batch_norm(tmp_path):
    with pytest.raises(ValueError, match="two clips a process"):
        run(recipe(batch=1), tmp_path)


def test_a_run_starts_from_a_checkpoint_by_its_folder_or_its_name(tmp_path):
    still = Optimiser(learning_rate=1e-12, warm_up=0)
    data = Data(path="street:0-0", size=SIZE, stored=1.0, val="")
    for source, name in (("small-streets", "first"), (str(tmp_path / "first" / "last"), "second")):
        made = recipe(steps=1, average=0.0, pretrained=source, data=data, optimiser=still, frozen_norm=True)
        run(made, tmp_path / name)
    shipped, started = (load_network(name)[0].plain() for name in ("small-streets", tmp_path / "second" / "last"))
    for name, value in shipped.named_parameters():
        assert torch.allclose(value, dict(started.named_parameters())[name], atol=1e-4)
    with pytest.raises(ValueError, match="no checkpoint at nowhere"):
        run(recipe(pretrained="nowhere"), tmp_path / "nowhere")


def test_frames_without_labels_teach_a_base_network_through_its_teacher_alone(tmp_path):
    data = Data(path="street:0-0", size=SIZE, stored=1.0, val="", unlabelled=("street:5-5",))
    with pytest.raises(DataError, match="unless a teacher does"):
        run(recipe(data=data), tmp_path / "alone")
    (*_, last) = run(recipe(steps=2, data=data, loss=Loss(teacher="small-streets")), tmp_path / "taught")
    assert last.losses["distillation"] > 0
    clips = clips_for(recipe(data=data, loss=Loss(teacher="small-streets")), open_dataset("street:0-0"), 1)
    bare = [number for number in range(len(clips)) if (clips[number].labels == UNLABELLED).any()]
    assert len(bare) == len(clips) // 2
    batch = collated([clips[number] for number in bare[:2]])
    training = BaseTraining(build("small", 11), Loss(), None, build("small", 11))
    assert training(batch)["segmentation"].item() == 0


def test_distillation_follows_a_teacher_of_the_same_classes(tmp_path):
    run(recipe(steps=2), tmp_path / "teacher")
    made = recipe(steps=2, loss=Loss(teacher=str(tmp_path / "teacher" / "last")))
    (*_, last) = run(made, tmp_path / "student")
    assert last.losses["distillation"] > 0


def test_the_second_stage_goes_on_exactly_too(tmp_path):
    run(recipe(steps=2), tmp_path / "base")
    made = recipe(
        stage="stmg",
        data=Data(path="street:0-0", size=SIZE, stored=1.0, val="", length=2),
        stmg=Stmg(base=str(tmp_path / "base" / "last")),
    )
    run(made, tmp_path / "whole")

    def stop(told):
        if told.step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(made, tmp_path / "part", STAGES["stmg"], CPU, report=stop)
    run(made, tmp_path / "part")
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "part"))
    segmenter = load(tmp_path / "part" / "last")
    assert segmenter.runtime.has_mask_generator


def test_a_second_stage_over_a_second_stage_starts_where_it_ended(tmp_path):
    data = Data(path="street:0-0", size=SIZE, stored=1.0, val="", length=2)
    run(recipe(steps=2), tmp_path / "base")
    for name, base in (("first", "base"), ("again", "first")):
        still = Optimiser(learning_rate=1e-9 if name == "again" else 1e-2)
        stmg = Stmg(base=str(tmp_path / base / "last"))
        run(recipe(stage="stmg", steps=2, average=0.0, data=data, stmg=stmg, optimiser=still), tmp_path / name)
    base, first, again = (load_network(tmp_path / name / "last")[0] for name in ("base", "first", "again"))
    for name, value in first.named_parameters():
        torch.testing.assert_close(again.get_parameter(name), value, rtol=0, atol=1e-6)
    assert any(not torch.equal(base.network.get_parameter(n), p) for n, p in again.second.named_parameters())


def test_the_second_stage_needs_a_base(tmp_path):
    made = recipe(stage="stmg", data=Data(path="street:0-0", size=SIZE, stored=1.0, val="", length=2))
    with pytest.raises(ValueError, match=r"name its checkpoint: stmg.base"):
        run(made, tmp_path)
