import json

import pytest

import stmg
from commands import is_one_line, run_stmg
from stmg.evaluation.storage import write_result


@pytest.fixture(scope="module")
def results(samples, tmp_path_factory):
    """A folder with an evaluation."""
    folder = tmp_path_factory.mktemp("results")
    write_result(stmg.evaluate(str(samples.model), samples.video, limit=3), folder)
    return folder


@pytest.mark.parametrize(
    ("name", "page", "tables"),
    [
        ("r.html", "r.html", "r-tables.md"),
        ("r", "r.html", "r-tables.md"),
        ("run.v2", "run.v2.html", "run.v2-tables.md"),
    ],
)
def test_the_page_is_whole_in_itself_and_always_an_html_file(results, tmp_path, name, page, tables):
    done = run_stmg("report", results, "-o", tmp_path / "deeper" / name)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "deeper").iterdir()} == {page, tables}
    text = (tmp_path / "deeper" / page).read_text()
    assert "data:image/png;base64" in text
    assert "http" not in text  # nothing is fetched
    assert "|" in (tmp_path / "deeper" / tables).read_text()
    assert "1 result\n" in done.stdout


def test_a_folder_without_results_is_refused_in_a_line(tmp_path):
    done = run_stmg("report", tmp_path)
    assert done.returncode == 2
    assert "has no result" in done.stderr
    assert is_one_line(done.stderr)


def test_a_result_of_an_earlier_version_is_refused_in_a_line(tmp_path):
    old = {"kind": "evaluation", "command": "stmg evaluate small-streets street:0-0", "ours": {"miou": 80.69}}
    (tmp_path / "evaluation.json").write_text(json.dumps(old))
    done = run_stmg("report", tmp_path)
    assert done.returncode == 2
    assert "measure again: stmg evaluate small-streets street:0-0" in done.stderr
    assert is_one_line(done.stderr)
