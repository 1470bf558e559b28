"""Settings files are read as written; a mistake names the file and the allowed values."""

from __future__ import annotations

import json

import pytest
import torch

import stmg
from stmg.errors import SettingsError
from stmg.models.spec import (
    ModelSpec,
    add_arguments,
    merge_options,
    read_settings,
    scheduler_fields,
    write_settings,
)
from stmg.networks import build
from stmg.streaming.schedulers import AlwaysKey, DriftBudget, FixedPeriod, Level
from stmg.streaming.settings import SETTINGS

FULL = {
    "mode": "offline",
    "max_change": 0.02,
    "scheduler": scheduler_fields(DriftBudget(0.5)),
    "motion": "dis-fine",
    "fusion": 0.25,
    "size": (64, 96),
    "runtime": "torch",
    "threads": 1,
    "notes": {"model": "small", "checked": True, "fps": 12.5},
}
EARLIER = """
scheduler: {name: drift, key_above: 0.2}
offline: {name: fixed, period: 8, between: carry}
"""


@pytest.mark.parametrize("name", ["settings.yaml", "deep/settings.json"])
@pytest.mark.parametrize("settings", [{}, FULL])
def test_what_is_written_is_read(tmp_path, name, settings):
    write_settings(settings, tmp_path / name)
    read = read_settings(tmp_path / name)
    if settings:
        assert read.pop("default_schedulers") == {"offline": DriftBudget(0.5)}
    assert read == {name: value for name, value in settings.items() if name not in ("scheduler", "notes")}


def test_only_what_is_given_is_written(tmp_path):
    write_settings({"mode": "online", "motion": None}, tmp_path / "s.json")
    assert json.loads((tmp_path / "s.json").read_text()) == {"mode": "online"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mode: sometimes", "mode is one of offline, online, realtime; got 'sometimes'"),
        ("speed: 3", "there is no setting speed; there are mode, "),
        ("offline: {longest: 3}", "offline has a name"),
        ("offline: {name: often}", "no scheduler is called 'often'"),
        ("offline: {name: drift, every: 3}", "has no setting 'every'"),
        ("size: [0, 3]", "size is a height and a width above 0"),
        ("size: 360", "size is a height and a width above 0"),
        ("network: nets.py:build", "there is no setting network"),
        ("max_change: 200%", "max_change is a share between 0 and 1"),
        ("mode: [", "is not YAML"),
        ("- mode", "holds ['mode'], not values by name"),
    ],
)
def test_a_mistake_names_the_file_and_what_is_allowed(tmp_path, text, message):
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError) as caught:
        read_settings(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_reported_as_missing(tmp_path):
    with pytest.raises(SettingsError, match=r"nowhere\.yaml cannot be read: No such file"):
        read_settings(tmp_path / "nowhere.yaml")


def test_a_model_is_loaded_with_settings_and_arguments_come_first(tmp_path):
    network = stmg.accelerate(build("small", 5), torch.zeros(1, 3, 64, 96))
    stmg.save(network, tmp_path, stmg.Card("small", 5, (64, 96)))
    write_settings(FULL, tmp_path / "settings.yaml")
    loaded = stmg.load(tmp_path, settings=tmp_path / "settings.yaml").settings
    assert (loaded.mode, loaded.size, loaded.motion.name) == ("offline", (64, 96), "dis-fine")
    assert loaded.scheduler_for("offline") == DriftBudget(0.5)
    assert loaded.fusion == 0.25
    changed = stmg.load(tmp_path, settings=tmp_path / "settings.yaml", motion="none", size=None).settings
    assert (changed.mode, changed.size, changed.motion.name) == ("offline", None, "none")


def test_the_scheduler_of_a_file_is_for_its_mode_and_for_every_mode_if_it_names_none(tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_text("{mode: offline, scheduler: {name: fixed, period: 8, between: carry}}")
    settings = ModelSpec("small-streets", read_settings(path)).settings
    assert settings.scheduler_for("offline") == FixedPeriod(8, Level.CARRY)
    assert isinstance(settings.scheduler_for("online"), DriftBudget)
    path.write_text("scheduler: always-key")
    settings = ModelSpec("small-streets", read_settings(path)).settings
    assert {settings.scheduler_for(mode) for mode in ("online", "offline")} == {AlwaysKey()}
    path.write_text("{mode: offline, scheduler: paper}")
    with pytest.raises(SettingsError, match="paper computes partial frames, which offline mode does not"):
        read_settings(path)


def test_a_file_written_earlier_holds_a_scheduler_for_each_mode(tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_text(EARLIER)
    settings = stmg.load("small-streets", settings=path).settings
    assert settings.scheduler is None
    assert settings.scheduler_for("online") == DriftBudget(0.2)
    assert settings.scheduler_for("offline") == FixedPeriod(8, Level.CARRY)


def test_files_of_another_s_name_no_code_and_no_files():
    for name in ("network", "weights", "corrector", "device"):
        assert not SETTINGS[name].in_files


def test_layers_are_merged_once_and_later_ones_count() -> None:
    card = {
        "fusion": 0.1,
        "motion": "none",
        "default_schedulers": {"online": DriftBudget(1), "offline": DriftBudget(2)},
    }
    file = {"fusion": 0.2, "size": (8, 8), "default_schedulers": {"offline": DriftBudget(3)}}
    merged = merge_options(card, file, {"fusion": 0.3, "size": None})
    both = {"online": DriftBudget(1), "offline": DriftBudget(3)}
    assert merged == {"fusion": 0.3, "motion": "none", "default_schedulers": both}


@pytest.mark.parametrize(("name", "mode"), [("fusion", "offline"), ("delay", "online"), ("partial_scale", "realtime")])
def test_an_argument_that_the_mode_does_not_use_is_refused(name: str, mode: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} is for .* mode; the mode is {mode}"):
        add_arguments({"mode": mode}, {name: 2})
    assert name in add_arguments({name: 2}, {"mode": mode})
