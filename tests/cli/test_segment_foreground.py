"""stmg segment with networks of one channel, and with graph files of several outputs."""

import json

import av
import numpy as np
import pytest
from PIL import Image

from commands import is_one_line, run_stmg
from graphs import save_one_channel, save_several_outputs

PLAIN = ("--normalize", "none", "--threads", 1)


def test_alpha_cutouts_and_areas_of_a_graph_file(samples, tmp_path):
    model = save_several_outputs(tmp_path / "seven.onnx")
    saves = [word for name in ("records", "alpha", "alpha-images", "cutout") for word in ("--save", name)]
    done = run_stmg("segment", samples.video, "-m", model, "-o", tmp_path, *PLAIN, *saves, "--areas", columns=500)
    assert done.returncode == 0, done.stderr
    assert "the output used is 1959" in done.stdout
    assert "MACs not counted" in done.stdout
    assert "0.00 GMACs" not in done.stdout
    with av.open(str(tmp_path / "alpha.mp4")) as video:
        assert [(frame.height, frame.width) for frame in video.decode(video=0)] == [(96, 128)] * 20
    records = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    for record in records:
        assert record["areas"].keys() == {"background", "foreground"}
        assert sum(record["areas"].values()) == pytest.approx(1, abs=1e-4)
    assert records[0]["macs"] is None
    for name, mode in (("alpha", "L"), ("cutout", "RGBA")):
        files = sorted((tmp_path / name).glob("*.png"))
        assert len(files) == 20
        with Image.open(files[0]) as image:
            assert (image.mode, image.size) == (mode, (128, 96))
            alpha = np.asarray(image).reshape(96, 128, -1)[..., -1]
        assert 0.1 < (alpha > 127).mean() < 0.9


def test_output_activation_threshold_and_background_are_options(samples, tmp_path):
    model = save_several_outputs(tmp_path / "seven.onnx")
    chosen = ("--output", "side2", "--activation", "probability", "--threshold", 0.9)
    saved = ("--save", "cutout", "--background", "#00ff00", "--limit", 1)
    done = run_stmg("segment", samples.video, "-m", model, "-o", tmp_path, *PLAIN, *chosen, *saved, columns=500)
    assert done.returncode == 0, done.stderr
    assert "the output used is side2" in done.stdout
    assert "foreground above 0.9: probability" in done.stdout
    with Image.open(tmp_path / "cutout" / "000000.png") as image:
        assert image.mode == "RGB"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--output", "d0"], "no output 'd0'; there are 0 out 1x1x48x64"),
        (["--activation", "softmax"], "activation is one of logits, probability; got 'softmax'"),
        (["--threshold", "2"], "threshold is a probability between 0 and 1; got '2'"),
        (["--save", "overlay", "--areas"], "add --save records"),
        (["--background", "green"], "add --save cutout"),
        (["--save", "cutout", "--background", "leaf"], "a color is a name"),
    ],
)
def test_what_cannot_be_honored_is_one_line(samples, tmp_path, options, message):
    model = save_one_channel(tmp_path / "one.onnx", sigmoid=True)
    done = run_stmg("segment", samples.video, "-m", model, "-o", tmp_path / "out", *options)
    assert done.returncode == 2
    assert is_one_line(done.stderr)
    assert message in done.stderr


def test_several_classes_have_no_alpha(samples, tmp_path):
    done = run_stmg("segment", samples.video, "-m", samples.model, "-o", tmp_path, "--save", "alpha")
    assert done.returncode == 2
    assert is_one_line(done.stderr)
    assert "networks with one channel" in done.stderr
