"""Flows: warping maps an older frame onto a newer one, and a composed flow equals its steps."""

import numpy as np

from stmg.streaming.flow import ERROR_OUTSIDE, compose, find_positions, match_error, match_error_at, sample_maps, warp
from zoo import panning, texture


def shift(x, y, shape=(6, 8)):
    return np.broadcast_to(np.array([x, y], np.float32), (*shape, 2)).copy()


def test_warping_brings_the_older_frame_onto_the_newer():
    before, now = panning(2, (96, 128), step=3)
    flow = shift(3 / 128, 0, (96, 128))
    assert np.array_equal(warp(before, flow)[:, :-3], now[:, :-3])
    labels = before[:, :, 0] // 32
    assert np.array_equal(warp(labels, flow, nearest=True)[:, :-3], (now[:, :, 0] // 32)[:, :-3])


def test_what_comes_from_outside_repeats_the_border():
    values = np.arange(8, dtype=np.float32)[None].repeat(6, 0)
    assert warp(values, shift(4 / 8, 0))[0].tolist() == [4, 5, 6, 7, 7, 7, 7, 7]


def test_what_comes_from_outside_the_frame_is_explained_badly():
    for image in (texture(12, 16), texture(12, 16)[:, :, 0].copy()):
        assert (match_error(image, image, shift(4 / 16, 0))[:, 13:] == ERROR_OUTSIDE).all()
        assert (match_error(image, image, None) == 0).all()


def test_what_is_explained_at_some_pixels_is_what_it_is_everywhere():
    before, now = panning(2, (45, 63), step=4)
    flow = np.random.default_rng(0).normal(0, 0.05, (24, 32, 2)).astype(np.float32)
    pixels = np.flatnonzero(np.random.default_rng(1).random((45, 63)) > 0.9)
    everywhere = match_error(before, now, flow)
    at = match_error_at(before, now, find_positions(flow, now.shape), pixels)
    assert (at == ERROR_OUTSIDE).any()
    assert np.array_equal(at, everywhere.ravel()[pixels])


def test_with_a_stride_only_every_so_many_positions_are_given():
    """In a flow that is even within a block; of an odd side the last block reaches beyond the frame."""
    flow = shift(0.25, -0.125, (3, 4))
    each, every_second = find_positions(flow, (45, 63)), find_positions(flow, (45, 63), stride=2)
    assert every_second.shape == (23, 32, 2)
    assert np.allclose(every_second, each[::2, ::2])


def test_flows_compose():
    """Two steps at once land where two steps one by one do."""
    one, two = shift(0.25, 0, (8, 8)), shift(0.125, -0.25, (8, 8))
    values = np.random.default_rng(0).random((8, 8)).astype(np.float32)
    step_by_step = warp(warp(values, one), two)
    assert np.allclose(warp(values, compose(one, two)), step_by_step)
    assert compose(None, two) is two
    assert compose(one, None) is one


def test_more_channels_than_opencv_takes_at_once_are_warped_alike():
    flow = np.full((6, 8, 2), 0.1, np.float32)
    maps = np.random.default_rng(0).random((12, 16, 300)).astype(np.float32)
    warped = warp(maps, flow)
    assert warped.shape == maps.shape
    assert np.allclose(warped[:, :, 290], warp(np.ascontiguousarray(maps[:, :, 290]), flow), atol=0.05)


def test_no_flow_warps_nothing():
    values = np.random.default_rng(0).random((6, 8)).astype(np.float32)
    assert warp(values, None) is values
    assert compose(None, None) is None


def test_more_positions_than_opencv_has_rows_for_are_sampled_alike():
    number, maps = 256 * 32766 + 1, np.arange(12, dtype=np.float32).reshape(3, 4, 1)
    at = np.zeros((number, 1, 2), np.float32)
    at[-3:, 0] = [(1, 0), (2, 1), (1.5, 2)]
    sampled = sample_maps(maps, at, (3, 4))
    assert sampled.shape == (number, 1, 1)
    assert sampled[[0, -3, -2, -1], 0, 0].tolist() == [0, 1, 6, 9.5]
