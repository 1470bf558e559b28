"""Metrics for Prometheus, read from the streams at each request."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from stmg.serve.figures import LiveFigures
from stmg.serve.service import Service, Shown

LABELS = ("stream",)
BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Upper bounds of the latency histogram, in seconds."""
GAUGES = {
    "source_fps": "Frames per second that the source delivers",
    "process_fps": "Results per second",
    "skipped_fps": "Frames per second that are dropped for newer ones",
    "network_fps": "Runs of the network per second",
    "anchor_frames": "Frames between the one shown and the one its labels come from",
    "audit_mean": "Share of the pixels that the network changed of what was shown, mean of the last audits",
    "silent_seconds": "Seconds since the last result",
}
COUNTERS = {
    "dropped": "Frames that were dropped for newer ones",
    "network_runs": "Runs of the network",
    "reconnects": "Attempts to open a source again",
    "audits": "Runs of the network that were compared with what was shown",
}


def make_registry(service: Service) -> CollectorRegistry:
    """The contents of `/metrics`."""
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    registry.register(StreamCollector(service))
    return registry


class StreamCollector(Collector):
    """The figures of every stream, by its name."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        shown = self._service.shown
        figures = [(item, item.stream.figures.read()) for item in shown]
        for name, help_text in GAUGES.items():
            yield self._gauge(name, help_text, figures)
        for name, help_text in COUNTERS.items():
            counter = CounterMetricFamily(f"stmg_{name}", help_text, labels=LABELS)
            for item, values in figures:
                counter.add_metric([item.stream.name], getattr(values, name))
            yield counter
        frames = CounterMetricFamily("stmg_frames", "Results by level", labels=(*LABELS, "level"))
        up = GaugeMetricFamily("stmg_stream_up", "Whether a stream is live", labels=LABELS)
        viewers = GaugeMetricFamily("stmg_stream_viewers", "Who looks at a stream", labels=LABELS)
        encoded = CounterMetricFamily("stmg_pictures_encoded", "Pictures that were encoded", labels=LABELS)
        latency = HistogramMetricFamily("stmg_latency_seconds", "From a frame to its labels", labels=LABELS)
        for item, values in figures:
            name = item.stream.name
            for level, count in values.frames.items():
                frames.add_metric([name, level], count)
            up.add_metric([name], float(item.stream.status.state == "live"))
            viewers.add_metric([name], item.pictures.viewers)
            encoded.add_metric([name], item.pictures.encoded)
            counts, seconds = item.stream.figures.histogram(BUCKETS)
            buckets = list(zip((*map(str, BUCKETS), "+Inf"), counts, strict=True))
            latency.add_metric([name], buckets, seconds)
        yield from (frames, up, viewers, encoded, latency)
        uploads = GaugeMetricFamily("stmg_uploads", "Uploaded videos by state", labels=("state",))
        jobs = [] if self._service.uploads is None else self._service.uploads.list()
        for state in ("receiving", "waiting", "processing", "done", "failed", "canceled"):
            uploads.add_metric([state], sum(job.state == state for job in jobs))
        yield uploads

    @staticmethod
    def _gauge(name: str, help_text: str, figures: list[tuple[Shown, LiveFigures]]) -> GaugeMetricFamily:
        gauge = GaugeMetricFamily(f"stmg_{name}", help_text, labels=LABELS)
        for item, values in figures:
            value = getattr(values, name)
            if value is not None:
                gauge.add_metric([item.stream.name], value)
        return gauge
