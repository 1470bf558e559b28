"""Rendered streets: reproducible everywhere, exactly labeled, coherent in time, and with every class."""

import pickle
from functools import cache

import cv2
import numpy as np
import pytest

from stmg.data.camvid import CLASS_NAMES, PALETTE
from stmg.data.synthetic.scene import RenderedVideo, Scene, open_streets, render
from stmg.errors import DataError

SIZE = (96, 128)
MOVING = [CLASS_NAMES.index(name) for name in ("Car", "Pedestrian", "Bicyclist")]


@cache  # building one takes longer than a few small frames
def scene_of(seed, camera="drive"):
    return Scene(seed, SIZE, camera)


def gray(image):
    return cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)


def same(one, other):
    return all(np.array_equal(left, right) for left, right in zip(one, other, strict=True))


def test_classes_and_palette_are_those_of_camvid():
    assert len(CLASS_NAMES) == 11
    assert (CLASS_NAMES[0], CLASS_NAMES[3], CLASS_NAMES[10]) == ("Sky", "Road", "Bicyclist")
    assert PALETTE.shape == (11, 3)
    assert PALETTE.dtype == np.uint8
    assert PALETTE[3].tolist() == [128, 64, 128]


@pytest.mark.parametrize("camera", ["drive", "fixed"])
def test_a_frame_depends_on_its_arguments_alone(camera):
    scene = scene_of(3, camera)
    in_order = [scene.frame(index) for index in range(4)]
    again = Scene(3, SIZE, camera)
    for index in (2, 0, 3, 1, 2):
        again.frame(index + 900)
        assert same(again.frame(index), in_order[index])
    assert all(same(*pair) for pair in zip(render(3, 4, SIZE, camera), in_order, strict=True))
    assert same(pickle.loads(pickle.dumps(scene)).frame(1), in_order[1])


def test_time_is_index_over_fps():
    slow, fast = Scene(1, SIZE, fps=7.5).frame(2), scene_of(1).frame(4)
    assert np.array_equal(slow[1], fast[1])


def test_seeds_and_frames_differ():
    frames = [scene_of(seed).frame(0) for seed in (0, 1, 2, -1)]
    for number, (image, labels) in enumerate(frames):
        for other_image, other_labels in frames[:number]:
            assert (labels != other_labels).mean() > 0.1
            assert np.abs(image.astype(int) - other_image).mean() > 10
    scene = scene_of(0, "fixed")
    assert not np.array_equal(scene.frame(0)[0], scene.frame(1)[0])


def test_every_class_occurs_with_a_sensible_share():
    counts = np.zeros(11)
    for seed in range(4):
        for camera in ("drive", "fixed"):
            for index in (0, 60, 150):
                labels = scene_of(seed, camera).frame(index)[1]
                counts += np.bincount(labels.ravel(), minlength=11)
    share = dict(zip(CLASS_NAMES, counts / counts.sum(), strict=True))
    for name, low, high in (
        ("Sky", 0.03, 0.3),
        ("Building", 0.1, 0.5),
        ("Pole", 0.002, 0.05),
        ("Road", 0.15, 0.5),
        ("Sidewalk", 0.02, 0.3),
        ("Tree", 0.02, 0.3),
        ("SignSymbol", 0.0005, 0.05),
        ("Fence", 0.001, 0.1),
        ("Car", 0.02, 0.3),
        ("Pedestrian", 0.003, 0.1),
        ("Bicyclist", 0.001, 0.1),
    ):
        assert low < share[name] < high, (name, share[name])


@pytest.mark.parametrize("size", [(32, 32), (33, 57), (61, 32), (45, 301), (150, 41)])
def test_any_size_works(size):
    image, labels = Scene(4, size, "fixed" if size[0] % 2 else "drive").frame(7)
    assert image.shape == (*size, 3)
    assert labels.shape == size
    assert image.dtype == labels.dtype == np.uint8
    assert labels.max() <= 10


