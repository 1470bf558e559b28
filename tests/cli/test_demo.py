import json

import pytest

from commands import run_stmg
from stmg.checkpoints.locate import shipped_names
from stmg.cli.demo import MODEL


@pytest.mark.slow
def test_the_demo_makes_what_it_promises(tmp_path):
    assert MODEL in shipped_names()
    done = run_stmg("demo", "--frames", 12, "--threads", 1, "--out", tmp_path, columns=80)
    assert done.returncode == 0, done.stderr
    for row in ("base, every frame", "the paper's mode", "stmg"):
        assert any(line.strip().startswith(row) for line in done.stdout.splitlines()), row
    for head in ("mIoU", "FPS", "gain", "key", "partial", "carry", "blocks run", "GMACs"):
        assert head in done.stdout
    assert "…" not in done.stdout  # the table fits 80 columns
    for name in ("street.mp4", "overlay.mp4", "side-by-side.png", "timeline.png"):
        assert (tmp_path / name).stat().st_size > 1000
    levels = [json.loads(line)["level"] for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert len(levels) == 12
    assert "carry" in levels
