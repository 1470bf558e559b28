"""Reference pages of files: recipes, settings, datasets, and the JSON that stmg writes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pages.fields import field_table, nested_record, read_fields
from pages.schemas import make_schema
from stmg.data.folder import Description
from stmg.evaluation.storage import FORMAT as RESULT_FORMAT
from stmg.evaluation.storage import KINDS
from stmg.models.card import CARD, Card
from stmg.models.card import FORMAT as CARD_FORMAT
from stmg.models.correctors import CARD as CORRECTOR_CARD
from stmg.models.correctors import CorrectorCard
from stmg.runtimes.manifest import FORMAT as MANIFEST_FORMAT
from stmg.runtimes.manifest import MANIFEST, Manifest
from stmg.streaming.result import FrameResult
from stmg.streaming.schedulers import SCHEDULERS
from stmg.streaming.settings import MODEL, SETTINGS, STREAM, Setting, settings_for
from stmg.training.recipe import Recipe


class JsonFile(NamedTuple):
    """A JSON file that stmg writes."""

    name: str
    kind: type
    written_by: str
    extra: dict[str, Any]
    """Keys in addition to the fields of the dataclass."""


def list_json_files() -> list[JsonFile]:
    """Every JSON file with a schema."""
    card = {"format": {"const": CARD_FORMAT}}
    manifest = {"format": {"const": MANIFEST_FORMAT}}
    verbs = {"evaluation": "evaluate", "ablation": "ablate"}
    return [
        *[
            JsonFile(
                f"{name}.json",
                kind,
                f"stmg {verbs.get(name, name)}",
                {"kind": {"const": name}, "format": {"const": RESULT_FORMAT}},
            )
            for name, kind in KINDS.items()
        ],
        JsonFile(CARD, Card, "stmg train, stmg.save", card),
        JsonFile(MANIFEST, Manifest, "stmg export", manifest),
        JsonFile(CORRECTOR_CARD, CorrectorCard, "stmg adapt", {}),
    ]


def schema_text(file: JsonFile) -> str:
    """The schema of a file as text."""
    return json.dumps(make_schema(file.kind, file.name, file.extra), indent=2, ensure_ascii=False) + "\n"


def recipe_page() -> str:
    """Every key of a recipe."""
    parts = [
        "# Recipe keys\n",
        "A recipe is one YAML file. Every key may be overridden on the command line, as in "
        "`stmg train my.yaml optimizer.learning_rate=0.01 batch=4`. A key or value that does not fit is an error that "
        "says what is allowed.\n",
        f"## The run\n\n{_own_table(Recipe)}\n",
    ]
    for field in read_fields(Recipe):
        nested = nested_record(field.hint)
        if nested is not None:
            parts.append(f"## {field.name}\n\n{nested.__doc__}\n\n{field_table(nested, f'{field.name}.')}\n")
    return "\n".join(parts)


def _own_table(kind: type) -> str:
    """The fields of a dataclass that are not groups of others."""
    groups = [field.name for field in read_fields(kind) if nested_record(field.hint) is not None]
    lines = field_table(kind).splitlines()
    return "\n".join(line for line in lines if not any(line.startswith(f"| `{group}` ") for group in groups))


def settings_page() -> str:
    """Settings files, streaming settings, schedulers and dataset.yaml."""
    schedulers = []
    for name, kind in SCHEDULERS.items():
        doc = " ".join((kind.__doc__ or "").split())
        table = field_table(kind) if read_fields(kind) else "It has no settings."  # type: ignore[arg-type]
        schedulers.append(f"### `{name}`\n\n{doc}\n\n{table}\n")
    python_only = {name: each for name, each in SETTINGS.items() if each.python_only}
    nested = [kind for field in read_fields(Description) if (kind := nested_record(field.hint))]
    datasets = [
        f"### {kind.__name__}\n\n{kind.__doc__}\n\n{field_table(kind)}\n"
        for kind in (Description, *dict.fromkeys(nested))
    ]
    return "\n".join(
        [
            "# Settings and datasets\n",
            "## Settings\n",
            "Each is an option of the command line (`--max-change 2%`), a keyword argument of `stmg.load` "
            "(`max_change=0.02`; `stmg.VideoSegmenter` takes those of streaming) and, where the table says so, a key "
            "of a settings file. What is left out is left to the model.\n",
            "Settings files are what `stmg tune` writes and `--settings` reads, in YAML or JSON. Arguments come before "
            "the file, the file before the model's card. `notes` in a file are for readers. A file's scheduler is for "
            "its mode; files written earlier have `offline`, the scheduler of offline mode, beside that of online "
            "mode.\n",
            f"### Streaming\n\n{_settings_table(settings_for(STREAM))}\n",
            f"### Opening a model\n\n{_settings_table(settings_for(MODEL))}\n",
            f"### In Python alone\n\n{_settings_table(python_only)}\n",
            "## Schedulers\n",
            "By name and settings: `--scheduler fixed:period=3,between=carry`, or `{name: fixed, period: 3, between: "
            "carry}` in a file.\n",
            *schedulers,
            "## dataset.yaml\n",
            *datasets,
        ]
    )


def _settings_table(settings: Mapping[str, Setting]) -> str:
    """Some settings, from their declarations."""
    rows = []
    for name, each in settings.items():
        in_files = "yes" if each.in_files else ""
        rows.append(f"| `{name}` | {each.full_help.replace('|', chr(92) + '|')} | {in_files} |")
    return "\n".join(["| setting | | in files |", "|---|---|---|", *rows])


def json_page() -> str:
    """Every JSON file with its keys, and a link to its schema."""
    parts = [
        "# JSON files\n",
        "Accuracies and shares are in percent unless a key says otherwise, times in milliseconds; `null` stands where "
        "there was nothing to measure. Each file has a JSON Schema (draft 2020-12).\n",
        "## records.jsonl\n",
        "One line per frame, written by `stmg segment`.\n",
        _record_table(),
        "",
    ]
    for file in list_json_files():
        doc = " ".join((file.kind.__doc__ or "").split("\n\n")[0].split())
        parts.append(f"## {file.name}\n\n{doc} Written by `{file.written_by}`. [Schema](schemas/{file.name})\n")
        parts += [f"{field_table(file.kind)}\n"]
        for kind in _nested(file.kind):
            parts.append(f"### {kind.__name__} ({file.name})\n\n{kind.__doc__}\n\n{field_table(kind)}\n")
    return "\n".join(parts)


def _nested(kind: type, seen: set[type] | None = None) -> Iterator[type]:
    """A dataclass and those nested in it, each once, outer ones first."""
    seen = {kind} if seen is None else seen
    for field in read_fields(kind):
        nested = nested_record(field.hint)
        if nested is not None and nested not in seen:
            seen.add(nested)
            yield nested
            yield from _nested(nested, seen)


def _record_table() -> str:
    """The keys of a record of a frame, as `Records` writes them, described by the fields of `FrameResult`."""
    import tempfile
    from pathlib import Path

    import numpy as np

    from stmg.outputs.records import Records, measure_areas
    from stmg.segmenter import VideoSegmenter

    segmenter = VideoSegmenter(lambda image: image.transpose(2, 0, 1).astype(np.float32), motion="none")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.jsonl"
        with Records(path, areas=True) as records:
            records.write(segmenter.step(np.zeros((32, 32, 3), np.uint8)))
        keys = list(json.loads(path.read_text()))
    docs = {field.name: field.doc for field in read_fields(FrameResult)}
    for name in ("macs", "kept_blocks"):
        docs[name] = getattr(FrameResult, name).__doc__
    docs["areas"] = f"Only with `--areas`. {measure_areas.__doc__}"
    docs["level"] = "key, partial or carry: how much of the network ran."
    docs["time"] = "Seconds since the start of the source; null if it has no times."
    return "\n".join(["| key | |", "|---|---|", *[f"| `{key}` | {docs.get(key, '')} |" for key in keys]])
