import numpy as np

from stmg.data.paste import paste_objects

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
