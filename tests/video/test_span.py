"""Spans: frames from the middle of a video equal those of reading all of it."""

import numpy as np
import pytest

from clips import clip
from stmg.errors import SettingsError
from stmg.video.random_access import _Span, count_frames, open_span
from stmg.video.sources import open_video


@pytest.fixture(scope="module", params=[{}, {"bf": "3", "g": "30"}], ids=["plain", "b-frames"])
def video(request, tmp_path_factory):
    return clip(tmp_path_factory.mktemp("clip") / "clip.mp4", 60, **request.param)


@pytest.mark.parametrize(("first", "last", "every"), [(0, 59, 1), (13, 29, 1), (24, 24, 1), (30, 58, 3), (50, 200, 1)])
def test_a_span_is_those_frames_of_the_whole(video, first, last, every):
    with open_video(video, every=every) as source:
        expected = [frame for frame in source if first <= frame.index <= last]
    with open_span(video, first, last, every=every) as span:
        frames = list(span)
    assert [frame.index for frame in frames] == [frame.index for frame in expected]
    for one, two in zip(frames, expected, strict=True):
        assert np.array_equal(one.image, two.image)
        assert one.time == pytest.approx(two.time)


def test_a_span_begins_to_decode_near_its_first_frame(video, monkeypatch):
    decoded = []
    pictures = _Span._pictures

    def counted(self):
        for picture in pictures(self):
            decoded.append(picture.pts)
            yield picture

    monkeypatch.setattr(_Span, "_pictures", counted)
    with open_span(video, 40, 41) as span:
        assert len(list(span)) == 2
    assert len(decoded) <= 41 - 30 + 2  # a frame that stands alone comes every 12 or 30


def test_where_seeking_goes_too_far_decoding_begins_at_the_start(video, monkeypatch):
    pictures, openings = _Span._pictures, []

    def late(self):
        openings.append(self)
        found = list(pictures(self))
        yield from found[-1:] if len(openings) == 1 else found  # as if the container had landed at the end

    monkeypatch.setattr(_Span, "_pictures", late)
    with open_span(video, 20, 23) as span:
        assert [frame.index for frame in span] == [20, 21, 22, 23]


def test_frames_are_counted_and_mistakes_refused(video):
    assert count_frames(video) == 60
    with pytest.raises(SettingsError, match="first <= last"):
        open_span(video, 5, 4)
