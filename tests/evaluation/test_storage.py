"""Results on disk: they are read as written, and files that do not fit raise a one-line error."""

import json
import math
from dataclasses import replace

import pytest

from documents import ROOT
from stmg import VideoSegmenter
from stmg.errors import DataError
from stmg.evaluation.ablate import ablate
from stmg.evaluation.evaluate import evaluate
from stmg.evaluation.results import BenchmarkResult, EvaluationResult
from stmg.evaluation.storage import PNG, read_result, read_results, to_json, write_result
from stmg.evaluation.tables import result_tables
from stmg.streaming.schedulers import FixedPeriod, Level

SIZE = (48, 64)
OLD = {"kind": "evaluation", "command": "stmg evaluate small-streets street:0-0", "ours": {"miou": 80.69}}


@pytest.fixture(scope="module")
def results(dataset, runtime, frames, benchmark_result):
    segmenter = VideoSegmenter(runtime, scheduler=FixedPeriod(3))
    return {
        "evaluation": evaluate(segmenter, dataset, size=SIZE, limit=4, paper_protocol=True),
        "benchmark": benchmark_result,
        "ablation": ablate(segmenter, dataset, size=SIZE, seeds=2, limit=2),
        "realtime": evaluate(VideoSegmenter(runtime), dataset, size=SIZE, limit=4, mode="realtime"),
    }


@pytest.mark.parametrize("name", ["evaluation", "realtime", "benchmark", "ablation"])
def test_what_is_read_is_what_was_written(name, results, tmp_path):
    written = replace(results[name], command="stmg something")
    path = write_result(written, tmp_path)
    assert path == tmp_path / f"{written.kind}.json"
    assert read_result(path) == written
    assert read_results([tmp_path]) == [written]
    assert "NaN" not in path.read_text()


def test_pictures_are_beside_the_result(results, tmp_path):
    write_result(results["evaluation"], tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert {"evaluation.json", "strip.png", "masks.png"} < names
    assert {"evaluation-classes.png", "evaluation-distance.png", "evaluation-pruning.png"} < names
    (tmp_path / "strip.png").unlink()
    pictures = read_result(tmp_path / "evaluation.json").pictures
    assert [bool(picture.png) for picture in pictures] == [False, True]


def test_a_number_that_is_none_is_never_written(results):
    spoiled = replace(results["evaluation"], truth_consistency=math.nan)
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json(spoiled)


def test_a_result_of_an_earlier_version_is_refused_with_the_command_to_repeat(tmp_path):
    path = tmp_path / "evaluation.json"
    path.write_text(json.dumps(OLD))
    with pytest.raises(DataError, match="earlier version of stmg; measure again: stmg evaluate small-streets"):
        read_result(path)
    path.write_text(json.dumps({**OLD, "format": 99}))
    with pytest.raises(DataError, match="another version of stmg"):
        read_results([tmp_path])


KEPT = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_results_of_format_3_are_read_with_their_figures(path):
    content = json.loads(path.read_text())
    result = read_result(path)
    assert result.command == content["command"]
    assert result_tables(result)
    if content["format"] != 3:
        return
    if isinstance(result, EvaluationResult):
        old = [content["base"], *(mode["scores"] for mode in content["modes"])]
        assert [row.miou for row in (result.base, *result.modes)] == [each["miou"] for each in old]
        assert result.base.cost.macs == content["base"]["cost"]["macs"]
        assert [row.mean_distance for row in result.modes] == [mode["mean_distance"] for mode in content["modes"]]
    elif isinstance(result, BenchmarkResult):
        run, old = result.sizes[0], content["sizes"][0]
        assert [row.fps for row in run.rows] == [row["timing"]["fps"] for row in old["rows"]]
        assert [row.cost.macs for row in run.rows] == [row["timing"]["cost"]["macs"] for row in old["rows"]]
        assert [row.live.mean_age for row in run.realtime] == [row["mean_age"] for row in old["realtime"]]
        assert [row.gain for row in run.passes] == [row["gain"] for row in old["passes"]]
    else:
        rows = [row for table in result.tables for row in table.rows]
        old = [row for table in content["tables"] for row in table["rows"]]
        assert [(row.name, row.miou) for row in rows] == [(row["name"], row["miou"]) for row in old]
        assert [row.share(Level.KEY) for row in rows] == [row["key_share"] for row in old]


def test_a_result_of_tune_of_an_earlier_format_is_refused_with_the_command_to_repeat(tmp_path):
    old = {"kind": "tune", "format": 3, "command": "stmg tune small-streets drive.mp4"}
    (tmp_path / "tune.json").write_text(json.dumps(old))
    with pytest.raises(
        DataError, match=r"an earlier version of stmg; measure again: stmg tune small-streets drive\.mp4"
    ):
        read_results([tmp_path])


def test_what_is_no_result_is_refused(tmp_path, results):
    path = tmp_path / "evaluation.json"
    with pytest.raises(DataError, match="has no result"):
        read_results([tmp_path])
    for text, message in (("{", "damaged"), ("{}", "is no result"), ("[1]", "holds \\[1\\], not values by name")):
        path.write_text(text)
        with pytest.raises(DataError, match=message):
            read_results([tmp_path])
    content = json.loads(to_json(results["evaluation"]))
    for spoiled, message in (
        ({"size": [360]}, "size is a list of 2"),
        ({"surprise": 1}, "surprise"),
        ({"base": {}}, r"base\.way is missing"),
        ({"frames": [{**content["frames"][0], "level": "half"}]}, "level is one of key, partial, carry"),
        ({"motion": 3}, "motion has names and values"),
        ({"pictures": [{"file": "../secret.png", "caption": ""}]}, "is no name inside the folder"),
        ({"modes": []}, "modes has at least one"),
    ):
        path.write_text(json.dumps({**content, **spoiled}))
        with pytest.raises(DataError, match=message):
            read_result(path)


def test_a_picture_is_a_png_beside_its_result_and_nothing_else(tmp_path, results):
    secret = tmp_path / "secret.png"
    secret.write_bytes(PNG + b"secret")
    folder = tmp_path / "run"
    folder.mkdir()
    content = json.loads(to_json(results["evaluation"]))
    content["pictures"] = [{"file": "a.png", "caption": ""}]
    (folder / "evaluation.json").write_text(json.dumps(content))
    assert read_result(folder / "evaluation.json").pictures[0].png == b""
    (folder / "a.png").symlink_to(secret)
    with pytest.raises(DataError, match=r"pictures\.file: 'a\.png' is a link that leads out"):
        read_result(folder / "evaluation.json")
    (folder / "a.png").unlink()
    (folder / "a.png").write_bytes(b"root:x:0:0")
    with pytest.raises(DataError, match=r"a\.png is no PNG"):
        read_result(folder / "evaluation.json")
    (folder / "a.png").write_bytes(secret.read_bytes())
    assert read_result(folder / "evaluation.json").pictures[0].png == secret.read_bytes()


def test_programs_find_ways_by_their_fields(results, tmp_path):
    content = json.loads(to_json(results["benchmark"]))
    ways = [row["way"] for row in content["sizes"][0]["rows"]]
    assert {"kind": "copied-labels", "stride": 3} in [{key: each[key] for key in ("kind", "stride")} for each in ways]
    assert isinstance(results["benchmark"], BenchmarkResult)
