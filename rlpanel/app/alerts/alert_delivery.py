"""Alerts on their way: each goes to a recipient once, is tried until it arrives, and holds nobody up."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from dataclasses import dataclass

from rlpanel.app.alerts.recipients import NotDelivered, Recipient
from rlpanel.sources.files.files import AnyPath
from rlpanel.store.cache.cache_folder import CacheFolder, places, writable_places
from rlpanel.store.cache.user_cache import warn_once

log = logging.getLogger(__name__)

#: Alerts that wait for one recipient at most; others come again at the next look at their run.
ROOM = 100
#: Seconds after a first failure, doubled with each further one, and at most.
PAUSE, LONGEST_PAUSE = 1.0, 300.0
_FILE = "alerts"


class SentAlerts:
    """Which alerts of a run arrived: a file of lines beside its index on disk.

    Parameters
    ----------
    run : path
        The run's folder.
    """

    def __init__(self, run: AnyPath) -> None:
        self._run = run

    def read(self) -> set[str]:
        """What was noted, wherever that could be written."""
        return {line for place in places(self._run) for line in _lines(place)}

    def note(self, line: str) -> None:
        """Note one; where nothing can be written, it is only remembered until the process ends."""
        for folder in writable_places(self._run):
            with folder:
                try:
                    folder.append(_FILE, f"{line}\n".encode("ascii"))
                except OSError as error:
                    warn_once(f"which alerts were sent is not noted there: {error}")
                    continue
            return


@dataclass(frozen=True)
class Alert:
    """One finding to be told of: ``body`` is JSON, ``sent`` says where it is noted as told."""

    id: str
    body: bytes
    sent: SentAlerts


class AlertQueue:
    """The way to one recipient, with a thread of its own.

    Parameters
    ----------
    recipient : Recipient

    Attributes
    ----------
    sent : int
        Alerts that arrived since the channel was made.
    """

    def __init__(self, recipient: Recipient) -> None:
        self.recipient = recipient
        self._waiting: OrderedDict[str, Alert] = OrderedDict()
        self._arrived: set[str] = set()
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._failures = 0  # one after another
        self.sent = 0
        self._thread = threading.Thread(target=self._loop, name="rlpanel-alerts-out", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Alerts that did not arrive yet."""
        return len(self._waiting)

    @property
    def failing(self) -> bool:
        """Whether the last try failed."""
        return self._failures > 0

    def line(self, id: str) -> str:
        """What is noted of an alert with this id that arrived."""
        return f"{self.recipient.id} {id}"

    def offer(self, alert: Alert, noted: set[str]) -> None:
        """Take an alert, unless it arrived or waits already or there is no room; returns at once.

        Parameters
        ----------
        alert : Alert
        noted : set of str
            What `SentAlerts.read` gave for its run.
        """
        with self._changed:
            known = alert.id in self._waiting or alert.id in self._arrived or self.line(alert.id) in noted
            if not known and len(self._waiting) < ROOM:
                self._waiting[alert.id] = alert
                self._changed.notify()

    def stop(self) -> None:
        """End the thread; what waits comes again when the board is started again."""
        self._stopping.set()
        with self._changed:
            self._changed.notify()
        self.recipient.cancel()
        self._thread.join(timeout=0.5)  # a post that hangs is left behind

    def _loop(self) -> None:
        while (alert := self._next()) is not None:
            try:
                self.recipient.send(alert.body)
            except NotDelivered as error:
                self._failed(alert, error)
            except Exception as error:
                log.exception("an alert cannot be sent")
                self._failed(alert, error)
            else:
                self._failures = 0
                self.sent += 1
                alert.sent.note(self.line(alert.id))
                with self._changed:
                    self._arrived.add(alert.id)
                    del self._waiting[alert.id]

    def _next(self) -> Alert | None:
        """The alert that has waited longest; None when it is time to stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._stopping.is_set())
            return None if self._stopping.is_set() else next(iter(self._waiting.values()))

    def _failed(self, alert: Alert, error: Exception) -> None:
        """Wait, and let the others have their turn first: one that is refused must not hold them back."""
        if self._stopping.is_set():
            return
        if not self._failures:
            log.warning("alerts do not reach %s: %s; they are tried again", self.recipient.name, error)
        with self._changed:
            self._waiting.move_to_end(alert.id)
        self._stopping.wait(min(PAUSE * 2**self._failures, LONGEST_PAUSE))
        self._failures = min(self._failures + 1, 30)


def _lines(place: CacheFolder) -> list[str]:
    try:
        with place.open() as folder:
            return folder.read(_FILE).decode("ascii", "replace").splitlines()
    except OSError:
        return []
