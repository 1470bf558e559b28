import json

import pytest

from commands import run_stmg
from stmg.cli.demo import MODEL, NEXT, STREETS
from stmg.evaluation import comparison
from stmg.models.names import shipped_names


@pytest.mark.slow
def test_the_demo_makes_what_it_promises(tmp_path):
    assert MODEL in shipped_names()
    done = run_stmg("demo", "--frames", 6, "--threads", 1, "--out", tmp_path, columns=80)
    assert done.returncode == 0, done.stderr
    methods = (
        comparison.NETWORK,
        comparison.COPIED,
        comparison.PAPER,
        comparison.ONLINE,
        comparison.OFFLINE,
        comparison.REALTIME,
    )
    for row in methods:
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
