"""Overlays: labels and masks are drawn exactly where they are."""

import numpy as np

from stmg.video.labels import IGNORE, MAX_CLASSES, resize_labels
from stmg.video.overlay import CHANGED, default_palette, draw_labels, draw_mask, make_color_table

PALETTE = np.array([(10, 20, 30), (200, 0, 0)], np.uint8)
GRAY = np.full((4, 6, 3), 100, np.uint8)


def test_labels_are_blended_with_the_image_and_pixels_without_one_are_not():
    labels = np.zeros((4, 6), np.uint8)
    labels[:, 3:], labels[0] = 1, IGNORE
    drawn = draw_labels(GRAY, labels, PALETTE, 0.5)
    assert drawn[1, 0].tolist() == [55, 60, 65]
    assert drawn[1, 5].tolist() == [150, 50, 50]
    assert (drawn[0] == 100).all()
    assert (GRAY == 100).all()


def test_a_mask_is_orange_where_something_changed():
    changed = np.zeros((2, 3), np.float32)
    changed[:, 2] = 1
    drawn = draw_mask(GRAY, changed, opacity=1)
    assert drawn.shape == GRAY.shape
    assert drawn[0, 0].tolist() == [60, 60, 60]
    assert drawn[0, 5].tolist() == list(CHANGED)


def test_every_label_has_a_color_and_none_is_that_of_no_label():
    table = make_color_table(PALETTE)
    assert table.shape == (256, 3)
    assert table[:2].tolist() == PALETTE.tolist()
    assert (table[2:] == 255).all()
    assert (make_color_table(np.zeros((256, 3), np.uint8))[IGNORE] == 255).all()
    colors = default_palette(MAX_CLASSES)
    assert colors.shape == (MAX_CLASSES, 3)
    assert len(np.unique(colors[:19], axis=0)) == 19


def test_resized_labels_hold_no_class_that_was_not_there():
    labels = np.array([[0, 7], [255, 3]], np.uint8)
    assert set(np.unique(resize_labels(labels, (9, 13)))) == {0, 3, 7, 255}
    assert resize_labels(labels, (2, 2)) is labels
