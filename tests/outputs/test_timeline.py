"""Timelines show every frame and every peak of a run of any length."""

import builtins
import math
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from results import result, write_frames
from stmg.errors import MissingPackageError, install_command
from stmg.outputs import timeline
from stmg.outputs.timeline import Timeline
from stmg.streaming.audit import Audit
from stmg.streaming.schedulers import Level


def test_a_timeline_shows_how_many_frames_had_each_level(tmp_path: Path) -> None:
    with Timeline(tmp_path / "made" / "timeline.png", title="street.mp4") as sink:
        write_frames(sink, 50)
        assert not (tmp_path / "made" / "timeline.png").exists()
    with Image.open(tmp_path / "made" / "timeline.png") as image:
        areas = {color: area for area, color in image.convert("RGB").getcolors(1 << 24) or []}
    key, partial, carry = (areas[tuple(bytes.fromhex(timeline.LEVEL_COLORS[level][1:]))] for level in Level)
    assert 3.5 < carry / key < 4.5  # four of five frames were carried
    assert 0 < partial < key / 10  # none was partial, which leaves its patch in the legend


@pytest.mark.parametrize("fields", [{"time": None}, {"time": 3.0}, {"drift": math.inf, "distortion": math.nan}])
@pytest.mark.parametrize("num_frames", [1, 3])
def test_a_timeline_can_draw_anything(tmp_path: Path, fields: dict[str, Any], num_frames: int) -> None:
    with Timeline(tmp_path / "timeline.png", title="a $1_$2 name.mp4") as sink:
        for index in range(num_frames):
            sink.write(result(index, **fields))
    assert (tmp_path / "timeline.png").stat().st_size > 1000


def test_a_long_timeline_keeps_few_spans_but_every_frame_and_peak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "MAX_SPANS", 16)
    sink = Timeline(tmp_path / "timeline.png")
    for index in range(1001):
        peak = {"distortion": 0.9} if index == 777 else {}
        sink.write(result(index, (2, 2), latency_ms=index, **peak))
        assert len(sink._spans) < 16
    drawn: list[Any] = []
    monkeypatch.setattr(timeline, "_draw", lambda spans, title: drawn.extend(spans) or b"picture")
    sink.close()
    assert sum(span.num_frames for span in drawn) == 1001
    assert len({span.num_frames for span in drawn[:-1]}) == 1
    assert [sum(counts) for counts in zip(*(span.levels for span in drawn), strict=True)] == [201, 0, 800]
    assert [span.distortion for span in drawn].count(0.9) == 1
    assert not any(math.isnan(span.distortion) for span in drawn)  # though every fifth frame has none
    assert sum(span.latency_sum for span in drawn) == sum(range(1001))
    assert drawn[-1].latency_max == 1000


@pytest.mark.parametrize("distortions", [(math.nan, 0.3), (0.3, math.nan)])
def test_frames_without_distortion_do_not_hide_that_of_their_neighbors(distortions: tuple[float, float]) -> None:
    one, two = (timeline.Span.from_result(result(0, distortion=value)) for value in distortions)
    assert one.join(two).distortion == 0.3
    nothing = timeline.Span.from_result(result(0, distortion=math.nan))
    assert math.isnan(nothing.join(nothing).distortion)


def test_a_missing_matplotlib_is_noticed_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really_import = builtins.__import__

    def without_matplotlib(name: str, *rest: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError(name, name="matplotlib")
        return really_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_matplotlib)
    with pytest.raises(
        MissingPackageError, match=re.escape(f"the timeline needs matplotlib: {install_command('plots')}")
    ):
        Timeline(tmp_path / "timeline.png")


@pytest.mark.parametrize("changed", [0.0, 0.02])
def test_what_audits_measured_is_drawn_though_most_frames_have_none(tmp_path: Path, changed: float) -> None:
    with Timeline(tmp_path / "with.png") as sink, Timeline(tmp_path / "without.png") as other:
        for index in range(12):
            audit = Audit(changed, {}, 5) if index in (5, 10) else None
            sink.write(result(index, audit=audit))
            other.write(result(index))
    assert (tmp_path / "with.png").read_bytes() != (tmp_path / "without.png").read_bytes()
    spans = [timeline.Span.from_result(result(0, audit=each)) for each in (None, Audit(changed, {}, 5))]
    assert spans[0].join(spans[1]).measured == spans[1].join(spans[0]).measured == changed
    assert math.isnan(spans[0].join(spans[0]).measured)
