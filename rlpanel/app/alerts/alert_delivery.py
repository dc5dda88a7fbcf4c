"""Delivery queues of alerts: each alert reaches a recipient once and is retried until it arrives.

Each recipient has its own queue and thread, so that a slow recipient does not delay the others.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from dataclasses import dataclass

from rlpanel.app.alerts.recipients import NotDelivered, Recipient
from rlpanel.sources.files.file_access import AnyPath
from rlpanel.store.cache.cache_folder import (
    CacheFolder,
    find_cache_folders,
    open_writable_folders,
    read_saved,
)
from rlpanel.store.cache.user_cache import warn_once

log = logging.getLogger(__name__)

#: Capacity of a recipient's queue; further alerts are offered again at the next check of their run.
ROOM = 100
#: Seconds of pause after a first failure, and the longest pause; it doubles with each further failure.
PAUSE, LONGEST_PAUSE = 1.0, 300.0
_FILE = "alerts"
#: Most bytes of that file; a line has about a hundred.
_MOST_BYTES = 16 << 20


class SentAlerts:
    """Log of the alerts of a run that were delivered: a text file beside the run's cached index.

    Parameters
    ----------
    run : path
        The run's folder.
    """

    def __init__(self, run: AnyPath) -> None:
        self._run = run

    def read(self) -> set[str]:
        """Return the logged lines of all folders in which the log may have been written."""
        return {line for folder in find_cache_folders(self._run) for line in _lines(folder)}

    def note(self, line: str) -> None:
        """Append a line to the log; without a writable folder the delivery is remembered in memory only."""
        for folder in open_writable_folders(self._run):
            with folder:
                try:
                    folder.append(_FILE, f"{line}\n".encode("ascii"))
                except OSError as error:
                    warn_once(f"sent alerts cannot be recorded: {error}")
                    continue
            return


@dataclass(frozen=True)
class Alert:
    """A finding to be sent: ``body`` is its JSON, ``sent`` is the log that records its delivery."""

    id: str
    body: bytes
    sent: SentAlerts


class AlertQueue:
    """Queue of alerts for one recipient, delivered by its own thread.

    Parameters
    ----------
    recipient : Recipient

    Attributes
    ----------
    sent : int
        Number of alerts delivered since the queue was created.
    """

    def __init__(self, recipient: Recipient) -> None:
        self.recipient = recipient
        self._waiting: OrderedDict[str, Alert] = OrderedDict()
        self._delivered: set[str] = set()
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._failures = 0  # consecutive failures
        self.sent = 0
        self._thread = threading.Thread(target=self._loop, name="rlpanel-alerts-out", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of alerts that were not delivered yet."""
        return len(self._waiting)

    @property
    def failing(self) -> bool:
        """True if the last attempt failed."""
        return self._failures > 0

    def line(self, id: str) -> str:
        """Return the line that `SentAlerts` records for a delivered alert."""
        return f"{self.recipient.id} {id}"

    def offer(self, alert: Alert, noted: set[str]) -> None:
        """Queue an alert, unless it was delivered, is already queued or the queue is full; never blocks.

        Parameters
        ----------
        alert : Alert
        noted : set of str
            The result of `SentAlerts.read` for its run.
        """
        with self._changed:
            queued = alert.id in self._waiting
            delivered = alert.id in self._delivered or self.line(alert.id) in noted
            if not queued and not delivered and len(self._waiting) < ROOM:
                self._waiting[alert.id] = alert
                self._changed.notify()

    def stop(self) -> None:
        """Stop the thread; queued alerts are offered again when the board is restarted."""
        self._stopping.set()
        with self._changed:
            self._changed.notify()
        self.recipient.cancel()
        self._thread.join(timeout=0.5)  # do not wait for a request that hangs

    def _loop(self) -> None:
        while (alert := self._next()) is not None:
            try:
                self.recipient.send(alert.body)
            except NotDelivered as error:
                self._postpone(alert, error)
            except Exception as error:
                log.exception("an alert could not be sent")
                self._postpone(alert, error)
            else:
                self._failures = 0
                self.sent += 1
                alert.sent.note(self.line(alert.id))
                with self._changed:
                    self._delivered.add(alert.id)
                    del self._waiting[alert.id]

    def _next(self) -> Alert | None:
        """Wait for and return the first alert of the queue; None after `stop`."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._stopping.is_set())
            return None if self._stopping.is_set() else next(iter(self._waiting.values()))

    def _postpone(self, alert: Alert, error: Exception) -> None:
        """Move an alert to the end of the queue and pause: one that is refused must not block the others."""
        if self._stopping.is_set():
            return
        if not self._failures:
            log.warning("alerts do not reach %s: %s; delivery is retried", self.recipient.name, error)
        with self._changed:
            self._waiting.move_to_end(alert.id)
        self._stopping.wait(min(PAUSE * 2**self._failures, LONGEST_PAUSE))
        self._failures = min(self._failures + 1, 30)


def _lines(cache: CacheFolder) -> list[str]:
    try:
        with cache.open() as folder:
            return read_saved(folder, _FILE, _MOST_BYTES).decode("ascii", "replace").splitlines()
    except OSError:
        return []
