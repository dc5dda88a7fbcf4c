"""Reports to systemd that the server is ready, and that its event loop runs (sd_notify).

systemd sets the variable ``NOTIFY_SOCKET`` for a unit of ``Type=notify``, and ``WATCHDOG_USEC`` for one with
``WatchdogSec``. Without them nothing is sent.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from tornado.ioloop import IOLoop, PeriodicCallback


@contextmanager
def reported_state(loop: IOLoop, environment: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Report the state of the server while its event loop runs in the ``with`` block.

    Parameters
    ----------
    loop : IOLoop
        The loop that is about to run; each signal of life is sent by it.
    environment : mapping
        Environment variables.
    """
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        yield
        return
    loop.add_callback(_send, address, "READY=1")
    interval = _interval(environment)
    alive = PeriodicCallback(lambda: _send(address, "WATCHDOG=1"), interval) if interval else None
    if alive is not None:
        alive.start()
    try:
        yield
    finally:
        if alive is not None:
            alive.stop()
        _send(address, "STOPPING=1")


def _interval(environment: Mapping[str, str]) -> float:
    """Return the milliseconds between two signals of life, half of the limit; 0 if there is no limit."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    with suppress(ValueError):
        return max(int(environment.get("WATCHDOG_USEC", "0")), 0) / 2000
    return 0.0


def _send(address: str, state: str) -> None:
    """Send a state; it is left out if systemd does not receive it at once."""
    if address.startswith("@"):  # a socket without a file
        address = "\0" + address[1:]
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
        connection.setblocking(False)
        connection.sendto(state.encode(), address)
