"""Addresses of audio and video that pages have been shown: random names, which end with the page's session.

A request cannot name a file, a run or a sample. It names a random token, which the server made when a page
asked for a medium of the sample that it shows.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Hashable

from rlpanel.store.query.sample_media import PlayableMedium

#: Path of the server's route, and of the addresses below the page's own.
PATH = "media"
#: Bytes of a token, and addresses of one page that are valid at a time.
_BYTES, _MAX_ADDRESSES = 32, 500


class MediaAddresses:
    """The addresses of all pages of a server. Thread-safe.

    Attributes
    ----------
    served : bool
        Whether this process's server has the route. Under ``panel serve`` and in notebooks it has not.
    """

    def __init__(self) -> None:
        self.served = False
        self._lock = threading.Lock()
        self._media: dict[str, PlayableMedium] = {}

    def find(self, token: str) -> PlayableMedium | None:
        """Return the medium of a token; None if there is none, or its page was closed."""
        with self._lock:
            return self._media.get(token)

    def add(self, token: str, medium: PlayableMedium) -> None:
        """Make a token valid."""
        with self._lock:
            self._media[token] = medium

    def remove(self, token: str) -> None:
        """Make a token invalid."""
        with self._lock:
            self._media.pop(token, None)


class PageMedia:
    """The addresses of one page. Thread-safe.

    Parameters
    ----------
    addresses : MediaAddresses
        The addresses of all pages, which the server's route looks up.
    """

    def __init__(self, addresses: MediaAddresses) -> None:
        self._all = addresses
        self._lock = threading.Lock()
        self._tokens: OrderedDict[Hashable, str] = OrderedDict()
        self._closed = False

    def address(self, key: Hashable, medium: PlayableMedium) -> str:
        """Return the address of a medium, relative to the page; the same for the same key.

        A page that shows very many media loses the address that it asked for first.
        """
        with self._lock:
            token = self._tokens.setdefault(key, secrets.token_urlsafe(_BYTES))
            if not self._closed:
                self._all.add(token, medium)
            while len(self._tokens) > _MAX_ADDRESSES:
                self._all.remove(self._tokens.popitem(last=False)[1])
        return f"{PATH}/{token}"

    def clear(self) -> None:
        """Make the page's addresses invalid, because it shows another run."""
        with self._lock:
            while self._tokens:
                self._all.remove(self._tokens.popitem()[1])

    def close(self) -> None:
        """Make the page's addresses invalid for good, because its session has ended."""
        with self._lock:
            self._closed = True
        self.clear()
