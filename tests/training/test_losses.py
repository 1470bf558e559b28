import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from stmg.errors import SettingsError
from stmg.training.losses import (
    compute_class_weights,
    distillation_loss,
    distortion_map,
    keep_ratio_loss,
    lower_logits,
    reconstruction_loss,
    segmentation_loss,
)


def batch(seed=0, ignored=0.2):
    rng = torch.Generator().manual_seed(seed)
    logits = torch.randn(2, 5, 6, 7, generator=rng)
    labels = torch.randint(0, 5, (2, 6, 7), generator=rng, dtype=torch.uint8)
    labels[torch.rand(2, 6, 7, generator=rng) < ignored] = 255
    return logits, labels


def test_segmentation_is_cross_entropy_with_class_weights():
    logits, labels = batch()
    weights = torch.tensor([1.0, 2.0, 0.5, 3.0, 1.0])
    for given in (None, weights):
        wanted = F.cross_entropy(logits, labels.long(), weight=given, ignore_index=255)
        assert segmentation_loss(logits, labels, given).mean() == pytest.approx(float(wanted), rel=1e-5)


def test_a_frame_without_labels_costs_nothing():
    logits, labels = batch(ignored=2)
    assert float(segmentation_loss(logits, labels, hard_pixels=0.5).mean()) == 0


def test_mining_keeps_the_hard_pixels_and_at_least_a_share():
    logits, labels = batch()
    each = F.cross_entropy(logits, labels.long(), ignore_index=255, reduction="none")[labels != 255]
    hard = each[each >= -math.log(0.2)]
    assert segmentation_loss(logits, labels, hard_pixels=0.2, hard_share=0.01).mean() == pytest.approx(
        float(hard.mean())
    )
    one = F.cross_entropy(logits[:1], labels[:1].long(), ignore_index=255, reduction="none")[labels[:1] != 255]
    half = one.sort(descending=True).values[: round(0.5 * len(one))]
    mined = segmentation_loss(logits[:1], labels[:1], hard_pixels=1e-9, hard_share=0.5)
    assert float(mined.weight) == len(half)
    assert mined.mean() == pytest.approx(float(half.mean()), rel=1e-5)


def test_mining_does_not_care_who_shares_a_batch():
    logits, labels = batch()
    settings = {"hard_pixels": 0.3, "hard_share": 0.4}
    joined = segmentation_loss(logits, labels, **settings)
    parts = [segmentation_loss(logits[n : n + 1], labels[n : n + 1], **settings) for n in (0, 1)]
    assert float(joined.total) == pytest.approx(sum(float(part.total) for part in parts), rel=1e-5)
    assert float(joined.weight) == sum(float(part.weight) for part in parts)


def test_distillation_is_least_where_student_and_teacher_agree():
    teacher, student = batch(1)[0], batch(2)[0]
    same = distillation_loss(teacher, teacher).mean()
    entropy = -(teacher.softmax(1) * teacher.log_softmax(1)).sum(1).mean()
    assert float(same) == pytest.approx(float(entropy), rel=1e-5)
    assert float(distillation_loss(student, teacher).mean()) > float(same)


def test_reconstruction_is_nothing_for_the_truth_and_ignores_the_unknown():
    truth = (torch.arange(24).view(1, 1, 4, 6) % 3 == 0).float()
    known = torch.ones_like(truth)
    assert float(reconstruction_loss(truth, truth, known).mean()) == pytest.approx(0, abs=1e-3)
    wrong = 1 - truth
    assert float(reconstruction_loss(wrong, truth, known).mean()) > 5
    known[:] = 0
    assert float(reconstruction_loss(wrong, truth, known).mean()) == pytest.approx(0, abs=1e-5)


def test_dice_follows_the_papers_equation():
    mask, truth = torch.full((1, 1, 2, 2), 0.5), torch.tensor([[[[1.0, 0.0], [0.0, 0.0]]]])
    entropy = math.log(2)
    dice = 1 - (2 * 0.5 + 1) / (4 * 0.25 + 1 + 1)
    assert float(reconstruction_loss(mask, truth, torch.ones_like(truth)).mean()) == pytest.approx(entropy + dice)


def test_a_missed_change_may_count_more_than_one_seen_in_vain():
    known, changed, still = torch.ones(1, 1, 4, 6), torch.ones(1, 1, 4, 6), torch.zeros(1, 1, 4, 6)
    half = torch.full_like(known, 0.5)
    for truth, more in ((changed, 3 * math.log(2)), (still, 0)):
        plain, weighed = (
            float(reconstruction_loss(half, truth, known, miss_weight).mean()) for miss_weight in (1.0, 4.0)
        )
        assert weighed - plain == pytest.approx(more)


@pytest.mark.parametrize("method", ["log", "root"])
def test_rare_classes_weigh_more_and_an_average_pixel_one(method):
    shares = torch.tensor([0.7, 0.25, 0.05])
    weights = compute_class_weights(shares, method)
    assert weights[0] < weights[1] < weights[2]
    assert float((weights * shares).sum()) == pytest.approx(1)
    assert compute_class_weights(shares, "none") is None


def test_class_weights_are_undone_in_the_logits():
    network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU(), nn.Conv2d(4, 4, 1))
    image, offsets = torch.rand(1, 3, 2, 2), torch.tensor([0.0, 1.0, -2.0, 0.5])
    before = network(image)
    lower_logits(network, offsets)
    assert torch.allclose(network(image), before - offsets.view(1, 4, 1, 1), atol=1e-6)
    with pytest.raises(SettingsError, match="undo_class_weights=0"):
        lower_logits(nn.Conv2d(3, 4, 1, bias=False), offsets)


def test_the_keep_ratio_is_pulled_to_its_target():
    probability = torch.full((2, 3), 0.7, requires_grad=True)
    loss = keep_ratio_loss(probability, 0.5)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(0.04)
    assert torch.allclose(probability.grad, torch.full((2, 3), 2 * 0.2 / 6))


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
