import numpy as np

from stmg.data.augment import resize_transform
from stmg.data.stills import SimulatedMotion, clip_from_still

SIZE = (96, 128)
ROAD, CAR = 3, 8
STANDING = SimulatedMotion(zoom=0, pan=0, roll=0, tilt=0, object_speed=0.05, max_objects=1, max_gap=1)


def still(seed=0):
    rng = np.random.default_rng(seed)
    texture = rng.integers(60, 120, (SIZE[0] // 2, SIZE[1] // 2, 3))
    image = np.kron(texture, np.ones((2, 2, 1))).astype(np.uint8)
    labels = np.full(SIZE, ROAD, np.uint8)
    image[50:70, 50:80] = np.kron(rng.integers(150, 255, (10, 15, 3)), np.ones((2, 2, 1))).astype(np.uint8)
    labels[50:70, 50:80] = CAR
    return image, labels


def clip(motion, seed, length=3, movable=(CAR,)):
    image, labels = still()
    rng = np.random.default_rng(seed)
    return clip_from_still(image, labels, length, motion, movable, resize_transform(SIZE, SIZE), rng)


def moving_clips(motion, **settings):
    return [clip(motion, seed, **settings) for seed in range(12)]


def test_one_frame_is_the_still_itself():
    image, labels = still()
    for frames, truths in moving_clips(SimulatedMotion(max_gap=2)):
        same = [np.array_equal(truth, labels) for truth in truths]
        assert any(same)
        near = frames[same.index(True)].astype(int) - image
        assert np.abs(near).mean() < 1  # resampled once, at its own pixels


def test_only_the_cut_out_moves_when_the_camera_stands():
    seen = 0
    for frames, truths in moving_clips(STANDING):
        cars = [truth == CAR for truth in truths]
        if np.array_equal(cars[0], cars[-1]):
            continue  # no object was chosen
        seen += 1
        middles = [np.argwhere(car)[:, 1].mean() for car in cars]
        assert abs(middles[2] - middles[1]) > 0.3
        assert np.sign(middles[1] - middles[0]) == np.sign(middles[2] - middles[1])
        untouched = ~np.any(cars, axis=0)
        untouched[40:80, 20:110] = False  # the filled hole is a guess
        assert np.array_equal(frames[0][untouched], frames[-1][untouched])
        assert set(np.unique(truths)) == {ROAD, CAR}
    assert seen >= 4


def test_labels_move_with_the_picture():
    # Labels that can be read off the picture: each frame's own picture must still say them, wherever things went.
    stripes = (np.arange(SIZE[1]) // 8 % 2).astype(np.uint8)[None].repeat(SIZE[0], 0)
    image, transform = np.repeat(stripes[..., None] * 200, 3, 2), resize_transform(SIZE, SIZE)
    changed = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        frames, truths = clip_from_still(image, stripes, 2, SimulatedMotion(pan=0.08, max_gap=1), (), transform, rng)
        for frame, truth in zip(frames, truths, strict=True):
            known = truth != 255
            assert ((frame[..., 0] > 100) == (truth == 1))[known].mean() > 0.97  # but for resampled edges
        changed += (truths[0] != truths[1]).mean() > 0.05
    assert changed >= 6


def test_the_same_seed_is_the_same_clip():
    for first, second in zip(clip(SimulatedMotion(), 5), clip(SimulatedMotion(), 5), strict=True):
        assert np.array_equal(first, second)


def test_stills_without_objects_or_labels_work():
    image, _ = still()
    transform, rng = resize_transform(SIZE, SIZE), np.random.default_rng(0)
    blank = np.full(SIZE, 255, np.uint8)
    frames, truths = clip_from_still(image, blank, 2, SimulatedMotion(), (CAR,), transform, rng)
    assert frames.shape == (2, *SIZE, 3)
    assert (truths == 255).all()
