"""Every network of the table, by its own code, through all three modes: computed frames show what it itself says."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from importlib.util import find_spec

import numpy as np
import pytest

from networks_zoo.table import ROWS
from stmg.data.synthetic.scene import render

ROUNDING = 1e-5
"""Scores so near to each other are equal to whoever adds floats up in another order."""


class AtOnce(Executor):
    """Runs what it is given, and then returns."""

    def submit(self, function, /, *args, **kwargs):
        future = Future()
        future.set_result(function(*args, **kwargs))
        return future


def make_clip(size):
    """Two streets with a cut between them; of the second the same frame twice, as realtime is a frame late."""
    first = [image for image, _ in render(7, 2, size)]
    second = next(iter(render(11, 1, size)))[0]
    return [*first, second, second.copy()]


def run(segmenter, mode, frames):
    executor = {"executor": AtOnce()} if mode == "realtime" else {}
    return [result for result in segmenter.stream(frames, mode=mode, **executor) if result.computed]


def check(labels, answer):
    """The same labels bit for bit; a pixel may differ only where the network's own two best scores are equal."""
    differs = labels != answer.labels
    if differs.any():
        assert answer.scores is not None, f"{differs.mean():.2%} of the pixels differ"
        ranked = np.sort(answer.scores, 0) if answer.scores.ndim == 3 else np.stack([0 * answer.scores, answer.scores])
        assert (ranked[-1] - ranked[-2])[differs].max() < ROUNDING, f"{differs.mean():.2%} of the pixels differ"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_computed_frames_show_what_the_network_says_itself(row, tmp_path):
    for module in row.needs:
        if find_spec(module) is None:
            pytest.skip(f"needs {module}")
    network = row.build(tmp_path)
    frames = make_clip(row.size)
    answers = [network.answer(frame) for frame in frames]
    assert all(len(np.unique(answer.labels)) > 1 for answer in answers), "nothing to compare"
    segmenter = row.segmenter(network)
    for mode in ("offline", "online", "realtime"):
        computed = run(segmenter, mode, frames)
        assert {0} < {result.index for result in computed} <= {0, 1, 2, 3}
        for result in computed:
            check(result.labels, answers[result.index])
    said = segmenter.describe()
    assert [part for part in row.understood if part not in said] == [], said
