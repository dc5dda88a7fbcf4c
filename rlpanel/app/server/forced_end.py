"""Ends the server after SIGINT or SIGTERM, even if its event loop no longer runs.

The loop ends on a signal by itself, and everything is closed in order. A call that does not return, such as
one to a file server that does not answer, would prevent that for ever. So a thread waits as well. Python
writes the number of each signal to a socket at once, before and without the event loop.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)

#: Seconds between a signal and the forced end: the reader saves and closes what it follows meanwhile.
GRACE = 15.0
#: Signals that end the server.
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def forced_end(grace: float = GRACE, end: Callable[[int], object] = os._exit) -> Iterator[None]:
    """End the process if it still runs ``grace`` seconds after one of `SIGNALS` arrived in this block.

    The block itself must install handlers for the signals. It belongs around everything that the main thread
    does, because only that thread can receive signals. Other programs' processes are not affected: nothing is
    watched outside of the block.

    Parameters
    ----------
    grace : float
        Seconds.
    end : callable
        Called with the exit code.
    """
    receiving, sending = socket.socketpair()
    sending.setblocking(False)
    before = signal.set_wakeup_fd(sending.fileno(), warn_on_full_buffer=False)
    watcher = threading.Thread(
        target=_wait, args=(receiving, grace, end), name="rlpanel-forced-end", daemon=True
    )
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        # The thread goes on after a signal: what runs while the interpreter ends may not return, either.
        sending.close()


def _wait(receiving: socket.socket, grace: float, end: Callable[[int], object]) -> None:
    with receiving:
        while number := receiving.recv(1):
            if number[0] in SIGNALS:
                time.sleep(grace)
                log.error("the server did not end within %g s after signal %d: ended now", grace, number[0])
                end(128 + number[0])
                return
