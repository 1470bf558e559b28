"""Teachers: one, several, and for frames without labels."""

import pytest
import torch
from torch import nn

from stmg.data.catalogue import open_dataset
from stmg.data.clips import UNLABELED
from stmg.data.dataset import Dataset
from stmg.errors import ModelError, SettingsError
from stmg.models.torch_models import load_network
from stmg.networks import build
from stmg.training.base import BaseTraining
from stmg.training.losses import distillation_loss, upsample
from stmg.training.recipe import Loss
from stmg.training.stage import Ensemble, collate, load_teacher, make_clips
from trainings import run, street, tiny_recipe


class Constant(nn.Module):
    """Logits that do not depend on the image."""

    def __init__(self, logits, size):
        super().__init__()
        self.logits, self.size = torch.tensor(logits).view(1, -1, 1, 1), size

    def forward(self, image):
        return self.logits.expand(len(image), -1, *self.size)


def test_an_ensemble_gives_the_mean_probabilities_at_the_largest_size():
    one, two = Constant([2.0, 0.0, -1.0], (4, 6)), Constant([0.0, 3.0, 0.5], (8, 12))
    mean = (one.logits.softmax(1) + two.logits.softmax(1)) / 2
    out = Ensemble([one, two])(torch.zeros(2, 3, 16, 24)).softmax(1)
    assert out.shape == (2, 3, 8, 12)
    assert torch.allclose(out, mean.expand_as(out), atol=1e-6)


def test_several_teachers_are_joined_by_plus():
    dataset = open_dataset("street:0-0")
    image = torch.rand(1, 3, 48, 64)
    single, joined = (load_teacher(names, dataset).eval() for names in ("small-streets", "small-streets+small-streets"))
    assert isinstance(joined, Ensemble)
    with torch.no_grad():
        assert torch.allclose(joined(image).softmax(1), single(image).softmax(1), atol=1e-5)
    assert load_teacher("", dataset) is None
    for wrong in ("small-streets+", "+", "small-streets++small-streets"):
        with pytest.raises(SettingsError, match="several joined by"):
            load_teacher(wrong, dataset)


def test_a_folder_may_have_a_plus_in_its_name(tmp_path):
    run(tiny_recipe(steps=1), tmp_path / "one+two")
    teacher = load_teacher(str(tmp_path / "one+two" / "last"), open_dataset("street:0-0"))
    assert not isinstance(teacher, Ensemble)


def test_a_teacher_of_other_classes_is_refused():
    streets = open_dataset("street:0-0")
    dataset = Dataset("three", streets.class_names[:3], streets.palette[:3], {})
    with pytest.raises(ModelError, match="small-streets has 11 classes, three has 3"):
        load_teacher("small-streets", dataset)


def test_a_run_learns_from_several_teachers(tmp_path):
    run(tiny_recipe(steps=2), tmp_path / "teacher")
    names = f"small-streets+{tmp_path / 'teacher' / 'last'}"
    (*_, last) = run(tiny_recipe(steps=2, loss=Loss(teacher=names)), tmp_path / "student")
    assert last.losses["distillation"] > 0
    network, _ = load_network(tmp_path / "student" / "last")
    assert not any("teacher" in name or "frozen" in name for name in network.state_dict())


def test_soft_labels_are_compared_at_the_teachers_size_and_without_a_detour():
    torch.manual_seed(0)
    network, teacher = build("small", 11).train(), Constant([float(n % 3) for n in range(11)], (5, 7))
    recipe = tiny_recipe()
    clips = make_clips(recipe, open_dataset("street:0-0"), 1)
    batch = collate([clips[0], clips[1]])
    training = BaseTraining(network, Loss(temperature=2.0), None, teacher)
    logits = upsample(network(training.normalize(batch.images[:, 0])), (5, 7))
    expected = distillation_loss(logits, teacher(logits), 2.0).mean()
    assert training(batch)["distillation"].item() == pytest.approx(expected.item(), rel=1e-6)


def test_a_teacher_is_neither_trained_nor_saved():
    teacher = build("small", 11)
    training = BaseTraining(build("small", 11), Loss(), None, teacher)
    assert all(name.startswith("network.") for name in training.state_dict())
    assert not any(parameter.requires_grad for parameter in teacher.parameters())
    training.train()
    assert not teacher.training
    training.to(torch.float64)
    assert next(teacher.parameters()).dtype == torch.float64  # it moves along


def test_frames_without_labels_teach_a_base_network_through_its_teacher_alone(tmp_path):
    data = street(unlabeled=("street:5-5",))
    with pytest.raises(SettingsError, match="unless a teacher gives them"):
        tiny_recipe(data=data)
    recipe = tiny_recipe(steps=2, data=data, loss=Loss(teacher="small-streets"))
    (*_, last) = run(recipe, tmp_path)
    assert last.losses["distillation"] > 0
    clips = make_clips(recipe, open_dataset("street:0-0"), 1)
    bare = [number for number in range(len(clips)) if (clips[number].labels == UNLABELED).any()]
    assert len(bare) == len(clips) // 2
    assert {video.name for video in clips.videos} == {"street 0", "street 5"}  # and not what others are scored on
    batch = collate([clips[number] for number in bare[:2]])
    training = BaseTraining(build("small", 11), Loss(), None, build("small", 11))
    assert training(batch)["segmentation"].item() == 0