def test_fixed_camera_sees_the_background_stand_still():
    scene = scene_of(2, "fixed")
    (image, labels), (next_image, next_labels) = scene.frame(10), scene.frame(11)
    static = ~np.isin(labels, MOVING) & ~np.isin(next_labels, MOVING)
    assert static.mean() > 0.5
    assert np.array_equal(labels[static], next_labels[static])
    change = np.abs(gray(image).astype(int) - gray(next_image))
    assert change[static].mean() < 6  # sensor noise, brightness and moving shadows
    assert change[labels != next_labels].mean() > 2 * change[static].mean()


@pytest.mark.parametrize("camera", ["drive", "fixed"])
@pytest.mark.parametrize("axis", [0, 1])
def test_label_edges_lie_on_image_edges_to_the_pixel(camera, axis):
    shifts, contrast = (-2, -1, 0, 1, 2), np.zeros(5)
    for seed in range(3):
        image, labels = scene_of(seed, camera).frame(20)
        steps = np.abs(np.diff(gray(image).astype(int), axis=axis))
        edges = np.diff(labels.astype(int), axis=axis) != 0
        contrast += [steps[np.roll(edges, shift, axis=axis)].mean() for shift in shifts]
    assert shifts[int(contrast.argmax())] == 0
    assert contrast[2] > 1.5 * max(contrast[0], contrast[4])


def test_labels_move_with_the_pixels():
    flow_of = cv2.DISOpticalFlow_create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    rows, columns = np.mgrid[:180, :240].astype(np.float32)
    agreement = []
    for seed in range(2):
        scene = Scene(seed, (180, 240))
        for index in (0, 50, 120):
            (image, labels), (next_image, next_labels) = scene.frame(index), scene.frame(index + 1)
            flow = flow_of.calc(gray(next_image), gray(image), None)
            warped = cv2.remap(labels, columns + flow[..., 0], rows + flow[..., 1], cv2.INTER_NEAREST)
            agreement.append((warped == next_labels)[8:-8, 8:-8].mean())
    assert np.mean(agreement) > 0.95


@pytest.mark.parametrize(
    "arguments", [{"camera": "drone"}, {"size": (31, 64)}, {"size": (64, 31)}, {"fps": 0}, {"fps": -1.0}]
)
def test_bad_arguments_say_what_is_allowed(arguments):
    (name,) = arguments
    with pytest.raises(ValueError, match=name):
        Scene(0, **arguments)


def test_negative_index_is_refused():
    with pytest.raises(ValueError, match="index"):
        scene_of(0).frame(-1)


SIZE = (64, 96)


def test_streets_are_called_by_their_seeds():
    data = open_streets("street:5-6")
    assert [video.name for video in data.videos("train")] == ["street 5", "street 6"]
    assert not {video.seed for video in data.videos("val")} & {5, 6}
    for wrong in ("street:9-2", "street:5", "street:0-900000"):
        with pytest.raises(DataError, match="street:0-99"):
            open_streets(wrong)


@pytest.mark.parametrize(
    ("size", "interpolation"),
    [
        ((32, 48), cv2.INTER_AREA),
        ((128, 192), cv2.INTER_LINEAR),
        ((60, 300), cv2.INTER_LINEAR),  # lower, but with more pixels
        ((70, 40), cv2.INTER_AREA),  # higher, but with fewer
    ],
)
def test_images_that_shrink_are_averaged_and_others_interpolated(size, interpolation):
    video = RenderedVideo(3, 1, SIZE, every_label=True)
    expected = cv2.resize(video.image(0), size[::-1], interpolation=interpolation)
    assert np.array_equal(video.image(0, size), expected)
    assert video.truth(0, size).shape == size
    assert set(np.unique(video.truth(0, size))) <= set(np.unique(video.truth(0)))


def test_frames_count_as_labeled_now_and_then_or_always():
    assert list(RenderedVideo(3, 11, SIZE, every_label=False).labeled) == [0, 5, 10]
    assert len(RenderedVideo(3, 11, SIZE, every_label=True).labeled) == 11
