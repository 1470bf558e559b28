"""Methods: fields for programs, a name for people."""

from dataclasses import replace

import pytest

from stmg.evaluation.method import BASE, OFFLINE, ONLINE, Method


@pytest.mark.parametrize(
    ("method", "name"),
    [
        (BASE, "base on every frame"),
        (ONLINE, "online"),
        (OFFLINE, "offline"),
        (Method(kind="realtime"), "realtime"),
        (replace(OFFLINE, budget=0.15), "offline, budget 0.15"),
        (Method(kind="paper"), "paper's mode"),
        (Method(kind="copied-labels", stride=3), "last labels copied, every 3"),
        (Method(kind="warped-logits", stride=5), "logits warped, every 5"),
        (Method(kind="half-resolution"), "half resolution"),
        (Method(kind="other-model", model="lite0-camvid"), "lite0-camvid on every frame"),
        (replace(BASE, runtime="openvino", bits=32), "base, openvino"),
        (replace(OFFLINE, runtime="openvino", bits=8), "offline, openvino INT8"),
        (replace(ONLINE, runtime="openvino", bits=8, export="mine"), "online, openvino INT8 (mine)"),
    ],
)
def test_a_name_is_made_of_the_fields(method, name):
    assert method.name == name


def test_the_reference_is_the_base_on_the_same_runtime():
    assert Method(kind="other-model", model="lite0-camvid").reference == BASE
    assert Method(kind="copied-labels", stride=3).reference == BASE
    export = replace(ONLINE, runtime="openvino", bits=8, export="mine")
    assert export.reference == replace(export, kind="base")
