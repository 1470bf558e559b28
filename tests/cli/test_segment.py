"""segment: the outputs of each mode, and those left by an early end."""

import json
import os
import re
import signal
import socket
import threading
import time
from contextlib import suppress
from functools import partial

import av
import numpy as np
import pytest
from PIL import Image as PillowImage

from clips import clip
from commands import is_one_line, run_stmg, start_stmg
from stmg.video.sources import open_video
from waiting import PATIENCE, Held, wait_for


def count_frames(path):
    with av.open(str(path)) as video:
        return sum(1 for _ in video.decode(video=0))


def count_records(folder):
    return len((folder / "records.jsonl").read_text().splitlines())


def test_everything_named_is_written(samples, tmp_path):
    saves = [word for name in ("overlay", "records", "timeline", "labels") for word in ("--save", name)]
    done = run_stmg("segment", samples.video, "-m", samples.model, "-o", tmp_path, *saves, "--threads", 1, columns=80)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert len(records) == len(list((tmp_path / "labels").glob("*.png"))) == 20
    assert records[0]["level"] == "key"
    assert (tmp_path / "timeline.png").stat().st_size > 1000
    assert count_frames(tmp_path / "overlay.mp4") == 20
    assert "20 frames" in done.stdout


def test_every_other_frame_of_a_folder_worked_at_another_size_is_written_at_its_own(samples, tmp_path):
    arguments = ["--every", 2, "--limit", 5, "--size", "48x64", "--scheduler", "fixed:period=2,between=carry"]
    out = tmp_path / "short.mp4"
    done = run_stmg("segment", samples.frames, "-m", samples.model, "-o", out, "--motion", "none", *arguments)
    assert done.returncode == 0, done.stderr
    with av.open(str(out)) as video:
        sizes = [(frame.height, frame.width) for frame in video.decode(video=0)]
    assert sizes == [(96, 128)] * 5


def run_segment(samples, out, *more):
    return run_stmg("segment", samples.video, "-m", samples.model, "-o", out, "--save", "records", *more)


def read_levels(folder):
    return [json.loads(line)["level"] for line in (folder / "records.jsonl").read_text().splitlines()]


def test_a_file_is_offline_unless_another_mode_is_named(samples, tmp_path):
    done = run_segment(samples, tmp_path / "a", "--scheduler", "fixed:period=4,between=carry")
    assert done.returncode == 0, done.stderr
    assert "offline: 20 frames" in done.stdout
    assert "network ran 6 times for 20 frames" in done.stdout
    # The first and the last frame are anchors, and every fourth between them.
    assert [index for index, level in enumerate(read_levels(tmp_path / "a")) if level == "key"] == [0, 4, 8, 12, 16, 19]
    done = run_segment(samples, tmp_path / "b", "--scheduler", "fixed:period=4,between=carry", "--mode", "online")
    assert "online: 20 frames" in done.stdout
    assert [index for index, level in enumerate(read_levels(tmp_path / "b")) if level == "key"] == [0, 4, 8, 12, 16]


def test_a_delay_brings_anchors_together(samples, tmp_path):
    done = run_segment(samples, tmp_path, "--delay", 8, "--scheduler", "fixed:period=10,between=carry")
    assert done.returncode == 0, done.stderr
    assert [index for index, level in enumerate(read_levels(tmp_path)) if level == "key"] == [
        0,
        3,
        6,
        9,
        12,
        15,
        18,
        19,
    ]


def test_a_file_is_played_at_its_own_rate_in_realtime(samples, tmp_path):
    begun = time.perf_counter()
    done = run_segment(samples, tmp_path, "--mode", "realtime", "--pace")
    assert done.returncode == 0, done.stderr
    assert time.perf_counter() - begun > 1.9  # 20 frames at 10 Hz
    assert "realtime: " in done.stdout
    assert "ms (p50)" in done.stdout
    assert "ms (p95); network ran" in done.stdout
    dropped = sum(map(int, re.findall(r"(\d+) frames came (?:faster|before)", done.stdout)))
    assert count_records(tmp_path) == 20 - dropped
    assert "plays it at its own rate" not in done.stdout


