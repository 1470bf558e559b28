import json

import pytest

from clips import clip
from commands import is_one_line, run_stmg
from stmg.evaluation.results import EvaluationResult
from stmg.evaluation.storage import read_result
from stmg.streaming.schedulers import Level


def test_on_a_video_without_labels_agreement_is_measured(samples, tmp_path):
    done = run_stmg(
        "evaluate", samples.model, samples.video, "--limit", 6, "--threads", 1, "--out", tmp_path, columns=80
    )
    assert done.returncode == 0, done.stderr
    result = read_result(tmp_path / "evaluation.json")
    assert isinstance(result, EvaluationResult)
    assert (result.stream.miou, result.stream.frames, result.size) == (None, 6, (96, 128))
    assert result.stream.agreement_pixels > 0
    assert result.command.startswith(f"stmg evaluate {samples.model}")
    assert result.machine.cores > 0
    assert result.machine.threads == 1
    assert "agreement with base, pixels" in done.stdout
    *tables, last = done.stdout.splitlines()
    assert max(map(len, tables)) <= 80
    assert last.startswith("written to")


def test_a_transport_stream_is_evaluated_and_the_result_printed_as_json(samples, tmp_path):
    video = clip(tmp_path / "clip.ts", 6)
    done = run_stmg("evaluate", samples.model, video, "--limit", 3, "--out", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((tmp_path / "evaluation.json").read_text())
    assert "written to" in done.stderr
    (tmp_path / "module.ts").write_text("export const answer = 42")
    done = run_stmg("evaluate", samples.model, tmp_path / "module.ts", "--out", tmp_path)
    assert done.returncode == 2
    assert is_one_line(done.stderr)


@pytest.mark.slow
def test_an_export_in_the_papers_mode_gives_the_same_figures_each_time(samples, export_to, tmp_path):
    figures = []
    for _ in range(2):
        options = ("--scheduler", "paper", "--motion", "none", "--mode", "online", "--threads", 1, "--limit", 10)
        done = run_stmg("evaluate", export_to("onnx"), samples.video, *options, "--out", tmp_path)
        assert done.returncode == 0, done.stderr
        result = read_result(tmp_path / "evaluation.json")
        assert any(frame.kept_blocks < 1 for frame in result.frames if frame.level is Level.PARTIAL)
        figures.append([(frame.level, frame.kept_blocks, frame.distortion) for frame in result.frames])
        figures.append(result.stream.agreement_pixels)
    assert figures[:2] == figures[2:]


def test_the_papers_protocol_and_every_option_of_the_stream(tmp_path):
    options = ("--scheduler", "fixed:period=2,between=carry", "--motion", "none", "--fusion", 0, "--threads", 1)
    size = ("--size", "48x64", "--limit", 3)
    done = run_stmg("evaluate", "small-streets", "street:0-0", "--paper", *size, *options, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    result = read_result(tmp_path / "evaluation.json")
    assert result.settings == "scheduler fixed (period 2, between carry), motion none, fusion 0, mask gain 1.5"
    assert (result.size, result.stream.frames) == ((48, 64), 12)  # of four streets
    assert result.paper_protocol.frames == 8
    assert result.paper_protocol.level is Level.PARTIAL
    assert result.paper_protocol.miou > 0
    assert result.stream.levels[0].share == pytest.approx(66.67)
    assert "The paper's protocol: 8 labeled frames" in done.stdout
    assert json.loads((tmp_path / "evaluation.json").read_text())["paper_protocol"]["level"] == "partial"


def test_offline_at_a_budget_of_its_own(samples, tmp_path):
    options = ("--mode", "offline", "--scheduler", "fixed:period=4,between=carry", "--motion", "none", "--threads", 1)
    done = run_stmg("evaluate", samples.model, samples.video, "--limit", 9, *options, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    (mode,) = read_result(tmp_path / "evaluation.json").modes
    assert (mode.way.mode, mode.settings) == ("offline", "offline fixed (period 4, between carry), motion none")
    assert mode.network_share == pytest.approx(33.33)


def test_realtime_with_the_intervals_that_the_network_takes(samples, tmp_path):
    options = ("--mode", "realtime", "--network-intervals", "1,3", "--threads", 1)
    done = run_stmg("evaluate", samples.model, samples.video, "--limit", 6, *options, "--out", tmp_path, columns=80)
    assert done.returncode == 0, done.stderr
    assert [row.way.intervals for row in read_result(tmp_path / "evaluation.json").modes] == [1, 1, 3, 3]
    for name in ("realtime, 1 interval", "copied, 3 intervals"):
        assert name in done.stdout
    assert max(map(len, done.stdout.splitlines()[:-1])) <= 80


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("small-streets", "nowhere"), "nowhere does not exist"),
        (("nothing", "street:0-0"), "nothing"),
        (("small-streets", "street:0-0", "--split", "test"), "no split 'test'"),
        (("small-streets", "street:0-0", "--size", "big"), "HEIGHTxWIDTH"),
        (("small-streets", "street:0-0", "--mode", "fast"), "mode is one of offline, online, realtime"),
        (("small-streets", "street:0-0", "--network-intervals", "1"), "network_intervals are for realtime"),
        (("small-streets", "street:0-0", "--network-intervals", "1,x"), "such as 1,2,4; got '1,x'"),
        (("small-streets", "street:0-0", "--mode", "offline", "--scheduler", "paper"), "which only online mode does"),
    ],
)
def test_what_cannot_be_evaluated_is_reported_in_one_line(arguments, message):
    done = run_stmg("evaluate", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert is_one_line(done.stderr)
