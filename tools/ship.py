"""Put a trained checkpoint among the weights of the package, or of the repository if it is large, with its notes.

python tools/ship.py runs/lite0-camvid/last lite0-camvid --command "stmg train ..." --limits "..."
python tools/ship.py runs/ddrnet39-camvid-stmg/last ddrnet39-camvid --bits 8 --command "stmg train ..." --limits "..."
"""

from __future__ import annotations

import argparse
import shutil
from dataclasses import replace
from pathlib import Path

import yaml

from stmg.errors import DataError
from stmg.evaluation.results import EvaluationResult
from stmg.evaluation.storage import read_result
from stmg.models.correctors import CARD, WEIGHTS
from stmg.models.names import LARGE
from stmg.models.save import save
from stmg.models.torch_models import load_network
from stmg.networks.weights import BITS
from stmg.streaming.motion import MOTION_ESTIMATORS

ROOT = Path(__file__).parents[1]
PACKAGED, IN_REPOSITORY = ROOT / "src" / "stmg" / "weights", ROOT / "weights"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("name")
    parser.add_argument("--command", required=True, help="how it was trained")
    parser.add_argument("--limits", required=True, help="what it should not be used for")
    parser.add_argument("--scheduler", help="name and settings, such as {name: drift, key_above: 0.2}")
    parser.add_argument("--offline", help="likewise, of offline mode")
    parser.add_argument("--partial-scale", type=float, help="of partial frames")
    parser.add_argument("--fusion", type=float, help="share of the last key frame in the next one")
    parser.add_argument("--corrector", type=Path, help="folder of stmg adapt with the corrector to ship")
    parser.add_argument("--motion", choices=list(MOTION_ESTIMATORS), help="how the state is warped")
    parser.add_argument("--evaluation", type=Path, help="evaluation.json of stmg evaluate, to note its numbers")
    parser.add_argument("--bits", type=int, choices=BITS, default=16, help="of each weight on disk")
    arguments = parser.parse_args()
    network, card = load_network(arguments.checkpoint)
    notes = {**card.notes, "command": arguments.command, "limits": arguments.limits}
    if arguments.evaluation:
        notes["figures"] = _figures(arguments.evaluation)
    if arguments.scheduler:
        card = replace(card, scheduler=yaml.safe_load(arguments.scheduler))
    if arguments.offline:
        card = replace(card, offline=yaml.safe_load(arguments.offline))
    if arguments.partial_scale:
        card = replace(card, partial_scale=arguments.partial_scale)
    if arguments.fusion is not None:
        card = replace(card, fusion=arguments.fusion)
    if arguments.motion:
        card = replace(card, motion=arguments.motion)
    place = IN_REPOSITORY if arguments.name in LARGE else PACKAGED
    save(network, place / arguments.name, replace(card, notes=notes), bits=arguments.bits)
    if arguments.corrector:
        for file in (CARD, WEIGHTS):  # its graph is written on export
            shutil.copyfile(arguments.corrector / file, place / arguments.name / file)
    size = sum(path.stat().st_size for path in place.rglob("*.safetensors"))
    print(f"{place / arguments.name}; all weights in {place} together {size / 1e6:.1f} MB")


def _figures(path: Path) -> dict[str, object]:
    """The numbers of an evaluation that a card notes."""
    result = read_result(path)
    if not isinstance(result, EvaluationResult) or result.base.cost is None or result.stream.cost is None:
        raise DataError(f"{path} is no evaluation of a PyTorch network")
    return {
        "data": f"{result.data} {result.split}",
        "base miou": result.base.miou,
        "stream miou": result.stream.miou,
        "stream macs": round(100 * result.stream.cost.macs / result.base.cost.macs, 1),
        "stream": result.settings,
        "base iou": {each.name: each.iou for each in result.base.classes},
    }


if __name__ == "__main__":
    main()
