"""The API over a real server: streams listed, added, changed, removed; pictures, results, metrics."""

import io
import json
import time
from itertools import pairwise

import cv2
import httpx
import numpy as np
import pytest
from PIL import Image
from prometheus_client.parser import text_string_to_metric_families

from servers import make_config, run_server
from waiting import PATIENCE, wait_for


def read_jpegs(server, path, enough):
    """The first pictures of a multipart answer, until there are enough."""
    pictures, rest, end = [], b"", time.monotonic() + PATIENCE
    with server.client.stream("GET", path) as response:
        assert response.headers["content-type"].startswith("multipart/x-mixed-replace")
        for chunk in response.iter_raw():
            rest += chunk
            while b"\r\n\r\n" in rest:
                head, _, body = rest.partition(b"\r\n\r\n")
                length = int(head.partition(b"Content-Length: ")[2].split()[0])
                if len(body) < length + 2:
                    break
                pictures.append((head.decode(), cv2.imdecode(np.frombuffer(body[:length], np.uint8), cv2.IMREAD_COLOR)))
                rest = body[length + 2 :]
            if enough(pictures):
                return pictures
            assert time.monotonic() < end, f"{len(pictures)} pictures are not enough"
    raise AssertionError("the answer ended")


def read_events(server, path, enough):
    """The first events of an answer, until there are enough."""
    events, end = [], time.monotonic() + PATIENCE
    with server.client.stream("GET", path) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        for line in response.iter_lines():
            if line.startswith("data: "):
                events.append(json.loads(line.removeprefix("data: ")))
            if enough(events):
                return events
            assert time.monotonic() < end, f"{len(events)} events are not enough"
    raise AssertionError("the answer ended")


def at_least(number):
    return lambda parts: len(parts) >= number


def metrics_of(server):
    families = text_string_to_metric_families(server.client.get("/metrics").text)
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for f in families for sample in f.samples}


def test_a_stream_is_live_with_its_figures(running):
    running.wait(lambda info: info["figures"]["process_fps"] > 5, "clip")
    (info,) = running.get("/api/streams")
    assert (info["name"], info["status"]["state"], info["source"]) == ("clip", "live", "clip.mp4")
    assert info["figures"]["frame_size"] == [96, 128]
    assert info["figures"]["network_runs"] > 0
    assert sum(info["figures"]["areas"].values()) == pytest.approx(1, abs=0.01)


def test_pictures_move(running):
    pictures = [image for _, image in read_jpegs(running, "/api/streams/clip/overlay.mjpg", at_least(4))]
    assert all(image.shape == (96, 128, 3) for image in pictures)
    # The video starts again and again: one of them may be of the same frame as the one before.
    assert any(np.abs(one.astype(int) - two).mean() > 1 for one, two in pairwise(pictures))


def test_every_view_can_be_looked_at_over_one_connection(running):
    views = running.get("/api/options")["views"]
    query = "&".join(f"show=clip:{view}" for view in views)

    def seen(pictures):
        return {view for view in views for head, _ in pictures if f"X-View: {view}\r\n" in head + "\r\n"}

    # One view is slower than the rest.
    pictures = read_jpegs(running, f"/api/pictures?{query}", lambda pictures: seen(pictures) == set(views))
    beside = next(image for head, image in pictures if "X-View: compare" in head)
    assert beside.shape == (96, 256, 3)