def test_realtime_on_a_file_at_full_speed_is_noted(samples, tmp_path):
    done = run_segment(samples, tmp_path, "--mode", "realtime", "--limit", "3")
    assert "--pace plays it at its own rate" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--mode", "always"], "mode is one of offline, online, realtime; got 'always'"),
        (["--pace"], "--pace is for --mode realtime; the mode is offline"),
        (["--delay", 8, "--mode", "online"], "delay is for offline mode; the mode is online"),
        (["--scheduler", "paper", "--mode", "offline"], "only online mode does"),
        (["--scheduler", "drift", "--mode", "realtime"], "cannot be used in realtime"),
        (["--fusion", 0.2], "fusion is for online mode; the mode is offline"),
        (["--settings", "nowhere.yaml"], "nowhere.yaml cannot be read: No such file"),
    ],
)
def test_what_a_mode_does_not_use_is_refused(samples, tmp_path, more, message):
    done = run_segment(samples, tmp_path, *more)
    assert done.returncode == 2
    assert message in done.stderr
    assert is_one_line(done.stderr)


def test_a_scheduler_that_computes_parts_of_frames_makes_a_file_online(samples, tmp_path):
    done = run_segment(samples, tmp_path, "--scheduler", "paper")
    assert done.returncode == 0, done.stderr
    assert "online: 20 frames" in done.stdout


def test_settings_come_from_a_file_and_options_before_it(samples, tmp_path):
    settings = tmp_path / "settings.yaml"
    settings.write_text("mode: online\nscheduler: {name: fixed, period: 5, between: carry}\nsize: [48, 64]\n")
    done = run_segment(samples, tmp_path, "--settings", settings)
    assert done.returncode == 0, done.stderr
    assert "online: 20 frames" in done.stdout
    assert read_levels(tmp_path).count("key") == 4
    done = run_segment(samples, tmp_path, "--settings", settings, "--scheduler", "always-key")
    assert read_levels(tmp_path).count("key") == 20
    done = run_segment(samples, tmp_path, "--settings", settings, "--mode", "offline")
    assert "offline: 20 frames" in done.stdout


def test_frames_larger_than_the_models_own_are_worked_at_smaller_and_written_at_their_model_size(samples, tmp_path):
    large = clip(tmp_path / "large.mp4", 6, size=(180, 320))
    saves = ["--save", "labels", "--save", "overlay"]
    done = run_stmg("segment", large, "-m", samples.model, "-o", tmp_path / "out", *saves)
    assert done.returncode == 0, done.stderr
    with av.open(str(tmp_path / "out" / "overlay.mp4")) as video:
        assert {(frame.height, frame.width) for frame in video.decode(video=0)} == {(180, 320)}
    labels = np.asarray(PillowImage.open(tmp_path / "out" / "labels" / "000003.png"))
    assert labels.shape == (180, 320)
    assert len(np.unique(labels, axis=0)) <= 80  # rows of labels were repeated from the 80 of the size worked at


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_keeps_what_is_done(samples, tmp_path, number):
    held, out = Held(tmp_path), tmp_path / "out"
    model = held.write_network(tmp_path / "held.py", call=12)
    process = start_stmg("segment", samples.video, "-m", model, "-o", out, "--scheduler", "always-key")
    held.wait(process)
    wait_for(lambda: (out / "records.jsonl").exists() and count_records(out), lambda records: records >= 3)
    os.kill(process.pid, number)
    held.release()
    printed, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number
    assert "interrupted" in printed
    assert "segmenting" in printed.split("interrupted")[0]  # a line of progress, though no terminal shows it
    assert (out / "timeline.png").is_file()
    assert 3 <= count_records(out) < 20
    assert count_frames(out / "overlay.mp4") == count_records(out)


def test_an_interrupt_is_noticed_before_the_source_has_sent_anything(samples, tmp_path):
    os.mkfifo(tmp_path / "stream.ts")
    process = start_stmg("segment", tmp_path / "stream.ts", "-m", samples.model, "-o", tmp_path / "out")
    sender = wait_for(lambda: open_sender(tmp_path / "stream.ts"), lambda opened: opened is not None)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=PATIENCE)
    os.close(sender)
    assert process.returncode == 130
    assert "Traceback" not in error


def open_sender(fifo):
    """The other end of a named pipe; None as long as nobody reads from it."""
    with suppress(OSError):
        return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    return None


