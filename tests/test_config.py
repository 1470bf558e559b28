from pathlib import Path

import pytest

from stmg.config import Recipe, read_recipe, recipe_text

RECIPES = sorted((Path(__file__).parents[1] / "recipes").glob("*.yaml"))


def write(tmp_path, text):
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_published_recipe_can_be_read(path):
    assert read_recipe(path).notes


def test_a_recipe_written_out_is_the_same_recipe(tmp_path):
    recipe = read_recipe(
        write(tmp_path, "steps: 7\ndata: {size: [64, 96], movable: [Car]}\nstmg: {constant_mask: 0.8}")
    )
    assert (recipe.steps, recipe.data.size, recipe.data.movable) == (7, (64, 96), ("Car",))
    assert read_recipe(write(tmp_path, recipe_text(recipe))) == recipe


def test_settings_lie_over_the_file(tmp_path):
    path = write(tmp_path, "optimiser: {name: sgd}")
    recipe = read_recipe(path, ["optimiser.learning_rate=1e-2", "data.size=[96, 128]", "pretrained="])
    assert (recipe.optimiser.name, recipe.optimiser.learning_rate) == ("sgd", 0.01)
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
        ("optimiser: {name: lion}", "optimiser.name is one of sgd, adamw; got 'lion'"),
        ("augment: {scale: [2, 1]}", "augment.scale is two numbers above 0, in order"),
        ("stage: stmg", "the second stage needs clips"),
        ("stage: stmg\ndata: {length: 2}\nloss: {take_back: 0.5}", "loss.take_back is 0"),
        ("- 3", "holds a list, not settings by name"),
        ("steps: [3", "is no YAML"),
    ],
)
def test_mistakes_are_named(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_recipe(write(tmp_path, text))


def test_overrides_that_are_none_are_named(tmp_path):
    path = write(tmp_path, "steps: 3")
    with pytest.raises(ValueError, match="'steps' is no setting; they look like"):
        read_recipe(path, ["steps"])
    with pytest.raises(ValueError, match="steps is a setting, not a group"):
        read_recipe(path, ["steps.more=3"])
    with pytest.raises(ValueError, match="is no YAML"):
        read_recipe(path, ["augment.crop=[288,384"])
    with pytest.raises(ValueError, match="No such file"):
        read_recipe(tmp_path / "none.yaml")


def test_defaults_are_a_recipe():
    assert Recipe().stage == "base"
