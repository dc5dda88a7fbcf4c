"""The server as a service: its background tasks, the service manager, and its end.

Background service of the server: follows growing runs and sends alerts about them.

Reports to systemd that the server is ready, and that its event loop runs (sd_notify).

systemd sets the variable ``NOTIFY_SOCKET`` for a unit of ``Type=notify``, and ``WATCHDOG_USEC`` for one with
``WatchdogSec``. Without them nothing is sent.

Ends the server after SIGINT or SIGTERM, even if its event loop no longer runs.

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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

from tornado.ioloop import IOLoop, PeriodicCallback

from rlpanel.app.alerts.alert_delivery import from_settings
from rlpanel.app.alerts.alert_watcher import AlertWatcher, LiveChecks, LiveRuns
from rlpanel.errors import SettingError
from rlpanel.runtime import Runtime
from rlpanel.settings import Alerts, Watching
from rlpanel.sources.files.file_access import AnyPath


class Service(NamedTuple):
    """The running background tasks; None for a task that does not run.

    Attributes
    ----------
    live : LiveRuns or None
        Follows the growing runs.
    alerts : AlertWatcher or None
        Sends their findings.
    """

    live: LiveRuns | None = None
    alerts: AlertWatcher | None = None


@contextmanager
def service(runtime: Runtime, root: AnyPath, board: str) -> Iterator[Service]:
    """Follow runs and send alerts, as configured, for the duration of the ``with`` block.

    Parameters
    ----------
    runtime : Runtime
    root : path
        The folder that holds the runs; it may be created later.
    board : str
        URL of the board, for links in alerts.

    Raises
    ------
    SettingError
        If a recipient is not valid, or alerts are configured together with ``--no-watch``.
    """
    settings = Alerts.from_environment()
    recipients = from_settings(settings)
    watch = Watching.from_environment().watch
    if recipients and watch is False:
        raise SettingError("alerts require that runs are followed: remove --no-watch, or the alert settings")
    if not (recipients or watch):
        yield Service()
        return
    live = LiveRuns(runtime.reader, root, runtime.limits.live_runs)
    alerts = AlertWatcher(live, recipients, settings, board) if recipients else None
    if alerts is None:
        live.listen(LiveChecks().check)
    live.start()
    try:
        yield Service(live, alerts)
    finally:
        live.stop()
        if alerts is not None:
            alerts.stop()


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
