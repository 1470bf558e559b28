"""Pipeline: a source through a segmenter into a sink. The one loop of `stmg segment`, `batch` and `serve`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import closing

from stmg.errors import SourceLostError
from stmg.outputs.sinks import Sink
from stmg.segmenter import VideoSegmenter
from stmg.signals import ignore_ending
from stmg.streaming.statistics import Statistics
from stmg.video.sources import FrameSource


def run_pipeline(
    segmenter: VideoSegmenter,
    source: FrameSource,
    sink: Sink,
    statistics: Statistics,
    *,
    executor: Executor | None = None,
    skip: int | None = None,
    on_result: Callable[[Statistics], object] | None = None,
    is_over: Callable[[], bool] | None = None,
    end_early: bool = False,
) -> Statistics:
    """Segment a source into a sink, and add up statistics. The caller closes both.

    statistics: of this stream, in its mode; or those of a stream that goes on.
    executor: runs the network in realtime.
    skip: index of a frame that is neither written nor counted.
    on_result: called after each frame.
    is_over: ends the stream once it returns True; called after each frame.
    end_early: return normally on Ctrl-C and when a live source breaks off, and say so in the statistics. Signals to end
        are then ignored, so that the caller can finish the outputs. Otherwise both are raised.
    """
    dropped, dropped_early = source.dropped, source.dropped_early
    # closing ends the threads of a stream that is left early
    with closing(segmenter.stream(source, mode=statistics.mode, executor=executor)) as results:  # type: ignore[type-var]
        try:
            for result in results:
                if result.index != skip:
                    statistics.add(result)
                    sink.write(result)
                if on_result is not None:
                    on_result(statistics)
                if is_over is not None and is_over():
                    break
        except KeyboardInterrupt:
            if not end_early:
                raise
            ignore_ending()
            statistics.interrupted = True
        except SourceLostError as error:
            if not end_early:
                raise
            statistics.lost = str(error)
    statistics.dropped += source.dropped - dropped
    statistics.dropped_early += source.dropped_early - dropped_early
    statistics.damaged = source.damaged
    return statistics
