"""Random names that only a page's viewer gets: addresses of its media, and codes for an agent."""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from rlpanel.board_url import shown_view, write_query
from rlpanel.errors import SettingError
from rlpanel.store.query.sample_media import PlayableMedium

# -- media addresses -----------------------------------------------------------------------------------
# Addresses of audio and video that pages have been shown: random names, which end with the page's session.
#
# A request cannot name a file, a run or a sample. It names a random token, which the server made when a page
# asked for a medium of the sample that it shows.


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


# -- page codes ----------------------------------------------------------------------------------------
# Codes by which an agent may move an open page: a viewer asks for one on the page, and gives it away.
#
# A code belongs to one page. It ends with the page's session, after an hour, or when the viewer asks for
# another one or ends it. Wrong codes are counted over all clients, so that none can be guessed.


#: Letters of a code, without those that look alike; 8 of them are 39 bits.
_LETTERS, _LENGTH = "23456789ABCDEFGHJKMNPQRSTUVWXYZ", 8
#: Seconds for which a code is valid.
EXPIRES = 3600.0
#: Wrong codes within a number of seconds after which every code is refused.
MAX_WRONG, WINDOW = 20, 60.0


class WrongCode(SettingError):
    """No open page has this code."""


class TooManyCodes(SettingError):
    """So many wrong codes came that all are refused for a while."""


@dataclass(frozen=True)
class _Given:
    code: str
    until: float
    show: Callable[[Mapping[str, Any]], object]


class PageCodes:
    """The codes of all pages of a server. Thread-safe.

    Parameters
    ----------
    clock : callable
        Returns seconds; monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._given: dict[Hashable, _Given] = {}
        self._wrong: deque[float] = deque(maxlen=MAX_WRONG)

    def give(self, page: Hashable, show: Callable[[Mapping[str, Any]], object]) -> str:
        """Return a new code of a page; its older one is no longer valid.

        Parameters
        ----------
        page : hashable
        show : callable
            Called on any thread with parameters of the selection.
        """
        code = "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
        with self._lock:
            self._given[page] = _Given(code, self._clock() + EXPIRES, show)
        return f"{code[:4]}-{code[4:]}"

    def end(self, page: Hashable) -> None:
        """Make the code of a page invalid."""
        with self._lock:
            self._given.pop(page, None)

    def show(self, address: str, code: str) -> str:
        """Move the page of a code to an address, and return the address without its host.

        Raises
        ------
        TooManyCodes
            If too many wrong codes came within a minute.
        WrongCode
            If no open page has this code.
        SettingError
            If the address is not valid; the message names the part.
        """
        given = self._page_of(code)
        values = shown_view(address)
        given.show(values)
        return write_query({"follow": False, **values}) or "?"

    def _page_of(self, code: str) -> _Given:
        wanted = "".join(code.split()).replace("-", "").upper().encode("utf-8", "replace")
        with self._lock:
            now = self._clock()
            if len(self._wrong) == MAX_WRONG and now - self._wrong[0] < WINDOW:
                raise TooManyCodes("too many wrong codes came; wait a minute")
            self._given = {page: each for page, each in self._given.items() if now < each.until}
            for each in self._given.values():
                if hmac.compare_digest(each.code.encode(), wanted):
                    return each
            self._wrong.append(now)
        raise WrongCode("no open page has this code: it ended, or it is wrong; ask the viewer for a new one")
