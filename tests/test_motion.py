from itertools import pairwise

import av
import numpy as np
import pytest
import torch

from stmg.frames import CodecVectors, Frame
from stmg.motion import (
    CodecMotion,
    DisMotion,
    NoMotion,
    composed,
    estimator_named,
    map_shape,
    move,
    unexplained,
    view_of,
)
from stmg.video import open_video
from zoo import panning, texture


def views(frames):
    return [view_of(Frame(frame, index)) for index, frame in enumerate(frames)]


def shift(x, y, shape=(6, 8)):
    return np.broadcast_to(np.array([x, y], np.float32), (*shape, 2)).copy()


def test_a_field_says_where_a_cell_was():
    """The camera pans right by 3 of 128 pixels, so what is seen now was 3 pixels further right before."""
    before, now = views(panning(2, (96, 128), step=3))
    field = DisMotion().between(before, now).field
    assert np.median(field[..., 0]) == pytest.approx(3 / 128, rel=0.1)
    assert abs(np.median(field[..., 1])) < 0.2 / 96


def test_moving_brings_the_older_frame_onto_the_newer():
    before, now = panning(2, (96, 128), step=3)
    field = shift(3 / 128, 0, (96, 128))
    assert np.array_equal(move(before, field)[:, :-3], now[:, :-3])
    labels = before[:, :, 0] // 32
    assert np.array_equal(move(labels, field, nearest=True)[:, :-3], (now[:, :, 0] // 32)[:, :-3])


def test_what_comes_from_outside_repeats_the_border():
    values = np.arange(8, dtype=np.float32)[None].repeat(6, 0)
    assert move(values, shift(4 / 8, 0))[0].tolist() == [4, 5, 6, 7, 7, 7, 7, 7]


@pytest.mark.parametrize("size", [(6, 8), (12, 16), (45, 60)])
def test_tensors_and_arrays_move_alike(size):
    rng = np.random.default_rng(0)
    field = rng.normal(0, 0.05, (6, 8, 2)).astype(np.float32)
    values = rng.random((*size, 3)).astype(np.float32)
    tensor = torch.from_numpy(values).permute(2, 0, 1)[None]
    moved = move(tensor, field)[0].permute(1, 2, 0).numpy()
    assert np.allclose(moved, move(values, field), atol=0.03)  # OpenCV samples at 1/32 of a pixel


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_features_move_as_precisely(dtype):
    values = torch.arange(480, dtype=torch.float32).expand(1, 1, 4, 480) / 480
    still = np.zeros((2, 4, 2), np.float32)
    assert torch.allclose(move(values.to(dtype), still).float(), values.to(dtype).float(), atol=1e-6)


def test_no_motion_moves_nothing():
    values = np.random.default_rng(0).random((6, 8)).astype(np.float32)
    motion = NoMotion().between(*views(panning(2)))
    assert motion.field is None
    assert move(values, None) is values


def test_fields_compose():
    """Two steps at once land where two steps one by one do."""
    one, two = shift(0.25, 0, (8, 8)), shift(0.125, -0.25, (8, 8))
    values = np.random.default_rng(0).random((8, 8)).astype(np.float32)
    step_by_step = move(move(values, one), two)
    assert np.allclose(move(values, composed(one, two)), step_by_step)
    assert composed(None, two) is two
    assert composed(one, None) is one


def test_motion_explains_a_pan_and_not_a_new_object():
    frames = panning(2, (96, 128), step=3)
    frames[1] = frames[1].copy()
    frames[1][30:60, 40:80] = texture(30, 40, seed=9)
    before, now = views(frames)
    field = DisMotion().between(before, now).field
    left = unexplained(before, now, field)
    assert left.shape == map_shape(now)
    assert left[8:14, 11:19].mean() > 5 * left[:, :8].mean()
    assert unexplained(before, now, None)[:, :8].mean() > left[:, :8].mean()
    assert unexplained(now, now, None).max() == 0


@pytest.mark.parametrize("size", [(20, 20), (1, 40), (8, 20000), (33, 500), (720, 960)])
def test_views_are_small_but_never_too_small_to_search(size):
    before, now = views(panning(2, size, step=1))
    assert min(now.grey.shape) >= 16
    assert now.grey.shape[1] <= 500
    assert now.size == size
    height, width = now.grey.shape
    assert DisMotion().between(before, now).field.shape == (height // 2, width // 2, 2)


BLOCKS = np.dtype([(n, "i4") for n in ("source", "w", "h", "dst_x", "dst_y", "motion_x", "motion_y", "motion_scale")])


def coded(size, vector, reference=0, source=-1, covered=1.0):
    """Vectors of one direction on a grid of 16x16 blocks."""
    centres = [(x, y) for y in range(8, size[0], 16) for x in range(8, size[1], 16)]
    centres = centres[: round(len(centres) * covered)]
    rows = [(source, 16, 16, x, y, 4 * vector[0], 4 * vector[1], 4) for x, y in centres]
    return CodecVectors(np.array(rows, BLOCKS), "P", reference, size)


def test_codec_vectors_are_scaled_to_the_step():
    frames = panning(4, (96, 128), step=2)
    before = view_of(Frame(frames[2], 2))
    now = view_of(Frame(frames[3], 3, vectors=coded((96, 128), (6, 0), reference=0)))
    field, source = CodecMotion().between(before, now)
    assert source == "codec"
    assert field[..., 0] == pytest.approx(2 / 128, abs=1e-4)


@pytest.mark.parametrize(
    "vectors",
    [
        None,
        coded((96, 128), (2, 0), reference=None),
        coded((96, 128), (2, 0), source=1),
        coded((96, 128), (2, 0), covered=0.3),
        coded((96, 128), (-30, 9)),
    ],
    ids=["none", "no reference", "future only", "mostly intra", "wrong"],
)
def test_vectors_that_cannot_be_trusted_fall_back(vectors):
    frames = panning(2, (96, 128), step=2)
    before, now = view_of(Frame(frames[0], 0)), view_of(Frame(frames[1], 1, vectors=vectors))
    motion = CodecMotion().between(before, now)
    assert motion.source == "dis"
    assert np.median(motion.field[..., 0]) == pytest.approx(2 / 128, rel=0.15)


@pytest.mark.parametrize("b_frames", [0, 2])
def test_a_coded_videos_own_vectors_follow_its_motion(tmp_path, b_frames):
    frames = panning(16, (128, 192), step=4)
    path = tmp_path / "pan.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=15, options={"bf": str(b_frames), "crf": "18", "refs": "1"})
        stream.width, stream.height, stream.pix_fmt = 192, 128, "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode(None))
    with open_video(path, motion_vectors=True) as source:
        seen = [view_of(frame) for frame in source]
    motions = [CodecMotion().between(a, b) for a, b in pairwise(seen)]
    from_codec = [motion.field for motion in motions if motion.source == "codec"]
    assert len(from_codec) >= len(motions) / 2
    speeds = [float(np.median(field[..., 0])) * 192 for field in from_codec]
    assert np.median(speeds) == pytest.approx(4, abs=0.5)


def test_fields_of_both_sources_compose():
    """A stream may change between codec vectors and search at any frame."""
    frames = panning(3, (96, 128), step=2)
    one = view_of(Frame(frames[0], 0))
    two = view_of(Frame(frames[1], 1, vectors=coded((96, 128), (2, 0))))
    three = view_of(Frame(frames[2], 2))
    first, second = CodecMotion().between(one, two), CodecMotion().between(two, three)
    assert (first.source, second.source) == ("codec", "dis")
    path = composed(first.field, second.field)
    assert np.median(path[..., 0]) == pytest.approx(4 / 128, rel=0.1)


def test_names_are_checked():
    assert isinstance(estimator_named("codec"), CodecMotion)
    with pytest.raises(ValueError, match="dis, codec, none"):
        estimator_named("raft")


def test_more_channels_than_opencv_takes_at_once_are_moved_alike():
    field = np.full((6, 8, 2), 0.1, np.float32)
    maps = np.random.default_rng(0).random((12, 16, 300)).astype(np.float32)
    moved = move(maps, field)
    assert moved.shape == maps.shape
    assert np.allclose(moved[:, :, 290], move(np.ascontiguousarray(maps[:, :, 290]), field), atol=0.05)
