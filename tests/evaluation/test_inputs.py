"""Descriptions of settings name everything that labels depend on."""

import pytest

from stmg import VideoSegmenter
from stmg.evaluation.inputs import open_model
from stmg.evaluation.way import EVERY_FRAME, PAPER_SETTINGS, describe_settings
from stmg.streaming.schedulers import FixedPeriod, Level, PaperScheduler
from stmg.training.pairs import IdentityCorrector
from zoo import colors

DRIFT = "(key_above 0.3, partial_above inf, longest 30)"


class NotBetween(IdentityCorrector):
    between = False


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("online", f"scheduler drift {DRIFT}, motion dis, fusion 0.5"),
        ("offline", "offline drift (key_above 0.6, partial_above inf, longest 12), motion dis"),
        ("realtime", "realtime, motion dis"),
    ],
)
def test_a_corrector_and_a_limit_on_the_change_are_stated(mode, words):
    segmenter = VideoSegmenter(colors)
    assert describe_settings(segmenter, mode) == words
    steered = segmenter.another(corrector=IdentityCorrector(3), max_change=0.02)
    assert describe_settings(steered, mode) == f"{words}, corrector, max_change 0.02"
    unused = segmenter.another(corrector=NotBetween(3))
    assert describe_settings(unused, mode) == words + ("" if mode == "offline" else ", corrector")


@pytest.mark.parametrize("settings", [EVERY_FRAME, PAPER_SETTINGS])
def test_where_nothing_is_carried_no_time_goes_into_a_corrector(settings):
    assert VideoSegmenter(colors, corrector=IdentityCorrector(3)).another(**settings).settings.corrector is None


def test_the_gain_of_masks_is_stated_where_there_are_any(plain, trained_like):
    options = {"scheduler": PaperScheduler(), "partial_scale": 0.7}
    said = [describe_settings(VideoSegmenter(runtime, **options)) for runtime in (plain, trained_like)]
    assert said[0].endswith("partial frames at 0.7")
    assert said[1].endswith("partial frames at 0.7, mask gain 1.5")


def test_settings_that_have_no_effect_are_not_stated():
    carried = VideoSegmenter(colors, partial_scale=0.7, motion="none", scheduler=FixedPeriod(2, Level.CARRY))
    assert describe_settings(carried) == "scheduler fixed (period 2, between carry), motion none, fusion 0"


def test_a_segmenter_is_measured_at_the_size_at_which_it_would_segment():
    meant = VideoSegmenter(colors, model_size=(96, 128))
    assert open_model(meant).size == (96, 128)
    assert open_model(VideoSegmenter(colors, model_size=(96, 128), size=(48, 64))).size == (48, 64)
    assert open_model(meant, size=(24, 32)).size == (24, 32)
    wide = (360, 640)
    assert open_model(meant, source=wide).size == meant.size_for(wide) == (80, 144)  # not squeezed to 96x128
    assert open_model(meant, source=(48, 64)).size == (48, 64)  # nor enlarged
    assert open_model(VideoSegmenter(colors), source=wide).size == wide
