"""Measures how long a server's event loop is occupied, by how late it answers short requests."""

from __future__ import annotations

import http.client
import statistics
import threading
import time
from types import TracebackType
from urllib.parse import urlsplit

#: Seconds between two requests; shorter turns may pass unnoticed.
PAUSE = 0.002
#: An answer that is later than this many ms, beyond the usual time, counts as a turn of another callback.
LATE = 5.0


class Turns:
    """Context manager that asks ``/health`` all the time, on a thread.

    Attributes
    ----------
    longest, total : float
        Milliseconds of the longest turn, and of all turns together.
    """

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)
        self._late: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._usual = 0.0

    def __enter__(self) -> Turns:
        self._usual = statistics.median(self._answer() for _ in range(20))
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._connection.close()

    @property
    def longest(self) -> float:
        """Milliseconds of the longest turn."""
        return max(self._late, default=0.0)

    @property
    def total(self) -> float:
        """Milliseconds of all turns that are longer than `LATE`."""
        return sum(late for late in self._late if late > LATE)

    def _ask(self) -> None:
        while not self._stop.is_set():
            self._late.append(max(0.0, self._answer() - self._usual))
            time.sleep(PAUSE)

    def _answer(self) -> float:
        begin = time.monotonic()
        self._connection.request("GET", "/health")
        self._connection.getresponse().read()
        return 1000 * (time.monotonic() - begin)
