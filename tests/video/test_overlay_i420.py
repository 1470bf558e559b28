import numpy as np
import pytest

from stmg.video.labels import IGNORE
from stmg.video.overlay import default_palette, draw_labels, draw_labels_i420, to_i420
from zoo import texture

SIZE = (48, 64)


@pytest.mark.parametrize("opacity", [0.0, 0.3, 1.0])
def test_drawing_in_yuv_is_drawing_in_rgb(opacity):
    image, palette = texture(*SIZE), default_palette(5)
    labels = np.repeat(np.repeat(np.arange(12, dtype=np.uint8).reshape(3, 4) % 5, 16, axis=0), 16, axis=1)
    expected = to_i420(draw_labels(image, labels, palette, opacity)).astype(int)
    drawn = draw_labels_i420(image, labels, palette, opacity).astype(int)
    assert drawn.shape == (72, 64)
    assert np.abs(drawn - expected).max() <= 3
    assert np.abs(drawn - expected).mean() < 1


def test_pixels_without_a_label_stay_as_they_are():
    image = texture(*SIZE)
    labels = np.full(SIZE, IGNORE, np.uint8)
    assert np.array_equal(draw_labels_i420(image, labels, default_palette(5)), to_i420(image))