def test_pictures_are_encoded_once_for_all_and_not_at_all_without_viewers(running):
    stream = running.service.find("clip")

    def encoded_while(frames):
        """Pictures encoded while at least so many frames had results, and how many had."""
        frames_before, before = sum(stream.stream.figures.read().frames.values()), stream.pictures.encoded
        running.wait_frames("clip", frames)
        encoded = stream.pictures.encoded - before
        return encoded, sum(stream.stream.figures.read().frames.values()) - frames_before

    wait_for(lambda: stream.pictures._threads, lambda threads: not threads)  # those who looked are gone
    assert encoded_while(10)[0] == 0
    clients = [httpx.Client(base_url=running.url, timeout=PATIENCE) for _ in range(8)]
    answers = [client.stream("GET", "/api/streams/clip/raw.mjpg") for client in clients]
    try:
        parts = [answer.__enter__().iter_raw() for answer in answers]
        for part in parts:
            next(part)
        assert stream.pictures.viewers == 8
        before = stream.pictures.encoded
        encoded, frames = encoded_while(25)
        assert encoded <= frames + 2
        wait_for(lambda: stream.pictures.encoded, lambda encoded: encoded > before)
        assert running.get("/api/streams/clip")  # nobody reads on, and nothing waits for them
    finally:
        for answer, client in zip(answers, clients, strict=True):
            answer.__exit__(None, None, None)
            client.close()


def test_figures_come_as_events(running):

    def has_new_points(events):
        return len(events) > 1 and events[-1]["streams"][0]["points"]

    first, *later = read_events(running, "/api/events", has_new_points)
    assert first["history"]
    assert not any(event["history"] for event in later)
    numbers = [point[0] for point in first["streams"][0]["points"]]
    assert numbers == sorted(numbers)


def test_results_come_as_events_without_a_gap(running):
    records = read_events(running, "/api/streams/clip/results", at_least(5))
    dropped = running.get("/api/streams/clip")["figures"]["dropped"]
    indices = [record["index"] for record in records]
    assert indices == sorted(indices)
    assert indices[-1] - indices[0] <= 4 + dropped
    assert {"level", "distortion", "latency_ms", "areas"} <= records[0].keys()


def test_labels_are_class_ids(running):
    image = Image.open(io.BytesIO(running.client.get("/api/streams/clip/labels.png").content))
    assert image.mode == "P"
    assert set(np.unique(np.asarray(image))) <= {0, 1, 2}


def test_a_snapshot_and_its_labels_are_of_one_frame(running):
    taken = running.client.post("/api/streams/clip/snapshots").json()
    running.wait(lambda info: info["figures"]["frame_index"] != taken["index"], "clip")
    answers = [running.client.get(taken[name]) for name in ("picture", "labels")]
    assert {answer.headers["x-frame-index"] for answer in answers} == {str(taken["index"])}
    assert [Image.open(io.BytesIO(answer.content)).size for answer in answers] == [(128, 96)] * 2
    assert "attachment" in answers[0].headers["content-disposition"]
    for _ in range(6):
        running.client.post("/api/streams/clip/snapshots")
    assert running.client.get(taken["picture"]).status_code == 404  # the last few are kept


@pytest.mark.parametrize(
    "change", [{"mode": "online"}, {"mode": "offline"}, {"motion": "none"}, {"max_change": 0.02}, {"opacity": 0.9}]
)
def test_a_control_acts_at_once(running, change):
    before = running.get("/api/streams/clip")
    answer = running.client.patch("/api/streams/clip", json=change)
    assert answer.status_code == 200, answer.text
    assert running.get("/api/streams/clip")["controls"] == {**before["controls"], **change}
    running.wait_frames("clip", 20)
    assert running.get("/api/streams/clip")["status"]["state"] == "live"
    running.client.patch("/api/streams/clip", json={name: before["controls"][name] for name in change})


def test_a_change_of_motion_is_seen_in_the_results(running):
    def last_three(events):
        return [record["motion"] for record in events[-3:]]

    running.client.patch("/api/streams/clip", json={"motion": "none"})
    read_events(running, "/api/streams/clip/results", lambda events: last_three(events) == ["none"] * 3)
    running.client.patch("/api/streams/clip", json={"motion": "dis"})
    read_events(running, "/api/streams/clip/results", lambda events: "dis" in last_three(events))


