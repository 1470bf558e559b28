import json
import os
import signal
import subprocess
import sys
import time

import av
import cv2
import numpy as np
import pytest
import torch

import stmg
from stmg.acceleration.accelerate import accelerate
from stmg.networks import build
from zoo import panning


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "stmg", *map(str, arguments)], capture_output=True, text=True, timeout=120, **options
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A checkpoint, a video and a folder of frames."""
    folder = tmp_path_factory.mktemp("cli")
    torch.manual_seed(0)
    network = accelerate(build("small", 5), torch.zeros(1, 3, 96, 128))
    stmg.save(folder / "model", network, stmg.Card("small", 5, (96, 128)))
    frames = panning(20)
    (folder / "frames").mkdir()
    with av.open(str(folder / "video.mp4"), "w") as container:
        stream = container.add_stream("libx264", rate=10)
        stream.width, stream.height, stream.pix_fmt = 128, 96, "yuv420p"
        for number, frame in enumerate(frames):
            cv2.imwrite(str(folder / "frames" / f"{number}.png"), frame[:, :, ::-1])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode(None))
    return folder


def test_help_names_the_verbs():
    out = run("--help").stdout
    assert all(verb in out for verb in ("segment", "inspect", "train", "evaluate", "benchmark", "report", "demo"))
    assert "--scheduler" in run("segment", "--help").stdout
    assert run("--version").stdout.strip() == f"stmg {stmg.__version__}"


def test_segment_writes_everything_asked_for(place, tmp_path):
    saves = [word for name in ("overlay", "records", "timeline", "labels") for word in ("--save", name)]
    done = run("segment", place / "video.mp4", "-m", place / "model", "-o", tmp_path, *saves, "--threads", 1)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert len(records) == len(list((tmp_path / "labels").iterdir())) == 20
    assert records[0]["level"] == "key"
    assert (tmp_path / "timeline.png").stat().st_size > 1000
    with av.open(str(tmp_path / "overlay.mp4")) as video:
        assert sum(1 for _ in video.decode(video=0)) == 20
    assert "20 frames" in done.stdout


def test_segment_takes_a_folder_every_other_frame_at_another_size(place, tmp_path):
    arguments = ["--every", 2, "--limit", 5, "--resize", "48x64", "--scheduler", "fixed:period=2,between=carry"]
    out = tmp_path / "short.mp4"
    done = run("segment", place / "frames", "-m", place / "model", "-o", out, "--motion", "none", *arguments)
    assert done.returncode == 0, done.stderr
    with av.open(str(out)) as video:
        sizes = [(frame.height, frame.width) for frame in video.decode(video=0)]
    assert sizes == [(48, 64)] * 5


def test_segment_reads_standard_input(place, tmp_path):
    with (place / "video.mp4").open("rb") as stdin:
        done = run("segment", "-", "-m", place / "model", "-o", tmp_path, "--save", "records", stdin=stdin)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "records.jsonl").read_text().splitlines()) == 20


def test_segment_takes_a_network_or_a_black_box_from_a_file(place, tmp_path):
    code = tmp_path / "mine.py"
    code.write_text(
        "import numpy as np\nfrom stmg.networks import build\n"
        "def network():\n    return build('small', 3)\n"
        "def box():\n    return lambda image: image.transpose(2, 0, 1).astype(np.float32)\n"
    )
    for function in ("network", "box"):
        done = run("segment", place / "frames", "-m", f"{code}:{function}", "-o", tmp_path / function, "--limit", 4)
        assert done.returncode == 0, done.stderr
        assert len((tmp_path / function / "records.jsonl").read_text().splitlines()) == 4
    done = run("segment", place / "frames", "-m", f"{code}:netwrk", "-o", tmp_path / "x")
    assert done.returncode == 2
    assert "it has: build, network, box" in done.stderr


@pytest.mark.parametrize(
    ("source", "model", "more", "told"),
    [
        ("missing.mp4", "model", [], "does not exist"),
        ("video.mp4", "nowhere", [], "no checkpoint at"),
        ("video.mp4", "ddrnet23-slim", [], "without weights"),
        ("video.mp4", "model", ["--scheduler", "often"], "no scheduler is called"),
        ("video.mp4", "model", ["--motion", "raft"], "no motion is called"),
        ("video.mp4", "model", ["--resize", "big"], "HEIGHTxWIDTH"),
        ("video.mp4", "model", ["--save", "gif"], "cannot save"),
        ("video.mp4", "model", ["--threads", "0"], "at least 1 thread"),
        ("video.mp4", "model", ["--device", "quantum"], "no device"),
        ("[/x].mp4", "model", [], "[/x].mp4 holds no images"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_two(place, tmp_path, source, model, more, told):
    model = place / model if model == "model" else model
    done = run("segment", place / source, "-m", model, "-o", tmp_path / "out", *more)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_source_is_never_written_over(place, tmp_path):
    source = tmp_path / "overlay.mp4"
    source.write_bytes((place / "video.mp4").read_bytes())
    for out in (source, tmp_path):
        done = run("segment", source, "-m", place / "model", "-o", out)
        assert done.returncode == 2
        assert "is the source itself" in done.stderr
    assert source.read_bytes() == (place / "video.mp4").read_bytes()


def test_a_folder_may_have_a_dot_in_its_name(place, tmp_path):
    done = run("segment", place / "frames", "-m", place / "model", "-o", tmp_path / "run.v2", "--limit", 2)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run.v2" / "records.jsonl").exists()


def test_foreign_weights_are_loaded_into_a_bare_network(place, tmp_path):
    torch.save({f"module.{k}": v for k, v in build("ddrnet23-narrow", 7).state_dict().items()}, tmp_path / "w.pth")
    arguments = ["segment", place / "frames", "--limit", 2, "--save", "records", "-o", tmp_path, "--weights"]
    done = run(*arguments, tmp_path / "w.pth", "-m", "ddrnet23-narrow")
    assert done.returncode == 0, done.stderr
    done = run(*arguments, tmp_path / "w.pth", "-m", "ddrnet23-slim")
    assert done.returncode == 2
    assert "another network: conv1.0.weight is 16x3x3x3" in done.stderr


def test_a_network_of_another_class_count_is_told(place, tmp_path):
    """Broken weights on disk are a user's trouble too, not a traceback."""
    (tmp_path / "model").mkdir()
    for path in (place / "model").iterdir():
        (tmp_path / "model" / path.name).write_bytes(path.read_bytes())
    card = tmp_path / "model" / "stmg.json"
    card.write_text(card.read_text().replace('"num_classes": 5', '"num_classes": 9'))
    done = run("segment", place / "video.mp4", "-m", tmp_path / "model", "-o", tmp_path / "out")
    assert done.returncode == 2
    assert "another network than small" in done.stderr


