"""What was understood of a network is said, and what cannot be right is a warning."""

import time
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import stmg
from stmg.errors import SettingsError, StmgWarning
from stmg.networks import build
from stmg.runtimes.torch import TorchRuntime
from stmg.segmenter import VideoSegmenter
from stmg.streaming.schedulers import FixedPeriod, Level
from stmg.streaming.understanding import find_only_label, measure_disorder
from stmg.video.normalization import Normalization
from zoo import colors, panning

SIZE = (96, 128)
EVERY = FixedPeriod(1, Level.CARRY)
RANDOM = np.random.default_rng(0)


def everything(image):
    return np.ones(image.shape[:2], bool)


def noise(image):
    return RANDOM.integers(0, 5, image.shape[:2])


def warnings_of(network, num_frames=4, mode="online", **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        segmenter = VideoSegmenter(network, scheduler=EVERY, motion="none", **options)
        list(segmenter.stream(panning(num_frames, SIZE), mode=mode))
    texts = tuple(str(each.message) for each in caught if each.category is StmgWarning)
    assert texts == segmenter.warnings
    return texts


def test_a_segmenter_says_what_it_understood_and_what_it_assumed():
    frame = panning(1, SIZE)[0]
    segmenter = VideoSegmenter(build("small", 5))
    assert segmenter.describe() == (
        "SmallNet: 5 classes, ImageNet normalization (assumed), computed at the size of the frames"
    )
    segmenter.step(frame)
    text = "SmallNet: 5 classes, logits at 1/4, ImageNet normalization (assumed), computed at 96x128"
    assert segmenter.describe() == text
    assert repr(segmenter) == f"VideoSegmenter({text})"
    segmenter = VideoSegmenter(build("small", 5), size=(48, 64), normalize="half")
    segmenter.step(frame)
    assert segmenter.describe() == "SmallNet: 5 classes, logits at 1/4, RGB from -1 to 1, computed at 48x64"
    assert segmenter.another(size=(96, 128)).runtime is segmenter.runtime


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (colors, "colors: 3 classes, logits at full size, computed at 96x128"),
        (lambda image: image.argmax(2), "<lambda>: labels, computed at 96x128"),
        (lambda image: colors(image)[:, 3:60, 5:90], "<lambda>: 3 classes, logits of 57x85, computed at 96x128"),
        (lambda image: image[:, :, 0] > 100, "<lambda>: foreground above 0.5, probability (assumed) at full size"),
    ],
)
def test_a_function_is_understood_at_the_first_frame(function, text):
    function.__qualname__ = function.__name__
    segmenter = VideoSegmenter(function)
    assert "classes known at the first frame" in segmenter.describe()
    segmenter.step(panning(1, SIZE)[0])
    assert segmenter.describe().startswith(text)


def test_a_shipped_model_assumes_nothing():
    text = stmg.load("small-streets").describe()
    assert text == "SmallNet: 11 classes, ImageNet normalization, computed at about 360x480"
    assert "normalization 0.5,0.5,0.5/0.2,0.2,0.2" in repr(
        VideoSegmenter(build("small", 5), normalize=Normalization((0.5,) * 3, (0.2,) * 3))
    )


def test_only_a_torch_network_is_normalized_for():
    with pytest.raises(SettingsError, match="a function normalizes by itself"):
        VideoSegmenter(colors, normalize="half")


def one_class(image):
    return np.full(image.shape[:2], 2)


@pytest.mark.parametrize("mode", ["offline", "online"])
def test_one_class_everywhere_is_a_warning(mode):
    (text,) = warnings_of(one_class, mode=mode)
    assert "every pixel of the first 3 computed frames is of class 2:" in text
    names = {"class_names": ("sky", "road", "car")}
    assert "is of class 2 (car):" in warnings_of(one_class, **names)[0]
    assert warnings_of(one_class, num_frames=2) == ()


def test_realtime_warns_too():
    segmenter = VideoSegmenter(one_class)

    def cuts():  # each is computed
        for number in range(500):
            if segmenter.warnings:
                return
            yield panning(1, SIZE, seed=number)[0]
            time.sleep(0.01)

    with pytest.warns(StmgWarning, match="is of class 2"):
        list(segmenter.stream(cuts(), mode="realtime"))


