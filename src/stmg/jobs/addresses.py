"""Addresses of videos as they are written down, and by which a video is known at each run: without what is secret."""

from __future__ import annotations

import hashlib
from urllib.parse import urlsplit

from stmg.errors import SettingsError
from stmg.video.addresses import hide_in_text
from stmg.video.readers import VIDEO_SUFFIXES

WEB = ("http://", "https://")


def check_address(source: str) -> None:
    """Refuse a web address whose host or port cannot be read; of other paths and URLs each storage knows its own."""
    if not source.startswith(WEB):
        return
    try:
        parts = urlsplit(source)
        is_valid = bool(parts.hostname) and parts.port != 0
    except ValueError:  # its message may hold a part of a password
        is_valid = False
    if not is_valid:
        raise SettingsError(f"{hide_secrets(source, source)} is no web address; one is like https://host/drives/a.mp4")


def public_address(source: str) -> str:
    """A path or URL as it is; of the web without user name, password and query.

    A query after the name of a video is taken to be a signature, which is another at each run. Elsewhere it may say
    which video is meant, and its hash stays.
    """
    if not source.startswith(WEB):
        return source
    scheme, host, path, query, _ = urlsplit(source)
    address = f"{scheme}://{host.rpartition('@')[2]}{path}"
    return address if not query or path.lower().endswith(VIDEO_SUFFIXES) else f"{address}#{short_hash(query)}"


def short_hash(text: str) -> str:
    """A few letters by which a text is known from others of the same name."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def hide_secrets(text: str, source: str) -> str:
    """A text, such as an error, without the credentials of a web address that it may hold."""
    return hide_in_text(text, [source]) if source.startswith(WEB) else text
