"""segment: the sources and models that it takes, and mistakes in the arguments."""

import json

import numpy as np
import pytest
import torch
from PIL import Image as PillowImage

import stmg
from commands import is_one_line, run_stmg, spawn_stmg
from stmg.networks import build
from stmg.video.sources import open_video


def test_standard_input_is_a_source(samples, tmp_path):
    with samples.video.open("rb") as stdin:
        done = spawn_stmg("segment", "-", "-m", samples.model, "-o", tmp_path, "--save", "records", stdin=stdin)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "records.jsonl").read_text().splitlines()) == 20


NETWORKS_OF_A_USER = """
import numpy as np
from torch import nn
from stmg.networks import build

def network():
    return build("small", 3)

def box():
    return lambda image: image.transpose(2, 0, 1).astype(np.float32)

class OneSize(nn.Module):
    def __init__(self):
        super().__init__()
        self.network = build("small", 3)

    def forward(self, image):
        assert image.shape[2:] == (96, 128)
        return self.network(image)

def one_size():
    return OneSize()

def broken():
    raise ValueError("no weights here")
"""


@pytest.mark.parametrize("function", ["network", "box", "one_size"])
def test_a_network_or_any_callable_comes_from_a_file(samples, tmp_path, function):
    code = tmp_path / "mine.py"
    code.write_text(NETWORKS_OF_A_USER)
    done = run_stmg("segment", samples.video, "-m", f"{code}:{function}", "-o", tmp_path / "out", "--limit", 4)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "out" / "records.jsonl").read_text().splitlines()) == 4


def test_a_mistyped_function_is_answered_with_what_there_is(samples, tmp_path):
    code = tmp_path / "mine.py"
    code.write_text(NETWORKS_OF_A_USER)
    done = run_stmg("segment", samples.frames, "-m", f"{code}:netwrk", "-o", tmp_path / "out")
    assert done.returncode == 2
    assert is_one_line(done.stderr)
    assert "it has: network, box" in done.stderr


def test_an_error_in_the_users_own_function_keeps_its_traceback_and_is_no_bug_of_ours(samples, tmp_path):
    code = tmp_path / "mine.py"
    code.write_text(NETWORKS_OF_A_USER)
    done = run_stmg("segment", samples.frames, "-m", f"{code}:broken", "-o", tmp_path / "out")
    assert done.returncode == 1
    assert 'raise ValueError("no weights here")' in done.stderr
    assert "bug in stmg" not in done.stderr


