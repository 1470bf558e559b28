"""Put a trained checkpoint among the weights that come with the package, in half precision, with what should be known.

python tools/ship.py runs/lite0-camvid/last lite0-camvid --command "stmg train ..." --limits "..."
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import yaml

from stmg.checkpoint import load_network, save

WEIGHTS = Path(__file__).parents[1] / "src" / "stmg" / "weights"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("name")
    parser.add_argument("--command", required=True, help="how it was trained")
    parser.add_argument("--limits", required=True, help="what it should not be used for")
    parser.add_argument("--scheduler", help="name and settings, such as {name: drift, key_above: 0.2}")
    arguments = parser.parse_args()
    network, card = load_network(arguments.checkpoint)
    notes = {**card.notes, "command": arguments.command, "limits": arguments.limits}
    if arguments.scheduler:
        card = replace(card, scheduler=yaml.safe_load(arguments.scheduler))
    save(WEIGHTS / arguments.name, network, replace(card, notes=notes), half=True)
    size = sum(path.stat().st_size for path in WEIGHTS.rglob("*.safetensors"))
    print(f"{WEIGHTS / arguments.name}; all shipped weights together {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
