from commands import is_one_line, run_stmg
from stmg.evaluation import tune as module
from stmg.evaluation.storage import read_result
from stmg.models.spec import read_settings


def test_settings_for_a_video_are_chosen_checked_and_used(samples, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "DIS_LEVELS", {"dis": None})
    arguments = ("--frames", 12, "--max-change", "90%", "--threads", 1, "--out", tmp_path)
    done = run_stmg("tune", samples.model, samples.video, *arguments)
    assert done.returncode == 0, done.stderr
    result = read_result(tmp_path / "tune.json")
    assert (result.frames, result.checked_frames, result.goal.max_change) == (6, 6, 0.9)
    assert "promised and checked" in done.stdout
    assert "measured on 6 others" in done.stdout
    assert (tmp_path / "tune-tradeoff.png").stat().st_size > 1000
    file = tmp_path / "settings.yaml"
    assert f"--settings {file}" in done.stdout.replace("\n", "")
    used = run_stmg(
        "segment", samples.video, "--model", samples.model, "--settings", file, "--out", tmp_path / "out", "--limit", 6
    )
    assert used.returncode == 0, used.stderr
    assert f"{read_settings(file)['mode']}: 6 frames" in used.stdout


def test_a_goal_that_is_no_share_is_reported_in_one_line(samples):
    done = run_stmg("tune", samples.model, samples.video, "--max-change", "lots")
    assert done.returncode == 2
    assert "--max-change is a share between 0 and 1, such as 2% or 0.02; got 'lots'" in done.stderr
    assert is_one_line(done.stderr)


def test_a_video_that_is_not_there_is_reported_in_one_line(samples):
    done = run_stmg("tune", samples.model, "nowhere.mp4")
    assert done.returncode == 2
    assert "nowhere.mp4" in done.stderr
    assert is_one_line(done.stderr)