def test_foreground_everywhere_is_a_warning_and_none_at_all_is_not():
    (text,) = warnings_of(everything)
    assert "everything is foreground" in text
    assert "depth" in text
    assert warnings_of(lambda image: np.zeros(image.shape[:2], bool)) == ()


@pytest.mark.parametrize("mode", ["offline", "online"])
def test_labels_that_look_like_noise_are_a_warning(mode):
    (text,) = warnings_of(noise, mode=mode)
    assert "look like noise" in text
    coarse = warnings_of(lambda image: RANDOM.normal(size=(5, image.shape[0] // 8, image.shape[1] // 8)), mode=mode)
    assert "look like noise" in coarse[0]


def test_ids_numbered_anew_in_each_frame_are_a_warning():
    def instances(image):
        rows, columns = np.mgrid[: image.shape[0], : image.shape[1]]
        return RANDOM.permutation(40)[rows // 24 * 6 + columns // 24]

    with pytest.warns(StmgWarning, match="numbers them anew in each frame"):
        list(VideoSegmenter(instances, scheduler=FixedPeriod(2, Level.CARRY)).stream(panning(40, SIZE), mode="online"))


def test_what_can_be_right_is_no_warning():
    assert warnings_of(colors) == ()
    assert warnings_of(lambda image: (image[:, :, 0] > 100).astype(np.uint8)) == ()
    with warnings.catch_warnings():
        warnings.simplefilter("error", StmgWarning)
        for name in ("small-streets", "ddrnet23-slim-camvid"):
            segmenter = stmg.load(name, scheduler=EVERY)
            list(segmenter.stream(panning(4, (180, 240)), mode="online"))


def test_disorder_is_what_chance_gives_for_noise_and_little_for_areas():
    assert measure_disorder(RANDOM.integers(0, 9, SIZE, np.uint8)) == pytest.approx(1, abs=0.05)
    halves = np.zeros(SIZE, np.uint8)
    halves[:, 64:] = 1
    assert measure_disorder(halves) < 0.02
    blocks = RANDOM.integers(0, 9, (12, 16), np.uint8).repeat(8, 0).repeat(8, 1)
    assert measure_disorder(blocks) < 0.2
    assert measure_disorder(blocks, 8) == pytest.approx(1, abs=0.2)
    assert (find_only_label(halves), find_only_label(halves[:, :64])) == (None, 0)
    assert measure_disorder(halves[:, :64]) == 0


def trained_on(normalization):
    """A network whose batch-norm has seen frames of a normalization."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16, momentum=None), nn.ReLU(), nn.Conv2d(16, 5, 1)
    )
    images = np.stack([normalization.apply(image) for image in panning(8, SIZE)])
    network.train()(torch.from_numpy(images).permute(0, 3, 1, 2).float())
    return network.eval()


@pytest.mark.parametrize("name", ["bytes", "none"])
def test_an_input_range_that_fits_badly_is_a_warning_that_says_which_fits(name):
    network = trained_on(stmg.video.normalization.NORMALIZATIONS[name])
    assert f"normalize='{name}'" in warnings_of(network)[0]
    assert not any("normalize=" in text for text in warnings_of(network, normalize=name))


def test_an_input_range_that_fits_is_no_warning_nor_is_one_that_nobody_can_tell():
    assert TorchRuntime(trained_on(Normalization())).check_input(panning(1, SIZE)[0]) is None
    black = np.zeros((*SIZE, 3), np.uint8)
    assert TorchRuntime(trained_on(Normalization((0.0,) * 3, (1 / 255,) * 3))).check_input(black) is None
    untrained = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Conv2d(8, 5, 1)).eval()
    assert TorchRuntime(untrained).check_input(panning(1, SIZE)[0]) is None


def test_a_normalization_is_called_by_its_name_but_for_rounding():
    assert str(Normalization((0.498,) * 3, (0.5,) * 3)) == "RGB from -1 to 1"
    assert str(Normalization((0.485, 0.456, 0.406), (0.2, 0.2, 0.2))) == "normalization 0.485,0.456,0.406/0.2,0.2,0.2"
