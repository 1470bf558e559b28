"""Access checks: host, origin, token."""

import pytest

from stmg.serve.config import ServeConfig, StreamConfig
from stmg.serve.safety import MAX_GUESSES, Guard, RefusedError

STREAM = StreamConfig(name="one", source="street:1")
TOKEN = "correct horse"
HOST = {"host": "127.0.0.1:8000"}
SAME = {**HOST, "origin": "http://127.0.0.1:8000"}


def make_guard(**fields):
    return Guard(ServeConfig(streams=(STREAM,), **fields))


def status(guard, method, path, headers, address="10.0.0.9"):
    try:
        guard.check(method, path, headers, address)
    except RefusedError as refused:
        return refused.status
    return 200


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1:8000", 200),
        ("localhost", 200),
        ("LOCALHOST:80", 200),
        ("[::1]:8000", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example:8000", 421),
        ("192.168.0.4", 421),
        ("", 421),
    ],
)
def test_on_loopback_only_its_names_are_answered(host, expected):
    """A name of somebody else's that leads here is how a page elsewhere would read ours (DNS rebinding)."""
    assert status(make_guard(), "GET", "/api/streams", {"host": host}) == expected


def test_on_other_addresses_names_have_to_be_listed():
    guard = make_guard(host="0.0.0.0", insecure=True, hosts=("cams.lan",))
    assert status(guard, "GET", "/", {"host": "192.168.0.4:8000"}) == 200
    assert status(guard, "GET", "/", {"host": "cams.lan:8000"}) == 200
    assert status(guard, "GET", "/", {"host": "evil.example"}) == 421


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE"])
def test_a_change_needs_the_same_origin_or_the_token(method):
    guard = make_guard(token=TOKEN)
    bearer = {"authorization": f"Bearer {TOKEN}"}
    assert status(make_guard(), method, "/api/streams", SAME) == 200
    assert status(make_guard(), method, "/api/streams", HOST) == 403
    assert status(make_guard(), method, "/api/streams", {**HOST, "origin": "http://evil.example"}) == 403
    assert status(make_guard(), method, "/api/streams", {**HOST, "origin": "http://127.0.0.1:9000"}) == 403
    assert status(make_guard(), method, "/api/streams", {**HOST, "origin": "null"}) == 403
    assert status(guard, method, "/api/streams", {**HOST, **bearer}) == 200
    assert status(guard, method, "/api/streams", SAME) == 401
    assert status(guard, method, "/api/streams", {**SAME, "authorization": "Bearer wrong"}) == 401


def test_pages_elsewhere_may_read_nothing_but_may_link_here():
    guard = make_guard()
    assert status(guard, "GET", "/api/streams", {**HOST, "sec-fetch-site": "cross-site"}) == 403
    assert status(guard, "GET", "/api/streams", {**HOST, "origin": "http://evil.example"}) == 403
    assert status(guard, "GET", "/", {**HOST, "sec-fetch-site": "cross-site"}) == 200


@pytest.mark.parametrize("method", ["PUT", "OPTIONS", "TRACE", "CONNECT", "BREW", ""])
def test_other_methods_are_refused(method):
    assert status(make_guard(), method, "/", SAME) == 405


def test_with_a_token_all_but_the_page_and_health_needs_it():
    guard = make_guard(token=TOKEN)
    for path in ("/", "/page/app.js", "/healthz", "/readyz"):
        assert status(guard, "GET", path, HOST) == 200
    for path in ("/api/streams", "/metrics", "/api/openapi.json", "/api/events", "/pages", "/api/session/x"):
        assert status(guard, "GET", path, HOST) == 401
        assert status(guard, "GET", path, {**HOST, "authorization": f"Bearer {TOKEN}"}) == 200


def test_a_session_stands_for_the_token_but_is_not_the_token():
    guard = make_guard(token=TOKEN)
    session = guard.open_session(TOKEN, "10.0.0.9")
    assert TOKEN not in session
    cookie = {"cookie": f"other=1; {guard.cookie}={session}"}
    assert status(guard, "GET", "/api/streams", {**HOST, **cookie}) == 200
    assert status(guard, "POST", "/api/streams", {**SAME, **cookie}) == 200
    assert status(guard, "POST", "/api/streams", {**HOST, **cookie}) == 403  # a form on another site sends it too
    assert status(guard, "GET", "/api/streams", {**HOST, "cookie": f"{guard.cookie}=made-up"}) == 401


def test_a_browser_is_logged_in_to_several_servers_of_one_host():
    guards = [make_guard(token=token, port=port) for token, port in ((TOKEN, 8000), ("another horse", 8001))]
    sessions = {
        guard.cookie: guard.open_session(token, "10.0.0.9")
        for guard, token in zip(guards, (TOKEN, "another horse"), strict=True)
    }
    cookies = {"cookie": "; ".join(f"{name}={session}" for name, session in sessions.items())}
    assert [status(guard, "GET", "/api/streams", {**HOST, **cookies}) for guard in guards] == [200, 200]


def test_who_guesses_tokens_is_no_longer_answered_and_others_are():
    guard = make_guard(token=TOKEN)
    for number in range(MAX_GUESSES):
        assert status(guard, "GET", "/metrics", {**HOST, "authorization": f"Bearer {number}"}) == 401
    right = {**HOST, "authorization": f"Bearer {TOKEN}"}
    assert status(guard, "GET", "/metrics", right) == 429
    assert status(guard, "GET", "/metrics", right, address="10.0.0.10") == 200
    with pytest.raises(RefusedError, match="too many"):
        guard.open_session(TOKEN, "10.0.0.9")
