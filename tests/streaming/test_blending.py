"""Laws of labels in quads of 2x2 pixels."""

import numpy as np
import pytest

from stmg.streaming.anchors import make_quads
from stmg.streaming.blending import QUAD, join_quads, split_index
from stmg.streaming.flow import find_positions, remap, warp


def random_labels(height, width):
    return np.random.default_rng(0).integers(0, 19, (height, width), np.uint8)


@pytest.mark.parametrize("size", [(6, 8), (5, 7), (1, 1), (1, 6)])
def test_quads_side_by_side_are_the_labels_again(size):
    labels = random_labels(*size)
    joined = join_quads(np.ascontiguousarray(make_quads(labels)[::QUAD, ::QUAD]), size)
    assert np.array_equal(joined, labels)
    assert joined.flags.c_contiguous


def test_warped_quads_are_warped_labels():
    """Of an even flow exactly, by an odd number of pixels too."""
    labels = random_labels(12, 16)
    flow = np.broadcast_to(np.array([3 / 16, -1 / 12], np.float32), (6, 8, 2)).copy()
    warped = join_quads(
        remap(make_quads(labels), find_positions(flow, labels.shape, stride=QUAD), nearest=True), labels.shape
    )
    assert np.array_equal(warped[2:, :12], warp(labels, flow, nearest=True)[2:, :12])


def test_an_index_leads_to_its_quad_and_its_index_there():
    labels = random_labels(6, 8)
    quads = np.ascontiguousarray(make_quads(labels)[::QUAD, ::QUAD])
    index = np.arange(quads.size)
    number, within = split_index(index)
    columns, rows = within[:, 0].astype(int).T
    top, left = np.divmod(number, 4)
    assert np.array_equal(quads.ravel(), labels[QUAD * top + rows, QUAD * left + columns])
