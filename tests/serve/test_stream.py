"""Failing streams report the reason, come back, and do not affect other streams."""

import threading
import time
from concurrent.futures import Executor, Future
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from servers import make_config, run_server
from stmg.models.load import resolve
from stmg.models.loaded import LoadedModel, LoadedModels
from stmg.models.spec import ModelSpec
from stmg.serve.config import StreamConfig
from stmg.serve.stream import LiveStream
from stmg.video.frames import Frame
from waiting import PATIENCE


class SameThread(Executor):
    """Runs the network while it is asked to."""

    def submit(self, function, /, *args, **kwargs):
        future = Future()
        future.set_result(function(*args, **kwargs))
        return future


SAME_THREAD = SameThread()


def test_a_source_that_breaks_off_is_offline_and_comes_back(network_file, camera):
    with run_server(make_config(network_file, {"gate": camera.url})) as server:
        server.wait_live("gate")
        before = time.time()
        camera.stop()
        down = server.wait(lambda info: info["status"]["state"] == "offline", "gate")
        assert down["status"]["reason"]
        assert before <= down["status"]["since"] <= time.time()
        assert down["status"]["next_try"] > before
        camera.start()
        server.wait_live("gate")
        assert server.get("/api/streams/gate")["figures"]["reconnects"] >= 1


def test_a_paused_stream_is_live_while_frames_come(network_file, camera):
    camera.stop()
    with run_server(make_config(network_file, {"gate": camera.url})) as server:
        server.wait(lambda info: info["status"]["state"] == "offline", "gate")
        server.client.patch("/api/streams/gate", json={"paused": True})
        for _ in range(2):
            camera.start()
            assert server.wait_live("gate")["figures"]["frames"] == {}
            assert server.get("/readyz")["ready"]
            camera.stop()
            server.wait(lambda info: info["status"]["state"] == "offline", "gate")


class Unhurried(threading.Event):
    """An event that notes how long it was to be waited for and what is said meanwhile, and is set after some waits."""

    def __init__(self, stream, number):
        super().__init__()
        self.stream, self.number = stream, number
        self.waits, self.said = [], []

    def wait(self, timeout=None):
        self.waits.append(timeout)
        self.said.append(self.stream.status.next_try)
        if len(self.waits) == self.number:
            self.set()
        return self.is_set()


def test_attempts_become_rarer(network_file, tmp_path, monkeypatch):
    monkeypatch.setattr("stmg.serve.stream.time", SimpleNamespace(time=lambda: 1000.0))
    config, spec = StreamConfig(name="gate", source="tcp://127.0.0.1:9"), ModelSpec(f"{network_file}:build")
    stream = LiveStream(config, spec, LoadedModel("nets", spec), SAME_THREAD, tmp_path, retry_seconds=(0.1, 0.8))
    stream._stopped = stopped = Unhurried(stream, 5)
    stream.start()
    assert stream.join(PATIENCE)
    assert stopped.waits == pytest.approx([0.2, 0.4, 0.8, 0.8, 0.8])
    assert stopped.said == pytest.approx([1000 + wait for wait in stopped.waits])


def test_frames_of_a_source_are_not_copied(network_file, tmp_path, monkeypatch):
    class Source:
        size, dropped = (48, 64), 0
        frames = tuple(Frame(np.full((48, 64, 3), 10 * index, np.uint8), index) for index in range(5))

        def __init__(self):
            self.rest = iter(self.frames)

        def __next__(self):
            return next(self.rest)

        def close(self):
            """Nothing is open."""

    monkeypatch.setattr("stmg.serve.stream.open_source", lambda *_, **__: Source())
    config, spec, images = StreamConfig(name="gate", source="gate.mp4"), ModelSpec(f"{network_file}:build"), []
    stream = LiveStream(config, spec, LoadedModel("nets", spec), SAME_THREAD, tmp_path)
    stream.on_result = lambda result: images.append(result.image)
    stream.start()
    assert stream.join(PATIENCE)
    assert all(image is frame.image for image, frame in zip(images, Source.frames, strict=True))