def test_a_live_stream_that_is_lost_ends_with_its_summary(samples, tmp_path, monkeypatch):
    server = socket.create_server(("127.0.0.1", 0))
    data = clip(tmp_path / "clip.ts", 30).read_bytes()

    def serve():
        with server:
            connection, _ = server.accept()
            with connection:
                connection.sendall(data)

    thread = threading.Thread(target=serve)
    thread.start()
    monkeypatch.setattr("stmg.video.sources.open_video", partial(open_video, retries=0))
    url = f"tcp://127.0.0.1:{server.getsockname()[1]}"
    done = run_stmg("segment", url, "-m", samples.model, "-o", tmp_path / "out", "--save", "records", "--json")
    thread.join()
    assert done.returncode == 1
    summary = json.loads(done.stdout)
    assert summary["lost"].endswith("broke off")
    assert summary["frames"] + summary["dropped"] == 30
    assert summary["frames"] == count_records(tmp_path / "out")
    assert f"realtime: {summary['frames']} frames" in done.stderr
    assert "the outputs hold every frame up to there" in done.stderr
    assert "None" not in done.stderr
    assert ("came before the first was answered" in done.stderr) == (summary["dropped_early"] > 0)
    assert ("faster than" in done.stderr) == (summary["dropped"] > summary["dropped_early"])


def test_a_summary_in_json_says_what_the_table_says(samples, tmp_path):
    done = run_segment(samples, tmp_path, "--json", "--mode", "online")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["mode"], summary["frames"], summary["out"]) == ("online", 20, str(tmp_path))
    assert sum(level["frames"] for level in summary["levels"].values()) == 20
    assert (summary["lost"], summary["interrupted"], summary["dropped"]) == (None, False, 0)
    assert "online: 20 frames" in done.stderr


def test_a_limit_steers_the_budget_and_the_summary_says_what_was_measured(samples, tmp_path):
    for mode in ("online", "offline"):
        done = run_segment(
            samples, tmp_path / mode, "--mode", mode, "--max-change", "0.1%", "--scheduler", "drift:longest=4"
        )
        assert done.returncode == 0, done.stderr
        audits = [json.loads(line)["audit"] for line in (tmp_path / mode / "records.jsonl").read_text().splitlines()]
        number = sum(audit is not None for audit in audits)
        assert number >= 2
        assert re.search(rf"measured change [0-9.]+% of pixels, on {number} of ", done.stdout)
        assert "above the goal of 0.1%" in done.stdout
    done = run_segment(samples, tmp_path / "paper", "--mode", "online", "--max-change", "2%", "--scheduler", "paper")
    assert done.returncode == 2
    assert "max_change steers a drift budget, and the scheduler paper has none" in done.stderr


def test_what_was_understood_is_printed_and_what_cannot_be_right_is_said(samples, tmp_path):
    code = "import numpy as np\ndef sure(image):\n    return np.full((96, 128), 2)\ndef make():\n    return sure\n"
    (tmp_path / "user.py").write_text(code)
    arguments = ("--mode", "online", "--scheduler", "fixed:period=1,between=carry")
    done = run_stmg("segment", samples.video, "-m", f"{tmp_path / 'user.py'}:make", "-o", tmp_path / "out", *arguments)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert text.count("sure: labels, computed at 96x128") == 1
    assert text.count("every pixel of the first 3 computed frames is of class 2") == 1
    assert "skipped" not in text
    assert "StmgWarning" not in done.stdout + done.stderr
    done = run_segment(samples, tmp_path / "shipped", "--limit", 4, "--json")
    assert "computed at" not in done.stdout
    assert "computed at" in done.stderr


def test_blocks_are_spoken_of_where_the_papers_mode_is_asked_for_alone(samples, tmp_path):
    (tmp_path / "user.py").write_text("from zoo import colors\n\n\ndef make():\n    return colors\n")
    told = "has no blocks that can be skipped"
    for arguments, expected in (([], False), (["--scheduler", "drift"], False), (["--scheduler", "paper"], True)):
        model = ("-m", f"{tmp_path / 'user.py'}:make", "--motion", "none", "--limit", 3)
        done = run_stmg("segment", samples.video, *model, "-o", tmp_path / "out", *arguments)
        assert done.returncode == 0, done.stderr
        assert (told in " ".join(done.stdout.split())) is expected
