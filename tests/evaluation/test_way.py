"""Ways: fields for programs, a name for people."""

import json
from dataclasses import replace

import pytest

from stmg import VideoSegmenter
from stmg.evaluation.way import BASE, OFFLINE, ONLINE, Way, apply_way, chosen_settings, plain_scheduler
from stmg.streaming.schedulers import DriftBudget, FixedPeriod, Level
from zoo import colors


@pytest.mark.parametrize(
    ("way", "name"),
    [
        (BASE, "base on every frame"),
        (ONLINE, "online"),
        (OFFLINE, "offline"),
        (Way(kind="realtime"), "realtime"),
        (replace(OFFLINE, budget=0.15), "offline, budget 0.15"),
        (Way(kind="paper"), "paper's mode"),
        (Way(kind="copied-labels", stride=3), "last labels copied, every 3"),
        (Way(kind="warped-logits", stride=5), "logits warped, every 5"),
        (Way(kind="half-resolution"), "half resolution"),
        (Way(kind="other-model", model="lite0-camvid"), "lite0-camvid on every frame"),
        (replace(BASE, runtime="openvino", bits=32), "base, openvino"),
        (replace(OFFLINE, runtime="openvino", bits=8), "offline, openvino INT8"),
        (replace(ONLINE, runtime="openvino", bits=8, export="mine"), "online, openvino INT8 (mine)"),
        (Way(kind="realtime", intervals=2), "realtime, 2 intervals"),
        (Way(kind="copied-labels", intervals=1), "copied, 1 interval"),
        (replace(OFFLINE, budget=0.6, longest=12, motion="dis", size=(40, 72)), "offline, budget 0.6/12, dis, 40x72"),
        (Way(kind="ablation", title="fixed (R = 2)", settings={"motion": "none"}), "fixed (R = 2)"),
    ],
)
def test_a_name_is_made_of_the_fields(way, name):
    assert way.name == name


def test_the_reference_is_the_base_on_the_same_runtime():
    assert Way(kind="other-model", model="lite0-camvid").reference == BASE
    assert Way(kind="copied-labels", stride=3).reference == BASE
    export = replace(ONLINE, runtime="openvino", bits=8, export="mine")
    assert export.reference == replace(export, kind="base")


def test_a_stream_whose_scheduler_or_motion_is_chosen_says_so_and_is_found_as_before():
    segmenter = VideoSegmenter(colors, scheduler=FixedPeriod(2, Level.CARRY), motion="dis-fine")
    chosen = {"scheduler": "fixed", "motion": "dis-fine"}
    way = replace(ONLINE, settings=chosen_settings(segmenter, chosen, "online"))
    assert way.name == "online, fixed (period 2, between carry), motion dis-fine"
    realtime = Way(kind="realtime", settings=chosen_settings(VideoSegmenter(colors), {"motion": "dis"}, "realtime"))
    assert realtime.name == "realtime, motion dis"
    assert chosen_settings(segmenter, {}, "online") == {}
    assert way == ONLINE
    assert hash(way) == hash(ONLINE)


def test_settings_of_a_way_are_plain_and_open_the_same_stream():
    own = VideoSegmenter(colors, scheduler=DriftBudget(0.2, longest=9), motion="dis-fine")
    settings = {"scheduler": plain_scheduler(own.settings.scheduler), "motion": own.settings.motion.name}
    assert json.loads(json.dumps(settings)) == settings
    opened = apply_way(replace(ONLINE, settings=settings), VideoSegmenter(colors))
    assert opened.settings.scheduler == own.settings.scheduler
    assert opened.settings.motion.name == "dis-fine"
    masked = apply_way(Way(kind="ablation", settings={"masking": {"pruning": "random"}}), own)
    assert masked.settings.masking == replace(own.settings.masking, pruning="random")
