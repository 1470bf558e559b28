"""Addresses of streams without what must not be shown: user names, passwords, queries."""

from __future__ import annotations

import re
from collections.abc import Iterable

HIDDEN = "…"


def hide_credentials(address: str) -> str:
    """A whole address without user name, password, query and fragment; what is no address stays as it is.

    It may be malformed, as with a `/` or a space in its password: then more is hidden, never less.
    """
    scheme, separator, rest = address.partition("://")
    if not separator:
        return address
    before, _, after = rest.rpartition("@")
    if re.search("[?#]", before):  # a password with a ? in it, or a query with an @: no part is sure to be public
        return f"{scheme}://{HIDDEN}"
    # Some cameras take user and password in the path: rtsp://host/user=me&password=secret
    public = re.split(r"[?#&;=\s]", after)[0]
    return f"{scheme}://{public}"


def hide_in_text(text: str, addresses: Iterable[str] = ()) -> str:
    """A text, such as an error, without the credentials of the addresses in it.

    addresses: those that it may hold; of others, which are taken to end at the next space, a part may be left.
    """
    for address in sorted(addresses, key=len, reverse=True):  # one may be the beginning of another
        if "://" in address:
            for written in (address, repr(address)[1:-1]):
                text = text.replace(written, hide_credentials(address))
    return re.sub(r"[a-zA-Z][a-zA-Z0-9+.-]*://\S+", lambda found: hide_credentials(found[0]), text)
