"""Login throttle: slows down clients that guess tokens."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass

from rlpanel.app.security.client_network import network_of

log = logging.getLogger(__name__)

#: Wrong tokens of one address that cost no wait; after them the wait doubles up to `LONGEST` seconds.
FREE, LONGEST = 5, 30.0
#: Wrong tokens of all addresses together within `WINDOW` seconds, after which every guess waits.
MOST, WINDOW = 100, 60.0
#: Addresses that are remembered, and seconds after which one is forgotten.
REMEMBERED, FORGOTTEN = 10_000, 3600.0
#: Addresses that are logged one by one.
LOGGED = 100


@dataclass
class _Failures:
    count: int = 0
    last: float = 0.0


class LoginThrottle:
    """Counts wrong tokens per address and in total, and computes how long the next attempt must wait.

    Parameters
    ----------
    clock : callable
        Returns seconds; monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._addresses: OrderedDict[str, _Failures] = OrderedDict()
        self._recent: deque[float] = deque(maxlen=MOST)
        self._logged = 0

    def wait(self, address: str) -> float:
        """Return the seconds before this address may try again; 0 if it may try now."""
        now = self._clock()
        failures = self._addresses.get(network_of(address), _Failures())
        over = failures.count - FREE
        own = failures.last + min(2.0 ** min(over, 10), LONGEST) - now if over >= 0 else 0.0
        crowded = len(self._recent) == MOST and now - self._recent[0] < WINDOW
        total = self._recent[0] + WINDOW - now if crowded else 0.0
        return max(own, total, 0.0)

    def failed(self, address: str) -> None:
        """Count a wrong token; the first one of an address is logged, the following ones are not."""
        now, key = self._clock(), network_of(address)
        failures = self._addresses.get(key)
        if failures is None or now - failures.last > FORGOTTEN:
            failures = self._addresses[key] = _Failures()
            self._log(key)
        failures.count += 1
        failures.last = now
        self._addresses.move_to_end(key)
        while len(self._addresses) > REMEMBERED:
            self._addresses.popitem(last=False)
        self._recent.append(now)

    def succeeded(self, address: str) -> None:
        """Forget the wrong tokens of an address that brought the right one."""
        self._addresses.pop(network_of(address), None)

    def _log(self, key: str) -> None:
        self._logged += 1
        if self._logged <= LOGGED:
            log.warning("wrong token from %s; further wrong tokens of this address are not logged", key)
        if self._logged == LOGGED:
            log.warning("wrong tokens came from %d addresses; further addresses are not logged", LOGGED)
