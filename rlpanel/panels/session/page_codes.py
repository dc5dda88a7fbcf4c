"""Codes by which an agent may move an open page: a viewer asks for one on the page, and gives it away.

A code belongs to one page. It ends with the page's session, after an hour, or when the viewer asks for
another one or ends it. Wrong codes are counted over all clients, so that none can be guessed.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from rlpanel.board_url import shown_view, write_query
from rlpanel.errors import SettingError

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