@pytest.mark.parametrize(
    ("source", "model", "more", "message"),
    [
        ("missing.mp4", "model", [], "does not exist"),
        ("video.mp4", "nowhere", [], "no checkpoint at"),
        ("video.mp4", "small-street", [], "no checkpoint at small-street; did you mean small-streets?"),
        ("video.mp4", "nowhere.onnx", [], "nowhere.onnx does not exist"),
        ("video.mp4", "ddrnet23-slim", [], "without weights"),
        ("video.mp4", "model", ["--scheduler", "often"], "no scheduler is called"),
        ("video.mp4", "model", ["--scheduler", "fixed:period=often"], "period takes a number"),
        ("video.mp4", "model", ["--scheduler", "fixed:between=often"], "often"),
        ("video.mp4", "model", ["--scheduler", "fixed:every=3"], "has no setting 'every'"),
        ("video.mp4", "model", ["--motion", "raft"], "no motion estimator is called"),
        ("video.mp4", "model", ["--fusion", "2"], "fusion"),
        ("video.mp4", "model", ["--size", "big"], "HEIGHTxWIDTH"),
        ("video.mp4", "model", ["--resize", "20000x20000"], "20000x20000 is too large"),
        ("video.mp4", "model", ["--threads", "9999"], "got '9999'"),
        ("video.mp4", "model", ["--scheduler", "drift:key_above=abc"], "key_above takes a number"),
        ("video.mp4", "model", ["--scheduler", "drift:key_above=nan"], "key_above of scheduler drift is a number"),
        ("video.mp4", "model", ["--normalize", "most"], "normalization"),
        ("video.mp4", "model", ["--save", "gif"], "; got 'gif'"),
        ("video.mp4", "model", ["--device", "quantum"], "no device"),
        ("video.mp4", "model", ["--precision", "fp8"], "fp8"),
        ("video.mp4", "model", ["--runtime", "tflow"], "runtime is one of torch"),
        ("video.mp4", "model", ["--weights", "w.pth"], "weights cannot be used"),
        ("video.mp4", "model", ["--runtime", "openvino"], "stmg export"),
        ("[/x].mp4", "model", [], "[/x].mp4 holds no images"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_two(samples, tmp_path, source, model, more, message):
    model = samples.model if model == "model" else model
    done = run_stmg("segment", samples.video.parent / source, "-m", model, "-o", tmp_path / "out", *more)
    assert done.returncode == 2
    assert message in done.stderr
    assert is_one_line(done.stderr)


def test_threads_below_one_are_refused(samples):
    done = run_stmg("segment", samples.video, "-m", samples.model, "--threads", 0)
    assert done.returncode == 2
    assert "threads is from 1 to" in done.stderr


def test_the_source_is_never_written_over(samples, tmp_path):
    source = tmp_path / "overlay.mp4"
    source.write_bytes(samples.video.read_bytes())
    for out in (source, tmp_path):
        done = run_stmg("segment", source, "-m", samples.model, "-o", out)
        assert done.returncode == 2
        assert "is the source itself" in done.stderr
    assert source.read_bytes() == samples.video.read_bytes()
    images = tmp_path / "labels"
    images.mkdir()
    for index in range(2):
        (images / f"{index:06d}.png").write_bytes(sorted(samples.frames.iterdir())[index].read_bytes())
    pattern = f"{images}/*.png"
    done = run_stmg("segment", pattern, "-m", samples.model, "-o", tmp_path, "--save", "labels")
    assert done.returncode == 2
    assert "is the source itself" in done.stderr
    assert len(list(images.iterdir())) == 2


def test_a_frame_rate_is_for_images_alone(samples, tmp_path):
    arguments = ("-m", samples.model, "-o", tmp_path / "out", "--save", "records", "--limit", 4, "--every", 2)
    done = run_stmg("segment", samples.video, *arguments, "--fps", 12)
    assert done.returncode == 2
    assert "--fps is for images, which have no times of their own" in done.stderr
    assert is_one_line(done.stderr)
    done = run_stmg("segment", samples.frames, *arguments, "--fps", 12)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in (tmp_path / "out" / "records.jsonl").read_text().splitlines()]
    assert [record["time"] for record in records] == pytest.approx(np.arange(4) / 6, abs=1e-3)


def test_a_folder_may_have_a_dot_in_its_name(samples, tmp_path):
    done = run_stmg("segment", samples.frames, "-m", samples.model, "-o", tmp_path / "run.v2", "--limit", 2)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run.v2" / "records.jsonl").exists()


def test_outputs_do_not_go_into_a_file(samples, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    done = run_stmg("segment", samples.frames, "-m", samples.model, "-o", tmp_path / "notes.txt")
    assert done.returncode == 2
    assert "is a file" in done.stderr
    done = run_stmg("segment", samples.frames, "-m", samples.model, "-o", tmp_path / "o.mp4", "--save", "records")
    assert done.returncode == 2
    assert "--save needs a folder" in done.stderr
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_foreign_weights_are_loaded_into_a_bare_network(samples, tmp_path):
    torch.save({f"module.{k}": v for k, v in build("ddrnet23-narrow", 7).state_dict().items()}, tmp_path / "w.pth")
    arguments = ["segment", samples.frames, "--limit", 2, "--save", "records", "-o", tmp_path, "--weights"]
    done = run_stmg(*arguments, tmp_path / "w.pth", "-m", "ddrnet23-narrow")
    assert done.returncode == 0, done.stderr
    done = run_stmg(*arguments, tmp_path / "w.pth", "-m", "ddrnet23-slim")
    assert done.returncode == 2
    assert "another network: conv1.0.weight is 16x3x3x3" in done.stderr


def test_weights_that_do_not_fit_their_card_are_one_line(samples, tmp_path):
    (tmp_path / "model").mkdir()
    for path in samples.model.iterdir():
        (tmp_path / "model" / path.name).write_bytes(path.read_bytes())
    card = tmp_path / "model" / "stmg.json"
    card.write_text(card.read_text().replace('"num_classes": 5', '"num_classes": 9'))
    done = run_stmg("segment", samples.video, "-m", tmp_path / "model", "-o", tmp_path / "out")
    assert done.returncode == 2
    assert "another network than small" in done.stderr
    assert is_one_line(done.stderr)


def test_a_saved_network_of_ones_own_is_used_by_its_folder(samples, tmp_path):
    code = tmp_path / "mine.py"
    code.write_text(NETWORKS_OF_A_USER)
    own = torch.nn.Sequential(build("small", 3))
    code.write_text(NETWORKS_OF_A_USER + "\ndef wrapped():\n    return nn.Sequential(build('small', 3))\n")
    stmg.save(stmg.accelerate(own, torch.zeros(1, 3, 96, 128)), tmp_path / "own")
    more = ["-o", tmp_path / "out", "--save", "labels", "--limit", 2]
    done = run_stmg("segment", samples.video, "-m", tmp_path / "own", *more)
    assert done.returncode == 2
    assert "say what builds it: --network file.py:function" in done.stderr
    done = run_stmg("segment", samples.video, "-m", tmp_path / "own", "--network", f"{code}:wrapped", *more)
    assert done.returncode == 0, done.stderr
    shown = np.asarray(PillowImage.open(tmp_path / "out" / "labels" / "000000.png"))
    with open_video(samples.video) as video:
        expected = stmg.load(tmp_path / "own", model=own).step(next(video)).labels
    assert np.array_equal(shown, expected)
    done = run_stmg("segment", samples.video, "-m", samples.model, "--network", f"{code}:broken", *more)
    assert done.returncode == 1
    assert 'raise ValueError("no weights here")' in done.stderr