def test_an_interruption_keeps_what_is_done(place, tmp_path):
    slow = tmp_path / "slow.py"
    slow.write_text(
        "import time\ndef box():\n    def segment(image):\n        time.sleep(0.1)\n"
        "        return image.argmax(2)\n    return segment\n"
    )
    command = [sys.executable, "-m", "stmg", "segment", place / "video.mp4", "-m", f"{slow}:box"]
    command += ["-o", tmp_path / "out", "--scheduler", "always-key"]
    process = subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    records = tmp_path / "out" / "records.jsonl"
    for _ in range(600):
        if records.exists() and len(records.read_text().splitlines()) >= 3:
            break
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"interrupted" in out
    number = len(records.read_text().splitlines())
    assert 3 <= number < 20
    with av.open(str(tmp_path / "out" / "overlay.mp4")) as video:
        assert sum(1 for _ in video.decode(video=0)) == number


def test_inspect_lists_blocks_and_both_counts(place):
    facts = json.loads(run("inspect", "ddrnet23-slim", "--size", "64x128", "--json").stdout)
    assert len(facts["blocks"]) == 6
    assert facts["head"] == "final_layer"
    assert facts["macs_all_blocks_skipped"] < facts["macs_without_head"] < facts["macs"]
    text = run("inspect", place / "model").stdout
    assert "stage1.1" in text
    assert "5 classes" in text