def test_opacity_changes_the_picture_of_a_paused_stream(running):
    with running.paused("clip", opacity=0.0) as still:
        plain = running.client.get("/api/streams/clip/overlay.jpg").content
        running.client.patch("/api/streams/clip", json={"opacity": 1.0})
        drawn = running.client.get("/api/streams/clip/overlay.jpg").content
        assert running.get("/api/streams/clip")["figures"]["frame_index"] == still
        assert drawn != plain
    running.client.patch("/api/streams/clip", json={"opacity": 0.5})
    running.wait(lambda info: info["figures"]["frame_index"] > still, "clip")


def test_a_stream_is_added_and_removed(running):
    added = running.client.post("/api/streams", json={"source": "spare", "name": "second"})
    assert added.status_code == 201
    running.wait_live("second")
    assert running.client.post("/api/streams", json={"source": "spare", "name": "second"}).status_code == 422
    running.service.summary()
    assert "second" in running.service._sent
    assert running.client.delete("/api/streams/second").status_code == 204
    assert "second" not in running.service._sent  # one of the same name begins its timeline anew
    assert running.client.delete("/api/streams/second").status_code == 404
    assert [info["name"] for info in running.get("/api/streams")] == ["clip"]


@pytest.mark.parametrize("source", ["/etc/passwd", "clip.mp4", "rtsp://h/", "street:1", "camera:0", "../clip", ""])
def test_no_source_can_be_opened_that_the_configuration_does_not_name(running, source):
    answer = running.client.post("/api/streams", json={"source": source})
    assert answer.status_code == 422
    assert "configuration" in answer.json()["error"]


def test_metrics_say_what_happens(running):
    stream = (("stream", "clip"),)
    wait_for(lambda: metrics_of(running), lambda metrics: metrics["stmg_source_fps", stream] > 5)
    with running.paused("clip"):
        metrics = metrics_of(running)
    assert metrics["stmg_stream_up", stream] == 1
    for name in ("process_fps", "skipped_fps", "network_fps", "dropped_total", "reconnects_total", "audits_total"):
        assert (f"stmg_{name}", stream) in metrics
    count = metrics["stmg_latency_seconds_count", stream]
    frames = sum(value for (name, _), value in metrics.items() if name == "stmg_frames_total")
    assert count == frames > 0
    assert metrics["stmg_latency_seconds_bucket", (("le", "+Inf"), *stream)] == count


def test_health_readiness_and_the_description_of_the_api(running):
    assert running.get("/healthz") == {"status": "ok"}
    assert running.get("/readyz")["ready"]
    for path in ("/", "/healthz", "/readyz"):  # as those ask who only want to know whether it answers
        answer = running.client.head(path)
        assert (answer.status_code, answer.content) == (200, b"")
    paths = running.get("/api/openapi.json")["paths"]
    assert {"/api/streams", "/api/streams/{name}", "/api/uploads", "/metrics", "/healthz", "/readyz"} <= paths.keys()


def test_every_answer_keeps_the_page_to_itself(running):
    for path in ("/", "/page/app.js", "/api/streams", "/nowhere"):
        headers = running.client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "*" not in policy
        assert headers["x-content-type-options"] == "nosniff"


def test_the_token_opens_the_page_and_the_api(network_file, video):
    with run_server(make_config(network_file, {"clip": video}, token="correct horse")) as server:
        assert server.client.get("/").status_code == 200
        assert server.client.get("/api/streams").status_code == 401
        assert server.client.get("/api/streams", headers={"authorization": "Bearer correct horse"}).status_code == 200
        assert server.client.post("/api/session", json={"token": "wrong horse"}).status_code == 401
        assert server.client.post("/api/session", json={"token": "correct horse"}).status_code == 204
        assert server.client.get("/api/streams").status_code == 200


def test_too_many_viewers_are_turned_away(network_file, video):
    config = make_config(network_file, {"clip": video}, viewers=1)
    with run_server(config) as server, server.client.stream("GET", "/api/events") as first:
        parts = first.iter_raw()  # to be held: an iterator that is forgotten closes its answer
        next(parts)
        assert httpx.get(f"{server.url}/api/events", timeout=PATIENCE).status_code == 503
