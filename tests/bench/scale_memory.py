"""Memory of a server process and its worker processes, sampled while a benchmark runs."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

#: Seconds between two samples.
EVERY = 0.2


def memory(pid: int) -> dict[str, float]:
    """Return the resident memory of a process in MB.

    ``private`` cannot be dropped: RssAnon + RssShmem, because rlpanel's large arrays are anonymous mappings
    that Linux counts as shared memory. ``files`` are resident pages of mapped files, RssFile: libraries and
    saved columns, which the kernel drops when memory is scarce. ``total`` is their sum, VmRSS.
    """
    lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    size = {line[0]: float(line[1]) * 1024 / 1e6 for line in lines if line[0].startswith("Rss")}
    private, files = size["RssAnon:"] + size["RssShmem:"], size["RssFile:"]
    return {"private": private, "files": files, "total": private + files}


def children(pid: int) -> list[int]:
    """Return the ids of a process's children."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            found += map(int, (task / "children").read_text().split())
    return found


class MemoryWatch:
    """Samples the memory of a process and its children until it is stopped.

    Attributes
    ----------
    peak : dict of str to float
        Highest values in MB: ``private`` and ``total`` of the process, ``workers`` of its children together.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._stop = threading.Event()
        self.peak = {"private": 0.0, "total": 0.0, "workers": 0.0}
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stop.wait(EVERY):
            with suppress(OSError, KeyError):  # a worker may end meanwhile
                now = memory(self._pid)
                now["workers"] = sum(memory(child)["private"] for child in children(self._pid))
                self.peak = {name: max(high, now[name]) for name, high in self.peak.items()}
