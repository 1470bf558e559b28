"""Frames: any image becomes RGB bytes, or raises an error with the reason."""

import av
import numpy as np
import pytest
import torch
from PIL import Image

from clips import clip
from stmg.errors import FrameError, SettingsError
from stmg.streaming.flow import warp
from stmg.video.frames import Frame, as_frame, check_size, resize_image
from stmg.video.sources import open_video
from zoo import texture

IMAGE = texture(24, 32)


def test_numpy_torch_and_pyav_give_the_same_picture():
    pyav = av.VideoFrame.from_ndarray(IMAGE, format="rgb24")
    for value in (IMAGE, torch.from_numpy(IMAGE), torch.from_numpy(IMAGE).permute(2, 0, 1), pyav, Frame(IMAGE)):
        assert np.array_equal(as_frame(value).image, IMAGE)


def test_frames_of_opencv_are_bgr_where_color_is_bgr():
    swapped = np.ascontiguousarray(IMAGE[:, :, ::-1])
    with_alpha = np.dstack([swapped, IMAGE[:, :, 0]])
    for value in (swapped, IMAGE[:, :, ::-1], with_alpha, torch.from_numpy(swapped).permute(2, 0, 1)):
        assert np.array_equal(as_frame(value, "bgr").image, IMAGE)
    frame = as_frame(Frame(swapped, 3, 0.5, color="bgr"))
    assert (frame.index, frame.time, frame.color) == (3, 0.5, "rgb")
    assert np.array_equal(frame.image, IMAGE)
    assert np.array_equal(as_frame(Frame(swapped, color="bgr"), "bgr").image, IMAGE)
    for knows_its_own in (Frame(IMAGE), av.VideoFrame.from_ndarray(IMAGE, format="rgb24"), Image.fromarray(IMAGE)):
        with pytest.raises(FrameError, match="color='bgr' is for arrays"):
            as_frame(knows_its_own, "bgr")
    with pytest.raises(SettingsError, match="rgb, or bgr"):
        as_frame(IMAGE, "gbr")


def test_images_of_pil_of_every_mode():
    image = Image.fromarray(IMAGE)
    assert np.array_equal(as_frame(image).image, IMAGE)
    assert np.array_equal(as_frame(image.convert("RGBA")).image, IMAGE)
    gray = np.array(image.convert("L"))
    assert np.array_equal(as_frame(image.convert("L")).image, np.stack([gray] * 3, axis=-1))
    sixteen = Image.fromarray(gray.astype(np.uint16) * 257)
    assert np.array_equal(as_frame(sixteen).image, np.stack([gray] * 3, axis=-1))
    few = image.quantize(8)
    assert np.array_equal(as_frame(few).image, np.array(few.convert("RGB")))
    with pytest.raises(FrameError, match="uint8"):
        as_frame(image.convert("F"))


def test_an_opened_video_gives_frames_as_opencv_shows_them_on_request(tmp_path):
    path = clip(tmp_path / "clip.mp4", 2)
    with open_video(path) as video, open_video(path, color="bgr") as for_opencv:
        for rgb, bgr in zip(video, for_opencv, strict=True):
            assert (rgb.color, bgr.color) == ("rgb", "bgr")
            assert np.array_equal(bgr.image[:, :, ::-1], rgb.image)
            assert np.array_equal(as_frame(bgr).image, rgb.image)  # nobody has to say it again
    with pytest.raises(SettingsError, match="rgb, or bgr"):
        open_video(path, color="BGR")


def test_a_frame_around_a_view_is_copied_and_one_without_pixels_refused():
    flipped = as_frame(Frame(IMAGE[:, :, ::-1], 3, 0.5))
    assert flipped.image.flags.c_contiguous
    assert np.array_equal(flipped.image, IMAGE[:, :, ::-1])
    assert (flipped.index, flipped.time) == (3, 0.5)
    with pytest.raises(FrameError, match="at least one pixel"):
        as_frame(Frame(IMAGE[:0]))


def test_a_picture_that_pyav_decoded_is_turned_upright(tmp_path):
    path = clip(tmp_path / "clip.mp4", 2, rotation=-90)
    with av.open(str(path)) as container, open_video(path) as video:
        decoded = as_frame(next(container.decode(video=0)))
        assert np.array_equal(decoded.image, next(iter(video)).image)


def test_gray_is_repeated_alpha_dropped_and_sixteen_bits_shortened():
    gray = IMAGE[:, :, 0]
    for value in (gray, gray[:, :, None], Frame(gray)):
        assert np.array_equal(as_frame(value).image, np.stack([gray] * 3, axis=-1))
    with_alpha = np.dstack([IMAGE, gray])
    assert np.array_equal(as_frame(with_alpha).image, IMAGE)
    assert np.array_equal(as_frame(Frame(with_alpha, 3)).image, IMAGE)
    assert np.array_equal(as_frame(IMAGE.astype(np.uint16) * 257).image, IMAGE)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (IMAGE.astype(np.float32) / 255, "uint8 values from 0 to 255"),
        (IMAGE.astype(np.int64), "uint8"),
        (np.zeros((4, 4, 2), np.uint8), r"shape \(H, W, 3\)"),
        (np.zeros((2, 4, 4, 3), np.uint8), r"shape \(H, W, 3\)"),
        (np.zeros((0, 4, 3), np.uint8), "at least one pixel"),
    ],
)
def test_other_arrays_are_refused_with_the_reason(value, reason):
    with pytest.raises(FrameError, match=reason):
        as_frame(value)


def test_other_things_are_refused_by_type():
    with pytest.raises(FrameError, match="not str"):
        as_frame("frame.png")


def test_shrinking_averages_areas_and_growing_interpolates():
    stripes = np.zeros((4, 8, 3), np.uint8)
    stripes[:, ::2] = 100
    assert (resize_image(stripes, (2, 4)) == 50).all()
    ramp = resize_image(np.array([[[0] * 3, [100] * 3]], np.uint8), (1, 4))
    assert ramp[0, :, 0].tolist() == [0, 25, 75, 100]
    assert resize_image(stripes, (4, 8)) is stripes
    assert resize_image(stripes[:, :, 0], (2, 8)).shape == (2, 8)


def test_a_size_is_two_whole_numbers_of_any_kind_that_opencv_can_warp() -> None:
    size = check_size(np.array([48, 64]))
    assert (size, type(size[0])) == ((48, 64), int)
    assert check_size((2, 32766)) == (2, 32766)
    warp(np.zeros((2, 32766), np.float32), np.zeros((1, 1, 2), np.float32))
    with pytest.raises(SettingsError, match=r"sides up to 32766 .* 2x32767 is too large"):
        check_size((2, 32767))
    for wrong in (5, "64", (48,), (48, 64, 3), (48.0, 64.0), (0, 64), (48, -1), None):
        with pytest.raises(SettingsError, match="resize is a height and a width above 0"):
            check_size(wrong, "resize")  # type: ignore[arg-type]
