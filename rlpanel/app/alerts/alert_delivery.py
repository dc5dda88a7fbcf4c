"""Delivery queues of alerts: each alert reaches a recipient once and is retried until it arrives.

Only this process remembers what was delivered. After a restart, the findings that last are sent again with
the same id: an alert that comes twice does less harm than one that never comes.

Each recipient has its own queue and thread, so that a slow recipient does not delay the others.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from dataclasses import dataclass

from rlpanel.app.alerts.recipients import NotDelivered, Recipient

log = logging.getLogger(__name__)

#: Capacity of a recipient's queue; further alerts are offered again at the next check of their run.
ROOM = 100
#: Seconds of pause after a first failure, and the longest pause; it doubles with each further failure.
PAUSE, LONGEST_PAUSE = 1.0, 300.0


@dataclass(frozen=True)
class Alert:
    """A finding to be sent; ``body`` is its JSON."""

    id: str
    body: bytes


class AlertQueue:
    """Queue of alerts for one recipient, delivered by its own thread.

    Parameters
    ----------
    recipient : Recipient
    room : int
        Capacity; further alerts are not queued.
    pause : float
        Seconds after a first failure.

    Attributes
    ----------
    sent : int
        Number of alerts delivered since the queue was created.
    """

    def __init__(self, recipient: Recipient, *, room: int = ROOM, pause: float = PAUSE) -> None:
        self.recipient = recipient
        self._room, self._pause = room, pause
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

    def offer(self, alert: Alert) -> None:
        """Queue an alert, unless it was delivered, is already queued or the queue is full; never blocks."""
        with self._changed:
            known = alert.id in self._waiting or alert.id in self._delivered
            if not known and len(self._waiting) < self._room:
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
        self._stopping.wait(min(self._pause * 2**self._failures, LONGEST_PAUSE))
        self._failures = min(self._failures + 1, 30)
