"""Settings files come back as they were written, and a mistake in one names the file and what is allowed."""

from __future__ import annotations

import json

import pytest
import torch

import stmg
from stmg.errors import SettingsError
from stmg.models.settings_file import SavedSettings, read_settings, scheduler_fields, write_settings
from stmg.networks import build
from stmg.streaming.schedulers import DriftBudget, FixedPeriod, Level

FULL = SavedSettings(
    mode="offline",
    scheduler=scheduler_fields(DriftBudget()),
    offline=scheduler_fields(FixedPeriod(8, Level.CARRY)),
    motion="dis-fine",
    fusion=0.25,
    size=(64, 96),
    runtime="torch",
    threads=1,
    notes={"model": "small", "checked": True, "fps": 12.5},
)


@pytest.mark.parametrize("name", ["settings.yaml", "deep/settings.json"])
@pytest.mark.parametrize("settings", [SavedSettings(), FULL])
def test_what_is_written_is_read(tmp_path, name, settings):
    write_settings(settings, tmp_path / name)
    assert read_settings(tmp_path / name) == settings
    assert read_settings(tmp_path / name).streaming() == settings.streaming()


def test_only_what_is_given_is_written(tmp_path):
    write_settings(SavedSettings(mode="online"), tmp_path / "s.json")
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
        ("size: 360x480", "size is a list of 2"),
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


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(SettingsError, match=r"nowhere\.yaml cannot be read: No such file"):
        read_settings(tmp_path / "nowhere.yaml")


def test_a_model_is_loaded_with_settings_and_arguments_come_first(tmp_path):
    network = stmg.accelerate(build("small", 5), torch.zeros(1, 3, 64, 96))
    stmg.save(network, tmp_path, stmg.Card("small", 5, (64, 96)))
    write_settings(FULL, tmp_path / "settings.yaml")
    loaded = stmg.load(tmp_path, settings=tmp_path / "settings.yaml").settings
    assert (loaded.mode, loaded.working_size, loaded.motion.name) == ("offline", (64, 96), "dis-fine")
    assert loaded.offline == FixedPeriod(8, Level.CARRY)
    assert loaded.fusion == 0.25
    changed = stmg.load(tmp_path, settings=tmp_path / "settings.yaml", motion="none", working_size=None).settings
    assert (changed.mode, changed.working_size, changed.motion.name) == ("offline", None, "none")
