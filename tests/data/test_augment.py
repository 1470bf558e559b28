import numpy as np
import pytest

from stmg.data.augment import Augment, add_noise, paste_objects, resize_transform, sample_transform

STORED = (60, 80)
STILL = Augment(crop=STORED, scale=(1, 1), flip=False, brightness=0, contrast=0, gamma=0, saturation=0, tint=0)


def picture(seed=0):
    return np.random.default_rng(seed).integers(0, 255, (*STORED, 3)).astype(np.uint8)


def transform(seed=0, **settings):
    augment = Augment(**{**STILL.__dict__, **settings})
    return sample_transform(augment, STORED, 1.0, np.random.default_rng(seed))


def test_no_augmentation_changes_nothing():
    image, labels = picture(), picture()[..., 0]
    assert np.array_equal(transform().image(image), image)
    assert np.array_equal(transform().labels(labels), labels)
    assert np.array_equal(resize_transform(STORED, STORED).image(image), image)


@pytest.mark.parametrize("seed", range(4))
def test_images_and_labels_stay_on_top_of_each_other(seed):
    # A label map drawn as a picture must end where the labels end.
    labels = np.kron(np.random.default_rng(seed).integers(0, 2, (6, 8)), np.ones((10, 10))).astype(np.uint8)
    one = transform(seed, scale=(0.7, 1.8), rotate=10.0, flip=True, crop=(48, 64))
    image, truth = one.image(np.repeat(labels[..., None] * 200, 3, 2)), one.labels(labels)
    inside = truth != 255
    agree = (image[..., 0] > 100) == (truth == 1)
    assert inside.mean() > 0.3
    assert agree[inside].mean() > 0.93  # but for the pixels along edges


def test_outside_the_frame_nothing_is_known():
    labels = transform(scale=(0.5, 0.5)).labels(np.zeros(STORED, np.uint8))
    assert 0.7 < (labels == 255).mean() < 0.8


def test_a_flip_is_a_mirror():
    seeds = [
        seed for seed in range(20) if np.array_equal(transform(seed, flip=True).image(picture()), picture()[:, ::-1])
    ]
    assert 4 < len(seeds) < 16


def test_colors_change():
    one = transform(3, brightness=0.2, contrast=0.3, gamma=0.3, saturation=0.4, tint=0.1)
    assert not np.array_equal(one.image(picture(1)), picture(1))


def test_gray_stays_gray_whatever_the_saturation():
    gray = np.full((*STORED, 3), 90, np.uint8)
    assert np.ptp(transform(1, saturation=0.5).image(gray).astype(int)) <= 1


def test_noise_has_its_std_and_differs_between_frames():
    gray, rng = np.full((*STORED, 3), 128, np.uint8), np.random.default_rng(0)
    first, second = add_noise(gray, 5, rng), add_noise(gray, 5, rng)
    assert first.astype(float).std() == pytest.approx(5, rel=0.15)
    assert not np.array_equal(first, second)
    assert add_noise(gray, 0, rng) is gray


SIZE = (60, 80)
PERSON = 3


def frame(color, person=None):
    labels = np.zeros(SIZE, np.uint8)
    image = np.full((*SIZE, 3), color, np.uint8)
    if person is not None:
        labels[20:40, person : person + 10] = PERSON
        image[20:40, person : person + 10] = 250
    return image, labels


def test_an_object_keeps_its_height_its_picture_and_its_label():
    seen = set()
    for seed in range(20):
        image, labels = paste_objects(frame(10), frame(90, person=5), (PERSON,), 1, np.random.default_rng(seed))
        assert image.dtype == labels.dtype == np.uint8
        rows = np.flatnonzero((labels == PERSON).any(1))
        if rows.size:
            assert (rows[0], rows[-1]) == (20, 39)
            assert image[labels == PERSON].mean() > 200
            assert image[labels == 0].max() <= 130
            seen.add(int(np.flatnonzero((labels == PERSON).any(0))[0]))
    assert len(seen) > 3  # anywhere across


def test_nothing_to_paste_changes_nothing_and_the_other_frame_stays():
    onto, other = frame(10), frame(90, person=5)
    before = [part.copy() for part in (*onto, *other)]
    assert paste_objects(onto, frame(90), (PERSON,), 3, np.random.default_rng(0)) is onto
    paste_objects(onto, other, (PERSON,), 3, np.random.default_rng(1))
    assert all(np.array_equal(a, b) for a, b in zip(before, (*onto, *other), strict=True))
