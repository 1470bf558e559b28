"""Addresses: user names, passwords and queries are never shown."""

from __future__ import annotations

import pytest

from stmg.video.addresses import hide_credentials, hide_in_text

ADDRESSES = {
    "rtsp://user:secret@host:554/live": "rtsp://host:554/live",
    "rtsp://user:sec@secret@host/live": "rtsp://host/live",
    "rtsp://user:se secret@host/": "rtsp://host/",
    "rtsp://user:se/secret@host/": "rtsp://host/",
    "rtsp://user:it's\\secret@host/": "rtsp://host/",
    "rtsp://secret:se?secret@host/": "rtsp://…",
    "RTSP://secret@host/a#secret": "RTSP://host/a",
    "http://host/video?user=me&password=secret": "http://host/video",
    "http://host/a,b/video?token=secret": "http://host/a,b/video",
    "http://host/(1)/x?t=secret": "http://host/(1)/x",
    "http://host/v.cgi?user=a&pwd=ab;secret": "http://host/v.cgi",
    "http://host/v?mail=me@secret.org&t=secret": "http://…",
    "rtsp://host:554/user=secret&password=secret&channel=1.sdp": "rtsp://host:554/user",
    "rtmp://host/app/ pubUser=secret pubPasswd=secret": "rtmp://host/app/",
    "tcp://[::1]:9/x": "tcp://[::1]:9/x",
    "street:1": "street:1",
    "videos/a@b?c.mp4": "videos/a@b?c.mp4",
}


@pytest.mark.parametrize(("address", "shown"), ADDRESSES.items())
def test_credentials_are_taken_out_of_an_address(address: str, shown: str) -> None:
    assert hide_credentials(address) == shown
    assert hide_credentials(shown) == shown


@pytest.mark.parametrize(("address", "shown"), ADDRESSES.items())
def test_credentials_of_a_known_address_are_taken_out_wherever_it_stands(address: str, shown: str) -> None:
    text = f"{address} cannot be opened ({address}), {address!r}"
    hidden = hide_in_text(text, ["rtsp://user:", address, "street:1"])
    assert hidden.startswith(f"{shown} cannot be opened ({shown}")
    assert "secret" not in hidden


@pytest.mark.parametrize("address", [address for address in ADDRESSES if " " not in address])
def test_credentials_of_other_addresses_are_taken_out_of_a_text_too(address: str) -> None:
    hidden = hide_in_text(f"{address} cannot be opened ({address}); check '{address}' again")
    assert "secret" not in hidden
    assert " cannot be opened (" in hidden
    assert hidden.endswith(" again")