def test_data_check_says_what_is_there_and_draws_it(tmp_path):
    done = run("data", "check", "street:0-1", "--sheet", tmp_path / "sheet.png")
    assert done.returncode == 0, done.stderr
    assert "rendered streets" in done.stdout
    assert "Pedestrian" in done.stdout
    assert cv2.imread(str(tmp_path / "sheet.png")).shape[1] == 4 * 240


def test_data_check_names_every_wrong_file_and_fails(tmp_path):
    for name, value in (("0001TP_000030", 3), ("0001TP_000060", 99), ("0001TP_000090", 98)):
        for folder in ("train", "trainannot"):
            (tmp_path / folder).mkdir(exist_ok=True)
            cv2.imwrite(str(tmp_path / folder / f"{name}.png"), np.full((32, 48), value, np.uint8))
    done = run("data", "check", tmp_path, "--sheet", tmp_path / "sheet.png")
    assert done.returncode == 1
    assert "0001TP_000060.png holds class 99" in done.stdout
    assert "0001TP_000090.png holds class 98" in done.stdout
    assert run("data", "check", tmp_path / "nowhere").returncode == 2


def test_train_refuses_what_it_cannot_do_in_one_line(tmp_path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("network: small")
    for arguments, message in (
        ((tmp_path / "none.yaml",), "No such file"),
        ((recipe,), "no data is named"),
        ((recipe, "data.path=street:0-0", "network=big"), "no network is called 'big'"),
        ((recipe, "speed=3"), "there is no setting speed"),
    ):
        done = run("train", *arguments, "--out", tmp_path / "run", "--device", "cpu")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert message in done.stderr


def test_the_verbs_that_judge_leave_figures_and_a_page(place, tmp_path):
    """On a video without labels: agreement with the whole network, speed, and what to expect."""
    common = ("--size", "96x128", "--threads", 1)
    video, model = place / "video.mp4", place / "model"
    for verb, arguments in {
        "evaluate": (model, video, "--limit", 6),
        "benchmark": (model, video, "--frames", 4, "--repeats", 1),
        "profile": (video, "--model", model, "--frames", 6),
    }.items():
        done = run(verb, *arguments, *common, "--out", tmp_path / verb)
        assert done.returncode == 0, done.stderr
    evaluation = json.loads((tmp_path / "evaluate" / "evaluation.json").read_text())
    assert evaluation["ours"]["miou"] is None
    assert evaluation["ours"]["agreement_pixels"] > 0
    assert evaluation["command"].startswith("stmg evaluate")
    assert evaluation["machine"]["cores"] > 0
    rows = json.loads((tmp_path / "benchmark" / "benchmark.json").read_text())["sizes"][0]["contenders"]
    assert rows["base on every frame"]["gain"] == 1
    assert rows["stmg"]["memory"] > 0
    done = run("report", *(tmp_path / verb for verb in ("evaluate", "benchmark", "profile")), "-o", tmp_path / "r.html")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "r.html").read_text()
    assert page.count("data:image/png;base64") >= 3
    assert "http" not in page  # nothing is fetched: the page is whole in itself
    assert "|" in (tmp_path / "r.md").read_text()


def test_ablations_of_a_checkpoint_on_labelled_streets(tmp_path):
    arguments = ("--limit", 2, "--seeds", 1, "--size", "96x128", "--threads", 1, "--out", tmp_path)
    done = run("ablate", "small-streets", "street:0-0", *arguments, "--also", "itself=small-streets")
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "ablation.json").read_text())
    assert told["base"]["miou"] > 0
    assert any("itself" in row["name"] for rows in told["tables"].values() for row in rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("evaluate", "small-streets", "nowhere"), "nowhere does not exist"),
        (("evaluate", "nothing", "street:0-0"), "no checkpoint at nothing"),
        (("ablate", "small-streets", "street:0-0", "--also", "runs/x"), "names no other checkpoint"),
        (("report", "nowhere"), "holds no result"),
        (("profile", "nowhere.mp4"), "nowhere.mp4"),
    ],
)
def test_what_cannot_be_judged_is_told_in_a_line(arguments, message):
    done = run(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
