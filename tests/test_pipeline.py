"""The pipeline from source to sink: everything is written and counted, however the stream ends."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import stmg
from clips import clip
from stmg.errors import SourceLostError
from stmg.outputs.sinks import Sink
from stmg.pipeline import run_pipeline
from stmg.streaming.statistics import Statistics
from stmg.video.frames import Frame
from stmg.video.sources import FrameSource, open_video


class Listed(Sink):
    def __init__(self):
        self.results = []

    def write(self, result):
        self.results.append(result)

    def close(self):
        """Nothing to finish."""


class Scripted(FrameSource):
    """Frames of one shade each, then an error."""

    def __init__(self, count, error=StopIteration):
        self.frames = [Frame(np.full((32, 48, 3), 10 * index % 256, np.uint8), index) for index in range(count)]
        self.error, self.taken = error, 0

    @property
    def dropped(self):
        return self.taken

    def __next__(self):
        if self.taken == len(self.frames):
            raise self.error
        self.taken += 1
        return self.frames[self.taken - 1]


@pytest.fixture
def segmenter():
    return stmg.VideoSegmenter(lambda image: image.transpose(2, 0, 1).astype(np.float32), motion="none")


@pytest.fixture(autouse=True)
def _no_signal_is_ignored(monkeypatch):
    monkeypatch.setattr("stmg.pipeline.ignore_ending", lambda: None)


@pytest.mark.parametrize("mode", ["offline", "online", "realtime"])
def test_every_frame_is_written_and_counted(segmenter, tmp_path, mode):
    sink, seen = Listed(), []
    with open_video(clip(tmp_path / "clip.mp4", 12)) as video:
        statistics = run_pipeline(
            segmenter, video, sink, Statistics(mode), on_result=lambda statistics: seen.append(statistics.num_frames)
        )
    assert [result.index for result in sink.results] == list(range(12))
    assert seen == list(range(1, 13))
    assert (statistics.num_frames, statistics.dropped, statistics.damaged) == (12, 0, None)


@pytest.mark.parametrize(("error", "name"), [(KeyboardInterrupt, "interrupted"), (SourceLostError("gone"), "lost")])
def test_an_early_end_is_raised_or_noted(segmenter, error, name):
    sink = Listed()
    with pytest.raises((KeyboardInterrupt, SourceLostError)):
        run_pipeline(segmenter, Scripted(3, error), sink, Statistics())
    statistics = run_pipeline(segmenter, Scripted(3, error), sink, Statistics(), end_early=True)
    assert len(sink.results) == 6
    assert (statistics.num_frames, statistics.dropped) == (3, 3)
    assert getattr(statistics, name)


def test_a_skipped_frame_is_neither_written_nor_counted(segmenter):
    sink = Listed()
    statistics = run_pipeline(segmenter, Scripted(4), sink, Statistics(), skip=0)
    assert [result.index for result in sink.results] == [1, 2, 3]
    assert statistics.num_frames == 3


def test_a_stream_that_is_over_leaves_no_threads(segmenter):
    sink = Listed()
    run_pipeline(segmenter, Scripted(50), sink, Statistics("offline"), is_over=lambda: len(sink.results) == 2)
    assert len(sink.results) == 2
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("stmg-")]


def test_frames_of_a_source_are_not_copied(segmenter):
    source, sink = Scripted(6), Listed()
    run_pipeline(segmenter, source, sink, Statistics("offline"))
    assert all(result.image is frame.image for result, frame in zip(sink.results, source.frames, strict=True))
