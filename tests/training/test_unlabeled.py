"""Short clips without labels."""

from itertools import pairwise

import cv2
import numpy as np
import pytest

from stmg.runtimes.callable import CallableRuntime
from stmg.streaming.motion import DisMotion
from stmg.training.adapt import list_videos
from stmg.training.unlabeled import UnlabeledClips, crop_middle
from stmg.video.frames import resize_image
from zoo import colors, panning, streets

SIZE = (96, 128)


def videos():
    return streets(20, SIZE).videos("val")[:1]


def by_darkness(image):
    """Two classes, by the brightness of a cell."""
    small = cv2.resize(image, (SIZE[1] // 8, SIZE[0] // 8), interpolation=cv2.INTER_AREA).mean(2) / 20 - 6
    return np.stack([small, -small]).astype(np.float32)


def test_of_videos_too_short_to_hold_out_their_end_the_last_ones_are_held_out():
    short = list(streets(4, SIZE).videos("val")) * 2
    clips = UnlabeledClips(short, CallableRuntime(by_darkness), DisMotion(), SIZE, 3, 0.0, 0)
    assert [len(part.frames) for part in clips.held_out] == [4] * max(1, round(0.2 * len(short)))
    assert len(clips.train) + len(clips.held_out) == len(short)
    assert clips.get_held_out(0) is not None


def test_of_many_videos_some_are_held_out_whole():
    many = list(streets(30, SIZE).videos("val")) * 5
    clips = UnlabeledClips(many, CallableRuntime(by_darkness), DisMotion(), SIZE, 3, 0.0, 0)
    assert [len(part.frames) for part in clips.train] == [30] * 8
    assert [len(part.frames) for part in clips.held_out] == [30] * 2


def test_clips_are_the_same_each_time_and_held_out_ones_are_later():
    clips = UnlabeledClips(videos(), CallableRuntime(colors), DisMotion(), SIZE, 3, 0.5, seed=1)
    one, two = clips.get(3), clips.get(3)
    assert all(np.array_equal(a, b) for a, b in zip(one.images, two.images, strict=True))
    held = clips.get_held_out(0)
    last = [videos()[0].image(index, SIZE) for index in range(16, 20)]
    assert held is not None
    assert all(any(np.array_equal(image, other) for other in last) for image in held.images)


def test_images_of_a_folder_are_set_in_motion(tmp_path):
    for index, image in enumerate(panning(5, SIZE)):
        cv2.imwrite(str(tmp_path / f"{index}.png"), image)
    (video,) = list_videos([tmp_path])
    clips = UnlabeledClips([video], CallableRuntime(colors), DisMotion(), SIZE, 3, 0.0, seed=1)
    for clip_of_it in (clips.get(0), clips.get_held_out(0)):
        assert len(clip_of_it.images) == 4
        assert not np.array_equal(clip_of_it.images[0], clip_of_it.images[3])


def test_frames_between_two_computed_ones_have_the_flows_of_offline_mode():
    clip = UnlabeledClips(videos(), CallableRuntime(by_darkness), DisMotion(), SIZE, 6, 0.0, 0).get(0)
    offline = clip.for_offline()
    expected = [DisMotion().for_offline().estimate(*pair) for pair in pairwise(clip.views)]
    assert all(np.array_equal(one, two) for one, two in zip(offline.flows, expected, strict=True))
    assert not np.array_equal(offline.flows[0], clip.flows[0])


@pytest.mark.parametrize("shape", [(48, 128), (96, 96), (96, 128), (192, 256), (300, 100)])
def test_the_middle_has_the_proportions_of_a_shape(shape):
    image = videos()[0].image(3)
    middle = crop_middle(image, shape)
    assert middle.shape[0] / middle.shape[1] == pytest.approx(shape[0] / shape[1], rel=0.05)
    assert middle.shape[0] == SIZE[0] or middle.shape[1] == SIZE[1]
    top, left = ((whole - part) // 2 for whole, part in zip(SIZE, middle.shape, strict=False))
    assert np.array_equal(middle, image[top : top + middle.shape[0], left : left + middle.shape[1]])


def test_only_frames_that_a_stream_computes_at_another_size_are_cropped():
    (video,), size = videos(), (48, 96)
    image = video.image(2)
    for own, expected in ((size, image), (SIZE, crop_middle(image, size))):
        clips = UnlabeledClips(
            [video], CallableRuntime(by_darkness), DisMotion(), size, 3, 0.0, 0, lambda source, own=own: own
        )
        assert np.array_equal(clips.read(video, 2), resize_image(expected, size))
