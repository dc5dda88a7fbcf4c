"""Fetches the bytes of many remote files at once before they are read, and says whether any has changed."""

from __future__ import annotations

import time

from rlpanel.sources.files.file_access import (
    AnyPath,
    drop_fetched,
    fetch_ahead,
    is_remote,
    listing_version,
)
from rlpanel.sources.files.storage_requests import Span
from rlpanel.store.index.run_files import RunFile, RunFiles

#: Most files whose bytes are fetched at the same time, and most bytes.
AT_ONCE, MAX_BYTES = 1024, 32 << 20
#: Seconds after which the files are looked at although no listing has changed, and most share of such looks.
LOOK_AGAIN, SHARE = 15.0, 0.05


class RemoteFetch:
    """Fetches what the next turns of a run's files will read.

    Parameters
    ----------
    path : path
        The run's folder.
    files : RunFiles
    budget : int
        Most bytes that are read of a file in one turn.
    """

    def __init__(self, path: AnyPath, files: RunFiles, budget: int) -> None:
        self._path, self._files, self._budget = path, files, budget
        self._fetched: set[int] = set()
        self._version, self._looked, self._look_again = -1, 0.0, LOOK_AGAIN

    @classmethod
    def of(cls, path: AnyPath, files: RunFiles, budget: int) -> RemoteFetch | None:
        """Return the fetcher of a run; None for a run on this machine."""
        return cls(path, files, budget) if is_remote(path) else None

    def is_same(self) -> bool:
        """Return True if the listings show what they showed at the last call that returned False.

        It is False if a listing fails, and every `LOOK_AGAIN` seconds, or less often where looks take long.
        """
        try:
            version = listing_version(self._path)
        except OSError:
            version = -1
        now = time.monotonic()
        if version >= 0 and version == self._version and now < self._looked + self._look_again:
            return True
        self._version, self._looked = version, now
        return False

    def note_look(self) -> None:
        """Note that the files were looked at, after `is_same` returned False: that takes long if many."""
        self._look_again = max(LOOK_AGAIN, (time.monotonic() - self._looked) / SHARE)

    def before(self, file: RunFile) -> None:
        """Fetch the bytes of a file whose turn it is, and of those that follow, unless that was done."""
        if file.number not in self._fetched:
            self._fetch([file, *self._files.upcoming(AT_ONCE - 1)])
        self._fetched.discard(file.number)

    def end(self) -> None:
        """Free what was fetched and not read, once no file has unread lines."""
        if self._fetched and not self._files.has_waiting:
            self._fetched.clear()
            drop_fetched(self._path)

    def _fetch(self, files: list[RunFile]) -> None:
        spans: list[Span] = []
        self._fetched, left = set(), MAX_BYTES
        for file in files:
            wanted = file.reader.tail.next_spans(self._budget)
            left -= sum(span.end - span.start for span in wanted)
            if left < 0 and spans:
                break
            spans += wanted
            self._fetched.add(file.number)
        fetch_ahead(spans)
