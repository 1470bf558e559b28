import json
import time

import pytest

from commands import run_stmg
from stmg import VideoSegmenter
from stmg.cli.demo import COPIED, MODEL, NETWORK, NEXT, STREETS, compare, list_ways
from stmg.evaluation.inputs import Clip
from stmg.evaluation.streams import open_way
from stmg.models.names import shipped_names
from stmg.training.pairs import IdentityCorrector
from stmg.video.frames import Frame
from zoo import colors, panning


@pytest.mark.slow
def test_the_demo_makes_what_it_promises(tmp_path):
    assert MODEL in shipped_names()
    done = run_stmg("demo", "--frames", 6, "--threads", 1, "--out", tmp_path, columns=80)
    assert done.returncode == 0, done.stderr
    for row in list_ways(with_paper=True):
        assert sum(line.strip().startswith(row) for line in done.stdout.splitlines()) == len(STREETS), row
    for head in ("mIoU", "change", "MACs", "FPS", "gain", "p95", "age"):
        assert head in done.stdout
    assert "…" not in done.stdout  # the tables fit 80 columns
    assert all(command in done.stdout for command in NEXT)
    for folder, frames in (("drive", 6), ("fixed-camera", 4)):
        for name in ("street.mp4", "overlay.mp4", "side-by-side.mp4", "timeline.png"):
            assert (tmp_path / folder / name).stat().st_size > 1000
        levels = [json.loads(line)["level"] for line in (tmp_path / folder / "records.jsonl").read_text().splitlines()]
        assert len(levels) == frames
        assert "carry" in levels


def test_only_stmg_has_the_models_corrector():
    segmenter = VideoSegmenter(colors, corrector=IdentityCorrector(3))
    ways = list_ways(with_paper=False)
    corrected = {name for name, way in ways.items() if open_way(way, segmenter).segmenter.settings.corrector}
    assert corrected == set(ways) - {NETWORK, COPIED}


def test_realtime_is_scored_on_every_frame_as_the_others_are():
    def slow(image):
        time.sleep(0.08)
        return colors(image)

    frames = [Frame(image, index) for index, image in enumerate(panning(6))]
    truths = [colors(frame.image).argmax(0).astype("uint8") for frame in frames]
    progress = []
    clip = Clip(frames, truths, {0}, None, None, 50.0)
    shown = compare(VideoSegmenter(slow), clip, 3, lambda *done: progress.append(done))
    assert shown.rows["stmg realtime"].live.dropped > 0
    assert {row.frames for row in shown.rows.values()} == {6}
    assert {len(results) for results in shown.results.values()} == {6}
    assert sum(frames for _, frames, _ in progress) == progress[0][2]
