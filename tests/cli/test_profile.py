from commands import is_one_line, run_stmg
from stmg.evaluation.storage import read_result


def test_a_video_is_looked_at_before_any_training(samples, tmp_path):
    arguments = ("--frames", 6, "--changed", 100, "--threads", 1, "--out", tmp_path)
    done = run_stmg("profile", samples.video, "--model", samples.model, *arguments)
    assert done.returncode == 0, done.stderr
    result = read_result(tmp_path / "profile.json")
    assert (result.frames, result.max_changed, result.source) == (6, 1.0, "video.mp4")
    assert len(result.distortion) == 6
    assert result.verdict[:20] in done.stdout
    if result.best.gain > 1:
        assert f"--scheduler drift:key_above={result.best.budget:g}" in done.stdout


def test_a_video_that_is_not_there_is_said_in_a_line():
    done = run_stmg("profile", "nowhere.mp4")
    assert done.returncode == 2
    assert "nowhere.mp4" in done.stderr
    assert is_one_line(done.stderr)
