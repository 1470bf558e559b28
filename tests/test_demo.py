import json

import pytest
from rich.console import Console

from stmg.checkpoint import shipped
from stmg.commands.demo import MODEL, demo


@pytest.mark.slow
def test_the_demo_makes_what_it_promises(tmp_path):
    assert MODEL in shipped()
    console = Console(record=True, width=140)
    assert demo(tmp_path, num_frames=12, console=console) == 0
    text = console.export_text()
    for row in ("base, every frame", "the paper's mode", "stmg"):
        assert row in text
    for name in ("street.mp4", "overlay.mp4", "side-by-side.png", "timeline.png"):
        assert (tmp_path / name).stat().st_size > 1000
    levels = [json.loads(line)["level"] for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert len(levels) == 12
    assert "carry" in levels
