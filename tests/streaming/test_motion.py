"""Motion: estimated where it is, trusted where it explains the change, and what it leaves unexplained."""

from itertools import pairwise

import av
import numpy as np
import pytest

from stmg.errors import SettingsError
from stmg.streaming.flow import compose
from stmg.streaming.motion import (
    CodecMotion,
    DisMotion,
    NoMotion,
    flow_shape,
    make_motion_estimator,
    make_view,
    map_shape,
    measure_change,
)
from stmg.video.frames import CodecVectors, Frame
from stmg.video.sources import open_video
from zoo import panning, texture


def views(frames):
    return [make_view(Frame(frame, index)) for index, frame in enumerate(frames)]


def test_a_flow_says_where_a_cell_was():
    """The camera pans right by 3 of 128 pixels, so what is seen now was 3 pixels further right before."""
    before, now = views(panning(2, (96, 128), step=3))
    flow = DisMotion().estimate(before, now).flow
    assert np.median(flow[..., 0]) == pytest.approx(3 / 128, rel=0.1)
    assert abs(np.median(flow[..., 1])) < 0.2 / 96


def test_no_motion_is_no_flow():
    assert NoMotion().estimate(*views(panning(2))) == (None, "none")


def test_motion_explains_a_pan_and_not_a_new_object():
    frames = panning(2, (96, 128), step=3)
    frames[1] = frames[1].copy()
    frames[1][30:60, 40:80] = texture(30, 40, seed=9)
    before, now = views(frames)
    flow = DisMotion().estimate(before, now).flow
    left = measure_change(before, now, flow)
    assert left.shape == map_shape(now)
    assert left[8:14, 11:19].mean() > 5 * left[:, :8].mean()
    assert measure_change(before, now, None)[:, :8].mean() > left[:, :8].mean()
    assert measure_change(now, now, None).max() == 0


@pytest.mark.parametrize("size", [(20, 20), (1, 40), (8, 20000), (33, 500), (720, 960)])
def test_views_are_small_but_never_too_small_to_search(size):
    before, now = views(panning(2, size, step=1))
    assert min(now.gray.shape) >= 16
    assert now.gray.shape[1] <= 500
    assert now.size == size
    assert DisMotion().estimate(before, now).flow.shape == (*flow_shape(now), 2)


BLOCKS = np.dtype([(n, "i4") for n in ("source", "w", "h", "dst_x", "dst_y", "motion_x", "motion_y", "motion_scale")])


def coded(size, vector, reference=0, source=-1, covered=1.0):
    """Vectors of one direction on a grid of 16x16 blocks."""
    centers = [(x, y) for y in range(8, size[0], 16) for x in range(8, size[1], 16)]
    centers = centers[: round(len(centers) * covered)]
    rows = [(source, 16, 16, x, y, 4 * vector[0], 4 * vector[1], 4) for x, y in centers]
    return CodecVectors(np.array(rows, BLOCKS), "P", reference, size)


def test_codec_vectors_are_scaled_to_the_step():
    frames = panning(4, (96, 128), step=2)
    before = make_view(Frame(frames[2], 2))
    now = make_view(Frame(frames[3], 3, vectors=coded((96, 128), (6, 0), reference=0)))
    flow, source = CodecMotion().estimate(before, now)
    assert source == "codec"
    assert flow[..., 0] == pytest.approx(2 / 128, abs=1e-4)


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
    before, now = make_view(Frame(frames[0], 0)), make_view(Frame(frames[1], 1, vectors=vectors))
    motion = CodecMotion().estimate(before, now)
    assert motion.source == "dis"
    assert np.median(motion.flow[..., 0]) == pytest.approx(2 / 128, rel=0.15)


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
        seen = [make_view(frame) for frame in source]
    motions = [CodecMotion().estimate(a, b) for a, b in pairwise(seen)]
    from_codec = [motion.flow for motion in motions if motion.source == "codec"]
    assert len(from_codec) >= len(motions) / 2
    speeds = [float(np.median(flow[..., 0])) * 192 for flow in from_codec]
    assert np.median(speeds) == pytest.approx(4, abs=0.5)


def test_flows_of_both_sources_compose():
    """A stream may change between codec vectors and search at any frame."""
    frames = panning(3, (96, 128), step=2)
    one = make_view(Frame(frames[0], 0))
    two = make_view(Frame(frames[1], 1, vectors=coded((96, 128), (2, 0))))
    three = make_view(Frame(frames[2], 2))
    first, second = CodecMotion().estimate(one, two), CodecMotion().estimate(two, three)
    assert (first.source, second.source) == ("codec", "dis")
    path = compose(first.flow, second.flow)
    assert np.median(path[..., 0]) == pytest.approx(4 / 128, rel=0.1)


def test_names_are_checked():
    assert isinstance(make_motion_estimator("codec"), CodecMotion)
    with pytest.raises(SettingsError, match="no motion estimator is called 'raft'; there are dis, dis-medium, "):
        make_motion_estimator("raft")
