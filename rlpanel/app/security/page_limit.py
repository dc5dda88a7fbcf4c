"""Limit of open pages: a server that strangers reach must not be filled with them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from rlpanel.app.security.client_network import network_of

#: Seconds after which a refused browser may try again; a page that was closed is gone by then.
RETRY_AFTER = 30
#: Seconds for which an admitted page counts although it is not among the open ones: it may never be.
HELD = 5.0


class PageLimit:
    """Decides whether one more page may be opened.

    Parameters
    ----------
    most : int
        Most pages that are open at once; 0 means without a limit.
    addresses : callable
        Returns the address of the client of each page that is open or being built.
    shared : bool
        Whether one address may have half of the pages only. The addresses must not be those of a proxy.
    held : float
        Seconds for which an admitted page counts although it is not among the open ones.
    """

    def __init__(
        self, most: int, addresses: Callable[[], Collection[str]], shared: bool = False, held: float = HELD
    ) -> None:
        self._most, self._addresses = most, addresses
        self._share = max(1, most // 2) if shared else most
        self._hold = held
        self._held: list[tuple[float, str]] = []

    def admit(self, address: str) -> bool:
        """Return True, and hold a place for the page, if one more may be opened for an address."""
        if not self._most:
            return True
        now, network = time.monotonic(), network_of(address)
        self._held = [(since, of) for since, of in self._held if now - since <= self._hold]
        taken = [*map(network_of, self._addresses()), *(of for _, of in self._held)]
        if len(taken) >= self._most or taken.count(network) >= self._share:
            return False
        self._held.append((now, network))
        return True

    def settle(self, address: str) -> None:
        """Give up the place held for a page of an address, which is among the open ones from now on."""
        network = network_of(address)
        place = next((held for held in self._held if held[1] == network), None)
        if place is not None:
            self._held.remove(place)

    @property
    def sentence(self) -> str:
        """Text for a viewer whose page was refused."""
        return f"This board has {self._most} open pages, which is its limit. Try again in a minute."
