import numpy as np
import pytest
import torch
from torchmetrics.classification import MulticlassJaccardIndex

from stmg.evaluation.accuracy import BoundaryIou, ConfusionMatrix, Consistency, Correspondence
from zoo import panning, texture

SIZE = (40, 60)


def random_labels(seed, classes=4):
    return np.random.default_rng(seed).integers(0, classes, SIZE).astype(np.uint8)


def test_iou_is_that_of_torchmetrics_and_ignores_what_has_no_class():
    labels, truth = random_labels(0), random_labels(1)
    truth[:5] = 255
    counts = ConfusionMatrix(4)
    for part in (slice(0, 20), slice(20, 40)):
        counts.add(labels[part], truth[part])
    other = MulticlassJaccardIndex(4, average=None, ignore_index=255)
    expected = other(torch.from_numpy(labels).long(), torch.from_numpy(truth).long())
    assert np.allclose(counts.iou(), expected.numpy())
    assert counts.counts.sum() == 35 * 60
    assert counts.agreement() == pytest.approx(np.mean(labels[5:] == truth[5:]))


def test_the_mean_is_over_classes_that_occur():
    counts = ConfusionMatrix(4)
    counts.add(np.array([[0, 0, 1, 3]], np.uint8), np.array([[0, 0, 1, 1]], np.uint8))
    assert np.isnan(counts.iou()[2])
    assert counts.mean_iou() == pytest.approx((1 + 0.5) / 2)
    assert np.isnan(ConfusionMatrix(3).mean_iou())


def test_a_network_of_other_classes_is_refused():
    with pytest.raises(ValueError, match="predicts class 4, the data has 4"):
        ConfusionMatrix(4).add(np.full((2, 2), 4, np.uint8), np.zeros((2, 2), np.uint8))
    with pytest.raises(ValueError, match="labels are"):
        ConfusionMatrix(4).add(np.zeros((2, 2), np.uint8), np.zeros((2, 3), np.uint8))


def square(left):
    labels = np.zeros((100, 100), np.uint8)
    labels[20:80, left : left + 60] = 1
    return labels


def test_boundaries_count_what_areas_hide():
    whole, edge = ConfusionMatrix(2), BoundaryIou(2)
    whole.add(square(22), square(20))
    edge.add(square(22), square(20))
    assert whole.mean_iou() > 0.9
    assert edge.mean() < 0.6  # of an outline one pixel wide, two pixels off, the upper and lower sides are left
    same = BoundaryIou(2)
    same.add(square(20), square(20))
    assert same.mean() == 1
    assert np.isnan(BoundaryIou(2).mean())


def test_the_edge_of_what_has_no_label_is_no_boundary():
    truth = square(20)
    truth[40:60, 70:90] = 255  # at the square's edge
    truth[0:15, 0:15] = 255  # away from it
    right, wrong = BoundaryIou(2), BoundaryIou(2)
    right.add(square(20), truth)
    assert right.mean() == 1
    wrong.add(square(22), truth)
    assert wrong.mean() < 0.6


def test_labels_that_follow_the_picture_are_consistent_and_those_that_flicker_are_not():
    first, second = panning(2, (96, 128))[:2]
    correspondence = Correspondence(first, second)
    assert correspondence.certain.mean() > 0.7
    # Labels are a function of the picture, so they move with it.
    steady, flickering = Consistency(2), Consistency(2)
    for number, image in enumerate((first, second)):
        labels = (image[:, :, 0] > 128).astype(np.uint8)
        steady.add(labels, correspondence if number else None)
        flickering.add(labels if number else 1 - labels, correspondence if number else None)
    assert steady.mean_iou() > 0.8
    assert flickering.mean_iou() < 0.2


def test_a_still_picture_is_wholly_consistent_with_itself():
    image = texture(96, 128)
    labels = random_labels(3)
    labels = np.repeat(np.repeat(labels[:12, :16], 8, 0), 8, 1)
    consistency = Consistency(4)
    consistency.add(labels, None)
    consistency.add(labels, Correspondence(image, image))
    assert consistency.mean_iou() == pytest.approx(1)
