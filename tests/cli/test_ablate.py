import pytest

from commands import is_one_line, run_stmg
from stmg.evaluation.ablate import TRAINING
from stmg.evaluation.storage import read_result


@pytest.mark.usefixtures("render_once")
def test_a_checkpoint_on_labeled_streets_beside_another(tmp_path):
    arguments = ("--limit", 2, "--seeds", 1, "--size", "96x128", "--threads", 1, "--out", tmp_path)
    done = run_stmg("ablate", "small-streets", "street:0-0", *arguments, "--also", "itself=small-streets")
    assert done.returncode == 0, done.stderr
    result = read_result(tmp_path / "ablation.json")
    assert result.base.miou > 0
    (table,) = (table for table in result.tables if table.title == TRAINING)
    own, other = (row for row in table.rows if row.name.endswith("its own settings"))
    assert (own.name, other.name) == ("this one, its own settings", "itself, its own settings")
    assert own.miou == other.miou
    assert "distortion-aware (γ = 0.95)" in done.stdout


def test_another_checkpoint_has_a_name():
    done = run_stmg("ablate", "small-streets", "street:0-0", "--also", "runs/x")
    assert done.returncode == 2
    assert "--also is NAME=MODEL" in done.stderr
    assert is_one_line(done.stderr)
