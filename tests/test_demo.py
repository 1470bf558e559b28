import json

import pytest
from rich.console import Console

from stmg.commands.demo import demo


@pytest.mark.slow
def test_the_demo_makes_what_it_promises(tmp_path):
    console = Console(record=True, width=120)
    assert demo(tmp_path, num_steps=8, num_frames=12, console=console) == 0
    text = console.export_text()
    assert "every frame" in text
    assert "stmg" in text
    for name in ("street.mp4", "overlay.mp4", "side-by-side.png", "timeline.png", "model/model.safetensors"):
        assert (tmp_path / name).stat().st_size > 1000
    levels = [json.loads(line)["level"] for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert len(levels) == 12
    assert "carry" in levels
