"""Addresses of videos and streams: their suffixes, and how to show them without user names, passwords and queries."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from stmg.errors import SettingsError

HIDDEN = "…"
WEB = ("http://", "https://")
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp")
VIDEO_SUFFIXES = (
    *(".3gp", ".avi", ".flv", ".m2ts", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg"),
    *(".mpg", ".mts", ".mxf", ".ogv", ".ts", ".webm", ".wmv", ".y4m"),
)


def hide_credentials(address: str) -> str:
    """Remove user name, password, query and fragment from an address. Other text is returned unchanged.

    In a malformed address, such as one with a `/` or a space in its password, more is hidden, never less.
    """
    scheme, separator, rest = address.partition("://")
    if not separator:
        return address
    before, _, after = rest.rpartition("@")
    if re.search("[?#]", before):  # a ? in the password or an @ in the query: no part is certain to be public
        return f"{scheme}://{HIDDEN}"
    # Some cameras have user and password in the path: rtsp://host/user=me&password=secret
    public = re.split(r"[?#&;=\s]", after)[0]
    return f"{scheme}://{public}"


def hide_in_text(text: str, addresses: Iterable[str] = ()) -> str:
    """Remove credentials from the addresses in a text, such as an error.

    addresses: known ones that it may contain. Unknown ones are assumed to end at the next space, so a part may remain.
    """
    for address in sorted(addresses, key=len, reverse=True):  # one may be a prefix of another
        if "://" in address:
            for written in (address, repr(address)[1:-1]):
                text = text.replace(written, hide_credentials(address))
    return re.sub(r"[a-zA-Z][a-zA-Z0-9+.-]*://\S+", lambda found: hide_credentials(found[0]), text)


def check_web_address(source: str) -> None:
    """Raise for a web address whose host or port cannot be read. Other paths and URLs are checked by their storage."""
    if not source.startswith(WEB):
        return
    try:
        parts = urlsplit(source)
        is_valid = bool(parts.hostname) and parts.port != 0
    except ValueError:  # its message may contain a part of a password
        is_valid = False
    if not is_valid:
        raise SettingsError(f"{hide_secrets(source, source)} is not a web address; give one like https://host/a.mp4")


def public_address(source: str) -> str:
    """A path or URL that identifies a video in every run, without user name, password and query of web addresses.

    A query after the name of a video is assumed to be a signature, which differs in each run. Any other query may
    select the video, so its hash is kept.
    """
    if not source.startswith(WEB):
        return source
    scheme, host, path, query, _ = urlsplit(source)
    address = f"{scheme}://{host.rpartition('@')[2]}{path}"
    return address if not query or path.lower().endswith(VIDEO_SUFFIXES) else f"{address}#{short_hash(query)}"


def hide_secrets(text: str, source: str) -> str:
    """Remove the credentials of a source at a web address from a text, such as an error."""
    return hide_in_text(text, [source]) if source.startswith(WEB) else text


def short_hash(text: str) -> str:
    """Eight hexadecimal digits that distinguish texts."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]
