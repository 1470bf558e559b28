"""Results on disk: a JSON file in a folder, with its pictures beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from stmg.errors import DataError, SettingsError
from stmg.evaluation.results import (
    AblationResult,
    BenchmarkResult,
    EvaluationResult,
    Picture,
    Result,
    TuneResult,
)
from stmg.evaluation.views.plots import draw_plots
from stmg.files import build_from_file, path_inside, read_mapping, write_atomically

PNG = b"\x89PNG\r\n\x1a\n"  # how such files begin
FORMAT = 3
"""Of the JSON files; any other is refused."""
KINDS: dict[str, type[Result]] = {
    kind.kind: kind for kind in (EvaluationResult, BenchmarkResult, AblationResult, TuneResult)
}


def write_result(result: Result, folder: Path) -> Path:
    """Write a result and everything there is to look at; gives the JSON file."""
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
    """The result in a JSON file, with the pictures beside it."""
    content = read_mapping(path, DataError)
    kind = content.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise DataError(f"{path} is no result of stmg evaluate, benchmark, ablate or tune")
    written = content.pop("format", None)
    if written != FORMAT:
        which = "an earlier" if written is None else "another"
        command = content.get("command")
        again = f": {command}" if isinstance(command, str) and command else ""
        raise DataError(f"{path} was written by {which} version of stmg; measure again{again}")
    result = build_from_file(KINDS[kind], content, path, DataError)
    if isinstance(result, EvaluationResult):
        result = replace(result, pictures=tuple(_read_picture(path, picture) for picture in result.pictures))
    return result


def read_results(paths: Sequence[Path]) -> list[Result]:
    """Every result in some folders, or files."""
    results = []
    for path in paths:
        candidates = [path] if path.is_file() else [path / f"{kind}.json" for kind in KINDS]
        present = [file for file in candidates if file.is_file()]
        if not present:
            raise DataError(f"{path} has no result; stmg evaluate, benchmark, ablate and tune write some")
        results += [read_result(file) for file in present]
    return results


def _read_picture(path: Path, picture: Picture) -> Picture:
    """With the PNG beside the result, if it is still there."""
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
