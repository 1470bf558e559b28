"""A short soak test: many streams over one model; growing memory is a failure."""

from __future__ import annotations

import pytest

from reliability.soak import SIZE, Usage, build_segmenter, check_reconnects, check_usage
from reliability.streams import run_side_by_side

MEGABYTE = 2**20
STEADY = {"frames": 100, "memory": 100 * MEGABYTE, "most_memory": 100 * MEGABYTE, "files": 9, "most_files": 9}


@pytest.mark.parametrize("mode", ["online", "offline"])
def test_streams_over_one_model_in_threads_are_as_alone(mode):
    trial = run_side_by_side(build_segmenter(), mode, 8, 12, SIZE)
    assert trial.frames == 8 * 12
    assert trial.different == []


@pytest.mark.parametrize(
    ("changed", "failing"),
    [
        ({}, []),
        ({"most_memory": round(100.9 * MEGABYTE)}, []),
        ({"most_memory": round(101.1 * MEGABYTE)}, ["resident memory"]),
        ({"most_files": 10}, ["no more files"]),
        ({"most_threads": 1}, ["no more files"]),
        ({"frames": 99}, ["every frame"]),
        ({"backwards": 1}, ["every frame"]),
    ],
)
def test_what_grows_or_is_missing_is_a_failure(changed, failing):
    checks = check_usage("online", Usage(**{**STEADY, **changed}), 100)
    assert [check.name.partition(": ")[2][: len(failing[0])] for check in checks if not check.holds] == failing


def test_a_connection_that_never_came_is_a_failure():
    usage = Usage(**{**STEADY, "frames": 1050, "connections": 21})
    assert all(check.holds for check in check_reconnects(usage, 20))
    usage.connections = 20
    assert not check_reconnects(usage, 20)[0].holds
    assert not check_reconnects(None, 20)[0].holds
