"""Model zoo: a page for each checkpoint that comes with the package or the repository, from its card."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from stmg.models.card import CARD, Card, read_card
from stmg.models.correctors import has_corrector, read_corrector_card
from stmg.models.names import LARGE, find_checkpoint, shipped_names

ROOT = Path(__file__).parents[2]
TITLES = {"base iou": "IoU of each class, every frame computed"}


class Model(NamedTuple):
    """A checkpoint and its card."""

    name: str
    folder: Path
    card: Card


def list_models() -> list[Model]:
    """The models in the package, then the large ones in the repository."""
    folders = {name: find_checkpoint(name) for name in shipped_names()}
    folders |= {name: ROOT / "weights" / name for name in LARGE if (ROOT / "weights" / name / CARD).is_file()}
    return [Model(name, folder, read_card(folder)) for name, folder in folders.items()]


def index_page() -> str:
    """All models in a table."""
    rows = []
    for model in list_models():
        figures = _figures(model.card)
        size = sum(path.stat().st_size for path in model.folder.iterdir()) / 1e6
        accuracy = "" if figures.get("base miou") is None else f"{figures['base miou']:.1f} % on {figures.get('data')}"
        shape = "x".join(map(str, model.card.size))
        rows.append(
            f"| [`{model.name}`]({model.name}.md) | {model.card.network} | {shape} | {model.card.num_classes} | "
            f"{accuracy} | {size:.1f} MB |"
        )
    head = ["| name | network | frame size | classes | mIoU, every frame | weights |", "|---|---|---|---|---|---|"]
    return "\n".join(
        [
            "# Model zoo\n",
            "Checkpoints to measure and to start from. `stmg.load(NAME)` and `--model NAME` take the names below; they "
            "also take your own checkpoint folder, an export, a graph file or a Hub id. Each page is written from the "
            f"card, `{CARD}`, that lies beside the weights.\n",
            *head,
            *rows,
            "",
        ]
    )


def model_page(model: Model) -> str:
    """One model: what it is, how it streams, how it was made, what it must not be used for."""
    card, notes, figures = model.card, model.card.notes, _figures(model.card)
    parts = [f"# {model.name}\n"]
    if notes.get("limits"):
        parts.append(f'!!! warning "Limits"\n    {notes["limits"]}\n')
    facts = {
        "network": card.network,
        "frame size": "x".join(map(str, card.size)),
        "classes": ", ".join(card.class_names) or card.num_classes,
        "mask generator": "yes" if card.mask_generator else "no",
        "weights of its own for partial frames": "yes" if card.two_weight_sets else "no",
        "prunable blocks": len(card.blocks),
        "trained on": notes.get("data"),
        "hours of training": notes.get("hours"),
        "minutes of training": None if notes.get("hours") else notes.get("minutes"),
        "trained by": f"`{notes['command']}`" if notes.get("command") else None,
    }
    parts.append(_table(facts))
    streaming = {
        "online": _scheduler(card.scheduler),
        "offline": _scheduler(card.offline),
        "motion": f"`{card.motion}`",
        "fusion": card.fusion,
        "scale of partial frames": card.partial_scale,
    }
    parts.append("## How it streams\n\n" + _table(streaming))
    if has_corrector(model.folder):
        corrector = read_corrector_card(model.folder)
        facts = {
            "GMACs of a frame": f"{corrector.macs / 1e9:.2f}",
            "for": "online, realtime and offline" if corrector.between else "online and realtime",
            "learned with motion": f"`{corrector.motion}`",
            "trained on": corrector.notes.get("data"),
            "minutes of training": corrector.notes.get("minutes"),
            "trained by": f"`{corrector.notes['command']}`" if corrector.notes.get("command") else None,
        }
        parts.append("## Its corrector\n\n" + _table(facts))
    plain = {name: value for name, value in figures.items() if not isinstance(value, dict)}
    if plain:
        parts.append("## Figures on its card\n\n" + _table(plain))
    for name, value in figures.items():
        if isinstance(value, dict):
            parts.append(f"## {TITLES.get(name, name)}\n\n" + _table(value))
    return "\n".join(parts)


def _figures(card: Card) -> dict[str, Any]:
    figures = card.notes.get("figures")
    return figures if isinstance(figures, dict) else {}


def _scheduler(fields: dict[str, object]) -> str:
    options = ",".join(f"{name}={value}" for name, value in fields.items() if name != "name")
    return f"`{fields['name']}{':' if options else ''}{options}`"


def _table(values: dict[str, Any]) -> str:
    rows = [f"| {name} | {value} |" for name, value in values.items() if value is not None]
    return "\n".join(["| | |", "|---|---|", *rows, ""])
