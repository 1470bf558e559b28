"""Settings of a stream: names become objects, and invalid values raise when settings are built."""

import math
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from stmg.errors import SettingsError, StmgError
from stmg.segmenter import VideoSegmenter
from stmg.streaming import values
from stmg.streaming.masks import Masking
from stmg.streaming.motion import DisMotion, MotionEstimator, NoMotion, View
from stmg.streaming.schedulers import (
    SCHEDULERS,
    AlwaysKey,
    DriftBudget,
    Evidence,
    FixedPeriod,
    Level,
    Memory,
    PaperScheduler,
    Scheduler,
)
from stmg.streaming.settings import (
    MODEL,
    MODES,
    SETTINGS,
    STREAM,
    Settings,
    live_settings,
    make_settings,
)
from stmg.video.normalization import Normalization
from zoo import colors, panning


def test_defaults() -> None:
    settings = Settings()
    assert settings.scheduler is None
    assert settings.scheduler_for("online") == DriftBudget()
    assert settings.scheduler_for("offline") == DriftBudget(0.6, longest=12)
    assert isinstance(settings.motion, DisMotion)
    assert (settings.masking, settings.partial_scale, settings.fusion) == (Masking(), 1.0, 0.5)


def test_names_become_objects() -> None:
    settings = make_settings({"scheduler": "paper", "motion": "none", "class_names": ["road", "car"]})
    assert settings.scheduler == PaperScheduler()
    assert isinstance(settings.motion, NoMotion)
    assert settings.class_names == ("road", "car")


def test_sizes_may_come_from_numpy() -> None:
    settings = Settings(size=np.array([48, 64]), model_size=(np.int64(48), np.uint16(64)))  # type: ignore[arg-type]
    for size in (settings.size, settings.model_size):
        assert size == (48, 64)
        assert {type(side) for side in size} == {int}


def test_values_may_be_text() -> None:
    text = {"size": "48x64", "max_change": "2%", "fusion": "0.25", "delay": "9", "threads": "2", "compile": "true"}
    settings = make_settings({**text, "normalize": "half"})
    assert (settings.size, settings.max_change, settings.fusion, settings.delay) == ((48, 64), 0.02, 0.25, 9)
    assert (settings.threads, settings.compile, settings.normalize) == (2, True, Normalization((0.5,) * 3, (0.5,) * 3))
    assert make_settings({"scheduler": "fixed:period=3,between=carry"}).scheduler == FixedPeriod(3, Level.CARRY)


def test_every_setting_says_what_it_is() -> None:
    for name, setting in SETTINGS.items():
        assert setting.help.endswith("."), name
        assert setting.modes, name
        assert setting.group in (STREAM, MODEL), name
    assert set(live_settings()) == {"mode", "motion", "max_change"}
    assert {item.name for item in fields(Settings)} == {*SETTINGS, "default_schedulers"}


def test_help_names_every_value_that_is_allowed() -> None:
    allowed = {
        "mode": MODES,
        "runtime": values.RUNTIMES,
        "precision": values.PRECISIONS,
        "activation": values.ACTIVATIONS,
        "scheduler": tuple(SCHEDULERS),
        "motion": values.list_motions(),
    }
    for name, words in allowed.items():
        assert all(word in SETTINGS[name].help for word in words), name


def test_help_says_for_which_modes_a_setting_is() -> None:
    assert SETTINGS["delay"].full_help == SETTINGS["delay"].help + " For offline mode."
    assert SETTINGS["scheduler"].full_help.endswith(" For online or offline mode.")
    assert SETTINGS["size"].full_help == SETTINGS["size"].help


def test_values_that_a_page_offers_are_allowed() -> None:
    for name, setting in live_settings().items():
        assert setting.offered is not None, name
        for value in setting.offered():
            make_settings({name: value})


def test_a_scheduler_is_for_every_mode_that_honors_it_and_refused_in_others() -> None:
    always = Settings(scheduler="always-key")  # type: ignore[arg-type]
    assert always.scheduler_for("online") == always.scheduler_for("offline") == AlwaysKey()
    paper = Settings(scheduler="paper")  # type: ignore[arg-type]
    assert paper.scheduler_for("online") == PaperScheduler()
    assert [mode for mode in MODES if paper.can_run(mode)] == ["online"]
    for settings, mode, message in (
        (paper, "offline", "paper computes partial frames, which only online mode does"),
        (paper, "realtime", "paper cannot be used in realtime"),
        (always, "realtime", "always-key cannot be used in realtime"),
    ):
        with pytest.raises(SettingsError, match=message):
            settings.scheduler_for(mode)  # type: ignore[arg-type]
        with pytest.raises(SettingsError, match=message):
            replace(settings, mode=mode)  # type: ignore[arg-type]


