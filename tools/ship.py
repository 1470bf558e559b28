"""Put a trained checkpoint among the weights that come with the package, in half precision, with what should be known.

python tools/ship.py runs/lite0-camvid/last lite0-camvid --command "stmg train ..." --limits "..."
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import yaml

from stmg.checkpoint import load_network, save
from stmg.motion import ESTIMATORS

WEIGHTS = Path(__file__).parents[1] / "src" / "stmg" / "weights"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("name")
    parser.add_argument("--command", required=True, help="how it was trained")
    parser.add_argument("--limits", required=True, help="what it should not be used for")
    parser.add_argument("--scheduler", help="name and settings, such as {name: drift, key_above: 0.2}")
    parser.add_argument("--motion", choices=list(ESTIMATORS), help="how the state is moved")
    parser.add_argument("--evaluation", type=Path, help="evaluation.json of stmg evaluate, whose figures to tell")
    arguments = parser.parse_args()
    network, card = load_network(arguments.checkpoint)
    notes = {**card.notes, "command": arguments.command, "limits": arguments.limits}
    if arguments.evaluation:
        told = json.loads(arguments.evaluation.read_text())
        notes["figures"] = {
            "data": told["data"],
            "base miou": told["base"]["miou"],
            "stream miou": told["ours"]["miou"],
            "stream macs": round(100 * told["ours"]["macs"] / told["base"]["macs"], 1),
            "stream": told["settings"],
            "base iou": told["base"]["iou"],
        }
    if arguments.scheduler:
        card = replace(card, scheduler=yaml.safe_load(arguments.scheduler))
    if arguments.motion:
        card = replace(card, motion=arguments.motion)
    save(WEIGHTS / arguments.name, network, replace(card, notes=notes), half=True)
    size = sum(path.stat().st_size for path in WEIGHTS.rglob("*.safetensors"))
    print(f"{WEIGHTS / arguments.name}; all shipped weights together {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
