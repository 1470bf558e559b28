import torch

from stmg.training.distortion_map import distortion_map


def shifted(right):
    """Labels of a frame with an edge, and the flow that says it moved `right` pixels."""
    before = torch.zeros(1, 16, 32, dtype=torch.uint8)
    before[..., 12:] = 1
    now = torch.zeros_like(before)
    now[..., 12 + right :] = 1
    flow = torch.zeros(1, 4, 8, 2)
    flow[..., 0] = -right / 32
    return before, now, flow


def test_what_moved_is_changed_in_place_and_unchanged_after_alignment():
    before, now, flow = shifted(8)
    in_place = distortion_map(before, now, None, (2, 4)).changed[0, 0]
    assert in_place.tolist() == [[0, 0.5, 0.5, 0]] * 2
    assert not distortion_map(before, now, flow, (2, 4)).changed.any()


def test_pixels_without_a_label_in_either_frame_do_not_count():
    before, now, _ = shifted(8)
    before[:, :8] = 255
    result = distortion_map(before, now, None, (2, 4))
    assert result.known[0, 0].tolist() == [[False] * 4, [True] * 4]
    assert not result.changed[0, 0, 0].any()
    assert result.changed[0, 0, 1].tolist() == [0, 0.5, 0.5, 0]
