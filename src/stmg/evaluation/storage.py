"""Results on disk: a JSON file in a folder, with its pictures beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from stmg.errors import DataError, SettingsError
from stmg.evaluation.plots import draw_plots
from stmg.evaluation.results import (
    AblationResult,
    BenchmarkResult,
    EvaluationResult,
    Picture,
    Result,
    TuneResult,
)
from stmg.files import build_from_file, path_inside, read_mapping, write_atomically

PNG = b"\x89PNG\r\n\x1a\n"  # the first bytes of every PNG file
FORMAT = 4
"""Format of the JSON files. Format 3 is still read, except for `tune`; any other is refused."""
KINDS: dict[str, type[Result]] = {
    kind.kind: kind for kind in (EvaluationResult, BenchmarkResult, AblationResult, TuneResult)
}


def write_result(result: Result, folder: Path) -> Path:
    """Write a result with its pictures and plots; gives the JSON file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.kind}.json"
    write_atomically(path, to_json(result).encode())
    for picture in result.pictures if isinstance(result, EvaluationResult) else ():
        write_atomically(folder / picture.file, picture.png)
    for plot in draw_plots(result):
        write_atomically(folder / f"{result.kind}-{plot.file}", plot.png)
    return path


def to_json(result: Result) -> str:
    content: dict[str, Any] = {"kind": result.kind, "format": FORMAT, **asdict(result)}
    if isinstance(result, EvaluationResult):
        content["pictures"] = [{"file": each.file, "caption": each.caption} for each in result.pictures]
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def read_result(path: Path) -> Result:
    """Read a result from a JSON file, with the pictures beside it."""
    content = read_mapping(path, DataError)
    kind = content.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise DataError(f"{path} is no result of stmg evaluate, benchmark, ablate or tune")
    written = content.pop("format", None)
    if written == 3 and kind in _UPGRADES:
        try:
            content = _UPGRADES[kind](content)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise DataError(f"{path} is damaged: {error}") from None
    elif written != FORMAT:
        which = "an earlier" if written is None or written == 3 else "another"
        command = content.get("command")
        again = f": {command}" if isinstance(command, str) and command else ""
        raise DataError(f"{path} was written by {which} version of stmg; measure again{again}")
    result = build_from_file(KINDS[kind], content, path, DataError)
    if isinstance(result, EvaluationResult):
        result = replace(result, pictures=tuple(_read_picture(path, picture) for picture in result.pictures))
    return result


def read_results(paths: Sequence[Path]) -> list[Result]:
    """Read every result in the given folders or files."""
    results = []
    for path in paths:
        candidates = [path] if path.is_file() else [path / f"{kind}.json" for kind in KINDS]
        present = [file for file in candidates if file.is_file()]
        if not present:
            raise DataError(f"{path} has no result; stmg evaluate, benchmark, ablate and tune write some")
        results += [read_result(file) for file in present]
    return results


def _read_picture(path: Path, picture: Picture) -> Picture:
    """The picture with its PNG from beside the result, if that is still there."""
    try:
        file = path_inside(path.parent, picture.file, links=False)
    except SettingsError as error:
        raise DataError(f"{path} is damaged: pictures.file: {error}") from None
    if not file.is_file():
        return picture
    png = file.read_bytes()
    if not png.startswith(PNG):
        raise DataError(f"{path} is damaged: pictures.file: {picture.file} is no PNG")
    return replace(picture, png=png)


def _upgrade_evaluation(content: Mapping[str, Any]) -> dict[str, Any]:
    """From format 3, in which the scores of a stream were one level deeper."""

    def stream(mode: Mapping[str, Any]) -> dict[str, Any]:
        rest = {name: mode[name] for name in ("settings", "network_share", "mean_distance", "stale_share")}
        way = {"kind": "copied-labels" if mode["copied"] else mode["mode"], "intervals": mode["network_intervals"]}
        return {"way": way, **rest, **mode["scores"]}

    base = {"way": {"kind": "base"}, "network_share": 100.0, "mean_distance": 0.0, "stale_share": 0.0}
    return {**content, "base": {**base, **content["base"]}, "modes": [stream(mode) for mode in content["modes"]]}


def _upgrade_benchmark(content: Mapping[str, Any]) -> dict[str, Any]:
    """Upgrade from format 3, in which whole passes and realtime had their own kinds of rows."""
    live_fields = ("rate", "latency", "mean_age", "p95_age", "network_runs", "dropped", "stale")

    def timed(row: Mapping[str, Any]) -> dict[str, Any]:
        rest = {name: value for name, value in row.items() if name not in ("method", "timing", "levels")}
        timing = {name: value for name, value in row["timing"].items() if name != "cost"}
        shares = [{"level": each["level"], "share": each["share"]} for each in timing["levels"]]
        rest |= {"cost": row["timing"]["cost"], "frame_levels": row["levels"], "levels": shares}
        return {"way": row["method"], "timing": timing, **rest}

    def whole_pass(row: Mapping[str, Any]) -> dict[str, Any]:
        return {"way": row["method"], "timing": {name: value for name, value in row.items() if name != "method"}}

    def live(row: Mapping[str, Any]) -> dict[str, Any]:
        measured = {name: row[name] for name in live_fields}
        return {"way": row["method"], "miou": row["miou"], "frames": row["frames"], "live": measured}

    def at_size(run: Mapping[str, Any]) -> dict[str, Any]:
        rows = [{"frames": run["frames"], **timed(row)} for row in run["rows"]]
        passes, realtime = [whole_pass(row) for row in run["passes"]], [live(row) for row in run["realtime"]]
        return {**run, "rows": rows, "passes": passes, "realtime": realtime}

    return {**content, "sizes": [at_size(run) for run in content["sizes"]]}


def _upgrade_ablation(content: Mapping[str, Any]) -> dict[str, Any]:
    """Upgrade from format 3, in which rows had only a name."""

    def row(old: Mapping[str, Any], kind: str = "ablation") -> dict[str, Any]:
        same = {name: old[name] for name in ("miou", "miou_std", "seeds", "cost", "kept_blocks")}
        timing = None if old["fps"] is None else {"fps": old["fps"], "gain": old["gain"]}
        way = {"kind": kind, "title": old["name"] if kind == "ablation" else None}
        levels = [{"level": "key", "share": old["key_share"]}]
        return {"way": way, "levels": levels, "timing": timing, "frames": content["frames"], **same}

    tables = [{**table, "rows": [row(each) for each in table["rows"]]} for table in content["tables"]]
    return {**content, "base": row(content["base"], "base"), "tables": tables}


_UPGRADES = {"evaluation": _upgrade_evaluation, "benchmark": _upgrade_benchmark, "ablation": _upgrade_ablation}
