import json

import pytest

import stmg
from commands import is_one_line, run_stmg

SIZE = "96x128"


@pytest.mark.slow
def test_an_export_is_compared_with_pytorch_and_segments(samples, tmp_path):
    out = tmp_path / "export"
    done = run_stmg("export", samples.model, "--to", "onnx", "--check", samples.video, "--out", out, columns=80)
    assert done.returncode == 0, done.stderr
    assert "full.onnx" in done.stdout
    assert "difference from PyTorch" in done.stdout
    done = run_stmg("segment", samples.video, "-m", out, "-o", tmp_path / "out", "--limit", 4)
    assert done.returncode == 0, done.stderr
    levels = [json.loads(line)["level"] for line in (tmp_path / "out" / "records.jsonl").read_text().splitlines()]
    assert levels[0] == "key"
    assert len(levels) == 4
    done = run_stmg("segment", samples.video, "-m", out, "--size", "48x64")
    assert done.returncode == 2
    assert f"exported for {SIZE}" in done.stderr


def test_a_network_without_weights_says_so(tmp_path):
    done = run_stmg("export", "small", "--size", "64x64", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "small has no weights: its labels mean nothing" in done.stdout
    assert stmg.load(tmp_path).runtime.input_size == (64, 64)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing",), "no checkpoint at nothing"),
        (("small", "--to", "tflite"), "tflite"),
        (("small", "--size", "big"), "HEIGHTxWIDTH"),
        (("lite0-camvid", "--normalize", "half"), "normalize cannot be used with lite0-camvid"),
        (("lite0-camvid", "--weights", "w.pth"), "weights cannot be used with lite0-camvid"),
        (("small", "--size", "64x64", "--int8", "missing.mp4"), "missing.mp4"),
    ],
)
def test_what_cannot_be_exported_is_refused_in_a_line(tmp_path, arguments, message):
    done = run_stmg("export", *arguments, "--out", tmp_path / "export")
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert is_one_line(done.stderr)
