"""Keeps bytes of remote files that were fetched before they are read, up to a limit."""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterable

from rlpanel.sources.files.remote_entries import Stamp
from rlpanel.sources.files.storage_requests import Span

#: Most bytes of all pieces together; the oldest go first.
MAX_BYTES = 64 << 20
#: Ranges of a file with at most so many bytes between them are requested as one.
GAP = 32 << 10


def merged(spans: Iterable[Span]) -> list[Span]:
    """Return the ranges, those of one file that are close to each other as one."""
    by_url: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        if span.end > span.start:
            by_url[span.url].append(span)
    found: list[Span] = []
    for url, mine in by_url.items():
        first, *others = sorted(mine)
        for span in others:
            if span.start > first.end + GAP:
                found.append(first)
                first = span
            else:
                first = Span(url, first.start, max(first.end, span.end))
        found.append(first)
    return found


class FetchedPieces:
    """Ranges of files by URL, each of one version of its file."""

    def __init__(self) -> None:
        self._pieces: OrderedDict[tuple[str, int], tuple[Stamp, bytes]] = OrderedDict()
        self._starts: dict[str, set[int]] = defaultdict(set)
        self._bytes = 0
        self._lock = threading.Lock()

    def add(self, url: str, stamp: Stamp, start: int, data: bytes) -> None:
        """Keep a range."""
        with self._lock:
            self._drop(url, start)
            self._pieces[url, start] = stamp, data
            self._starts[url].add(start)
            self._bytes += len(data)
            while self._bytes > MAX_BYTES and len(self._pieces) > 1:
                self._drop(*next(iter(self._pieces)))

    def get(self, url: str, stamp: Stamp, start: int, length: int) -> bytes | None:
        """Return bytes of this version of a file; None if no piece has all of them."""
        with self._lock:
            for first in self._starts.get(url, ()):
                its_stamp, data = self._pieces[url, first]
                if its_stamp == stamp and first <= start and start + length <= first + len(data):
                    return data[start - first : start - first + length]
        return None

    def clear(self) -> None:
        """Drop all."""
        with self._lock:
            self._pieces.clear()
            self._starts.clear()
            self._bytes = 0

    def _drop(self, url: str, start: int) -> None:
        found = self._pieces.pop((url, start), None)
        if found is not None:
            self._bytes -= len(found[1])
            self._starts[url].discard(start)
            if not self._starts[url]:
                del self._starts[url]
