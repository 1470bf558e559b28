from pathlib import Path

import pytest

from stmg.errors import SettingsError
from stmg.training.recipe import Recipe, read_recipe, to_yaml

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.yaml"))


def write(tmp_path, text):
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_published_recipe_can_be_read(path):
    assert read_recipe(path).notes


def test_there_are_published_recipes():
    assert len(RECIPES) > 10


def test_a_recipe_written_out_is_the_same_recipe(tmp_path):
    recipe = read_recipe(
        write(tmp_path, "steps: 7\ndata: {size: [64, 96], movable_classes: [Car]}\nstmg: {constant_mask: 0.8}")
    )
    assert (recipe.steps, recipe.data.size, recipe.data.movable_classes) == (7, (64, 96), ("Car",))
    assert read_recipe(write(tmp_path, to_yaml(recipe))) == recipe


def test_overrides_change_the_file(tmp_path):
    path = write(tmp_path, "optimizer: {name: sgd}")
    recipe = read_recipe(path, ["optimizer.learning_rate=1e-2", "data.size=[96, 128]", "pretrained="])
    assert (recipe.optimizer.name, recipe.optimizer.learning_rate) == ("sgd", 0.01)
    assert (recipe.data.size, recipe.pretrained) == ((96, 128), "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stepz: 3", "no setting stepz; there are stage, network"),
        ("data: {sizes: 3}", r"no setting data.sizes; there are path"),
        ("steps: many", "steps is a whole number; got 'many'"),
        ("steps: 0", "steps is at least 1; got 0"),
        ("steps: true", "steps is a whole number"),
        ("data: 3", "data is a group of settings"),
        ("data: {size: [1, 2, 3]}", r"data.size is a list of 2; got \[1, 2, 3\]"),
        ("optimizer: {name: lion}", "optimizer.name is one of sgd, adamw; got 'lion'"),
        ("augment: {scale: [2, 1]}", "augment.scale is two numbers above 0 and at most 16, in order"),
        ("stage: stmg", "the second stage needs clips"),
        ("stage: stmg\ndata: {length: 2}\nloss: {undo_class_weights: 0.5}", "loss.undo_class_weights is 0"),
        ("data: {unlabeled: [a.mp4]}", "unless a teacher gives them: loss.teacher"),
        ("loss: {temperature: 0}", "loss.temperature is above 0; got 0"),
        ("- 3", r"holds \[3\], not values by name"),
        ("steps: [3", "is not YAML"),
    ],
)
def test_mistakes_are_named(tmp_path, text, message):
    with pytest.raises(SettingsError, match=message):
        read_recipe(write(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data: {storage_scale: 1e30}", "data.storage_scale is above 0 and at most 8; got 1e"),
        ("data: {storage_scale: .inf}", "data.storage_scale is a finite number; got inf"),
        ("data: {size: [60000, 60000]}", "data.size has sides up to .* 60000x60000 is too large"),
        ("augment: {crop: [60000, 60000]}", "augment.crop"),
        ("data: {workers: 100000}", "data.workers is from 0 to 256"),
        ("batch: 1000000000", "batch is at most 65536"),
    ],
)
def test_what_no_machine_can_do_is_refused(tmp_path, text, message):
    with pytest.raises(SettingsError, match=message):
        read_recipe(write(tmp_path, text))


def test_overrides_that_cannot_be_read_are_named(tmp_path):
    path = write(tmp_path, "steps: 3")
    with pytest.raises(SettingsError, match="'steps' is not a setting; they look like"):
        read_recipe(path, ["steps"])
    with pytest.raises(SettingsError, match="steps is a setting, not a group"):
        read_recipe(path, ["steps.more=3"])
    with pytest.raises(SettingsError, match="is not YAML"):
        read_recipe(path, ["augment.crop=[288,384"])
    with pytest.raises(SettingsError, match="No such file"):
        read_recipe(tmp_path / "none.yaml")


def test_defaults_are_a_recipe():
    assert Recipe().stage == "base"
