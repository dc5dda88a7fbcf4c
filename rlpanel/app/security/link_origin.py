"""Separates addresses that a viewer chose from those to which a page of another site led.

Any web page can send a browser to the board, with a search that takes long. So what costs much in such a link
waits for the viewer.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qs

#: Header by which browsers say who made a request: nobody (a typed address), or a page of the board.
SITE_HEADER, _OWN = "Sec-Fetch-Site", ("none", "same-origin")
#: Argument of an address to which the login leads: the page before the login is not known.
_HELD = "held"


def comes_from_elsewhere(headers: Mapping[str, object], query: str) -> bool:
    """Return whether another site, or the login, led to an address with this query string.

    A request without the header, as of a script, counts as the viewer's own.
    """
    site = headers.get(SITE_HEADER, "none")
    return site not in _OWN or _HELD in parse_qs(query.lstrip("?"))


def after_login(target: str) -> str:
    """Return the address to which the login leads, marked as one that the viewer may not have chosen."""
    return f"{target}&{_HELD}=1" if "?" in target else target