def test_a_delay_shortens_the_windows_of_offline_mode() -> None:
    assert Settings(delay=8).scheduler_for("offline") == DriftBudget(0.6, longest=3)
    assert Settings(delay=8).scheduler_for("online") == DriftBudget()


def test_options_replace_those_of_a_base_and_nothing_else() -> None:
    base = Settings(motion=NoMotion(), fusion=0.25, palette=np.array([(1, 2, 3)], np.uint8))
    settings = make_settings({"fusion": 0.0}, base)
    assert (settings.fusion, base.fusion) == (0.0, 0.25)
    assert settings.motion is base.motion
    assert settings.palette.tolist() == [[1, 2, 3]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fusoin": 0.1}, r"no setting 'fusoin'; there are mode, size, max_change, scheduler, .*fusion"),
        ({"scheduler": "whenever"}, "no scheduler is called 'whenever'; there are drift, paper"),
        ({"scheduler": 5}, "scheduler is one of drift, paper, fixed, per-frame, always-key or a Scheduler; got 5"),
        (
            {"motion": "raft"},
            "no motion estimator is called 'raft'; there are dis, .*, auto, none",
        ),
        (
            {"motion": None},
            "motion is one of dis, .*, none or derives from stmg.MotionEstimator; got None",
        ),
        ({"masking": 0.5}, r"masking is a Masking, like Masking\(pruning=0.5\); got 0.5"),
        ({"partial_scale": 0}, "partial_scale is above 0 and at most 1; got 0"),
        ({"partial_scale": 1.5}, "partial_scale"),
        ({"partial_scale": "half"}, "partial_scale .* got 'half'"),
        ({"fusion": 1}, "fusion is at least 0 and below 1; got 1"),
        ({"fusion": -0.1}, "fusion"),
        ({"fusion": math.nan}, "fusion"),
        ({"threads": 0}, r"threads is from 1 to .* got 0"),
        ({"threads": 9999}, r"threads is from 1 to \d+ on this machine, which has \d+ cores; got 9999"),
        ({"size": 5}, "size is a height and a width above 0; got 5"),
        ({"model_size": "48 by 64"}, "model_size is HEIGHTxWIDTH, such as 360x480; got '48 by 64'"),
        ({"class_names": 5}, "class_names are names, in the order of the classes; got 5"),
        ({"class_names": "road"}, "class_names are names, .* got 'road'"),
        ({"palette": [(1, 2)]}, r"palette is \(C, 3\), .* got the shape \(1, 2\)"),
        ({"palette": [(0, 0, 256)]}, "palette holds values from 0 to 255; got 0 to 256"),
    ],
)
def test_what_is_not_allowed_is_refused_in_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        make_settings(options)
    assert isinstance(caught.value, StmgError)
    assert "\n" not in str(caught.value)


class EveryThird(Scheduler):
    """A scheduler as the documentation has it."""

    name = "every third"

    def decide(self, evidence: Evidence, memory: Memory) -> Level:
        return Level.KEY if memory.since_key >= 2 else Level.CARRY


class StillCamera(MotionEstimator):
    """A motion estimator as the documentation has it."""

    name = "still"

    def estimate(self, before: View, now: View) -> None:
        return None


def test_a_scheduler_and_a_motion_estimator_of_ones_own() -> None:
    segmenter = VideoSegmenter(colors, scheduler=EveryThird(), motion=StillCamera())
    assert len(list(segmenter.stream(panning(7), mode="offline"))) == 7
    results = list(segmenter.stream(panning(7)))
    assert "".join(result.level.value[0] for result in results) == "kcckcck"
    assert {result.reason for result in results} == {"first frame", "every third"}
    assert {result.motion for result in results if result.level is Level.CARRY} == {"still"}
    assert np.array_equal(results[2].labels, results[0].labels)
