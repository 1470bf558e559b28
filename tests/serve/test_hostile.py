"""A thousand hostile requests (paths, methods, sizes, ids, headers) never give a 500 or break a stream."""

from __future__ import annotations

import json
import random
import socket
from urllib.parse import urlsplit

from waiting import PATIENCE

NASTY = (
    "../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "%00",
    "%ff%fe",
    "%c0%ae%c0%ae/",
    "a" * 4000,
    "';DROP TABLE streams;--",
    "<script>",
    "{name}",
    "-1",
    "1e999",
    "NaN",
    "clip%0d%0aX-Injected:%201",
    "CON",
    "~root",
    "file:///etc/passwd",
    "%F0%9F%98%80",
    "\\\\host\\share",
    "",
    ".",
    "..",
    "clip/",
    "clip//",
    "*",
)
PATHS = (
    "/{}",
    "/page/{}",
    "/api/streams/{}",
    "/api/streams/clip/{}.mjpg",
    "/api/streams/clip/{}.jpg",
    "/api/streams/{}/labels.png",
    "/api/streams/clip/snapshots/{}/overlay.png",
    "/api/streams/clip/snapshots/1/{}.png",
    "/api/pictures?show={}",
    "/api/pictures?show=clip:{}",
    "/api/uploads/{}",
    "/api/uploads/{}/overlay",
    "/api/uploads?name={}",
    "/api/uploads?model={}",
    "/metrics?{}",
    "/api/session",
    "/api/streams",
)
METHODS = ("GET", "POST", "PATCH", "DELETE", "HEAD", "PUT", "OPTIONS", "TRACE", "get", "BREW")
BODIES = (
    b"",
    b"{",
    b"null",
    b"[]",
    b'{"source": null}',
    b'{"source": "clip", "name": "../x"}',
    b'{"source": "\\ud800"}',
    b'{"source": "' + b"x" * 70000 + b'"}',
    b'{"opacity": NaN}',
    b'{"opacity": 1e999, "max_change": -1e999}',
    b'{"mode": {"a": [1, 2, {"b": null}]}}',
    b'{"max_change": "0.02"}',
    b'{"token": "\\ud800\\udfff"}',
    b'{"paused": 1}',
    b"[" * 5000,
    b'{"a":' * 3000,
    b"\x00\xff\xfe",
    b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n",
)
HEADERS = (
    {},
    {"Content-Type": "application/json"},
    {"Content-Type": "multipart/form-data; boundary=x"},
    {"Content-Type": "application/json; charset=utf-7"},
    {"Host": "evil.example"},
    {"Host": ""},
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Cookie": "stmg-session-8000=" + "x" * 3000},
    {"Cookie": '"; =;;;=\x01'},
    {"Authorization": "Bearer " + "\xff" * 10},
    {"Authorization": "Basic Zm9vOmJhcg=="},
    {"Content-Length": "-5"},
    {"Content-Length": "99999999999999999999"},
    {"Content-Length": "x"},
    {"Transfer-Encoding": "chunked"},
    {"Transfer-Encoding": "gzip, chunked"},
    {"Expect": "100-continue"},
    {"Range": "bytes=5-1,-,99-"},
    {"Accept-Encoding": "x" * 2000},
    {"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "evil.example"},
    {"X": "y" * 40000},
    {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": "x", "Sec-WebSocket-Version": "13"},
    {"Sec-Fetch-Site": "cross-site"},
)


def ask(address: tuple[str, int], method: str, path: str, headers: dict[str, str], body: bytes) -> int | None:
    """The status of the answer to a request sent as it is; None if the connection is simply closed."""
    host = f"{address[0]}:{address[1]}"
    fields = {"Host": host, "Origin": f"http://{host}", "Content-Length": str(len(body)), **headers}
    if "Transfer-Encoding" in fields and "Content-Length" not in headers:
        del fields["Content-Length"]
    text = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    with socket.create_connection(address, timeout=PATIENCE) as connection:
        try:
            connection.sendall(text.encode("latin-1") + b"Connection: close\r\n\r\n" + body)
            connection.settimeout(2)
            status_line = connection.recv(4096).split(b"\r\n")[0]
        except (ConnectionError, TimeoutError):  # it waits for a body that does not come, or will not hear more
            return None
    return int(status_line.split()[1]) if status_line.startswith(b"HTTP/1.1 ") else None


def test_a_thousand_hostile_requests_do_no_harm(running):
    random.seed(17)
    url = urlsplit(running.url)
    address = (url.hostname, url.port)
    answered = 0
    for _ in range(1000):
        path = random.choice(PATHS).replace("{}", random.choice(NASTY))
        method, body = random.choice(METHODS), random.choice(BODIES)
        headers = random.choice(HEADERS)
        if "Content-Length" in headers or "Transfer-Encoding" in headers or "Expect" in headers:
            body = b"" if random.random() < 0.5 else body
        status = ask(address, method, path, headers, body)
        assert status is None or (200 <= status < 600 and status not in (500, 501, 502)), (method, path[:99], body[:99])
        answered += status is not None
    assert answered > 800
    before = running.get("/api/streams/clip")
    assert before["status"]["state"] == "live"
    running.wait(lambda info: info["figures"]["frame_index"] > before["figures"]["frame_index"] + 5, "clip")
    assert [info["name"] for info in running.get("/api/streams")] == ["clip"]


def test_errors_are_json_with_a_reason_and_no_traceback(running):
    answers = [
        running.client.get("/nowhere"),
        running.client.get("/api/streams/nobody"),
        running.client.patch("/api/streams/clip", content=b"{"),
        running.client.post("/api/streams", content=b'{"source": "\\ud800"}'),
        running.client.put("/api/streams"),
        running.client.get("/api/streams", headers={"host": "evil.example"}),
        running.client.post("/api/streams", content=b"x" * 70000),
        running.client.post("/api/uploads", content=b""),
    ]
    for answer in answers:
        assert 400 <= answer.status_code < 500
        assert answer.headers["content-type"] == "application/json"
        assert isinstance(json.loads(answer.text)["error"], str)
        assert "Traceback" not in answer.text


def test_what_a_bug_raises_stays_inside(running, monkeypatch):
    def fail(*args):
        raise ValueError("secret detail")

    monkeypatch.setattr(type(running.service), "find", fail)
    answer = running.client.get("/api/streams/clip")
    assert answer.status_code == 500
    assert set(answer.json()) == {"error"}
    assert "secret detail" not in answer.text