def test_a_source_that_is_never_there_is_tried_again_and_its_password_is_not_shown(network_file):
    config = make_config(network_file, {"gate": "tcp://user:secret@127.0.0.1:9/x?key=secret"}, retry_seconds=(0.1, 0.8))
    with run_server(config) as server:
        server.wait(lambda info: info["figures"]["reconnects"] > 1 and info["status"]["state"] == "offline", "gate")
        everything = str(server.get("/api/streams")) + server.client.get("/metrics").text
        assert "secret" not in everything
        assert server.get("/readyz")["ready"]  # it is known to be down


def test_one_stream_that_fails_leaves_the_others_alone(network_file, video, tmp_path):
    broken = StreamConfig(name="broken", source=str(video), model=f"{network_file}:broken")
    config = make_config(network_file, {"good": video, "missing": tmp_path / "missing.mp4"})
    config = replace(config, streams=(*config.streams, broken))
    with run_server(config) as server:
        server.wait_live("good")
        assert "does not exist" in server.wait(lambda info: info["status"]["reason"], "missing")["status"]["reason"]
        assert (
            "the network is broken" in server.wait(lambda info: info["status"]["reason"], "broken")["status"]["reason"]
        )
        before = server.get("/api/streams/good")["figures"]["frame_index"]
        server.wait(lambda info: info["figures"]["frame_index"] > before + 20, "good")


def test_a_file_that_does_not_start_again_ends(network_file, video):
    stream = StreamConfig(name="once", source=str(video), loop=False)
    config = replace(make_config(network_file, {"other": video}), streams=(stream,))
    with run_server(config) as server:
        assert server.wait(lambda info: info["status"]["state"] == "ended", "once")["figures"]["frames"]


def test_a_model_is_loaded_once_for_streams_that_differ_only_in_how_they_stream(network_file):
    loaded = []

    def load(spec):
        loaded.append(spec)
        return resolve(spec)

    models = LoadedModels(load)
    name = f"{network_file}:build"
    plain, other = ModelSpec(name), ModelSpec(name, {"motion": "none", "size": (48, 64)})
    first, second = (models.get(spec).segmenter_for(spec) for spec in (plain, other))
    assert first.runtime is second.runtime
    assert (first.settings.size, second.settings.size) == (None, (48, 64))
    assert len(loaded) == 1
    _ = models.get(ModelSpec(f"{network_file}:broken")).segmenter
    assert len(loaded) == 2


def test_the_size_of_one_stream_is_not_that_of_the_next(network_file):
    sizes = []
    for first in (None, (48, 64)):
        models = LoadedModels()
        name = f"{network_file}:build"
        _ = models.get(ModelSpec(name, {"size": first})).segmenter
        plain = ModelSpec(name)
        sizes.append(models.get(plain).segmenter_for(plain).size_for((720, 960)))
    assert sizes[0] == sizes[1]


def test_streams_of_one_model_have_states_of_their_own(network_file, video):
    with run_server(make_config(network_file, {"one": video, "two": video})) as server:
        server.wait_live("one")
        server.wait_live("two")
        streams = [shown.stream for shown in server.service.shown]
        assert streams[0].model is streams[1].model
        with server.paused("one") as still:
            before = server.get("/api/streams/two")["figures"]["frame_index"]
            server.wait(lambda info: info["figures"]["frame_index"] > before + 10, "two")
            assert server.get("/api/streams/one")["figures"]["frame_index"] == still


@pytest.mark.parametrize(
    "change", [{"mode": "sideways"}, {"motion": "lots"}, {"opacity": 2}, {"max_change": 0}, {"x": 1}]
)
def test_what_cannot_be_changed_is_refused_and_changes_nothing(running, change):
    before = running.get("/api/streams/clip")["controls"]
    answer = running.client.patch("/api/streams/clip", json=change)
    assert answer.status_code == 422
    assert answer.json()["error"]
    assert running.get("/api/streams/clip")["controls"] == before


def test_models_of_one_name_are_distinguished_by_their_folders():
    models = LoadedModels(load=lambda spec: None)
    names = ("runs/one/best", "runs/two/best", "/other/two/best", "best", "runs/one/best")
    for name, threads in zip(names, (None, None, None, None, 2), strict=True):
        models.get(ModelSpec(name, {"threads": threads}))
    assert models.names == [
        "best",
        "two/best",
        "other/two/best",
        "best (2)",
        "one/best",
    ]
