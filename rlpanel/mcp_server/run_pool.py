"""The runs below the server's folder: found by name, opened when first asked for, and followed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rlpanel.api.open_run import open_listed
from rlpanel.api.run import Run
from rlpanel.errors import NotYetRead, RunNotFound
from rlpanel.runtime import Runtime, default_runtime
from rlpanel.sources.discovery.directory import RunInfo, discover
from rlpanel.sources.files.file_access import AnyPath

#: Runs that stay open; each holds its columns in memory, unless they are mapped from the cache.
_MAX_OPEN = 4
#: Seconds that a call waits for new lines, and for a run that is opened.
_WAIT = 60.0


class RunPool:
    """Opens runs by their names; thread-safe.

    A name is compared with those that were found below the root. It is never used as a path, so that none
    leads out of the root.

    Parameters
    ----------
    root : path
    runtime : Runtime, optional
        Its reader follows the runs. A run that a page of the same runtime shows is not read again. By default
        that of the process.
    """

    def __init__(self, root: AnyPath, runtime: Runtime | None = None) -> None:
        self.root = root
        self._runtime = runtime
        self._lock = threading.Lock()
        self._open: OrderedDict[str, Run] = OrderedDict()
        self._answers = 0

    @property
    def runtime(self) -> Runtime:
        """The runtime of the opened runs."""
        return self._runtime or default_runtime()

    def infos(self) -> list[RunInfo]:
        """Return the runs below the root, the newest first."""
        return discover(self.root)

    def run(self, name: str, split: str = "") -> Run:
        """Return a run, with the lines that are on disk now.

        Parameters
        ----------
        name : str
            Its name as `infos` has it; empty for the newest run.
        split : str
            Only the samples of this split.

        Raises
        ------
        RunNotFound
            If there is no such run; the message lists some names.
        SettingError
            If the run has no such split.
        """
        infos = self.infos()
        found = next((info for info in infos if info.name == name or not name), None)
        if found is None:
            names = ", ".join(repr(info.name) for info in infos[:20]) or "none"
            raise RunNotFound(f"no run {name[:120]!r}; the runs are: {names}. The tool runs lists all.")
        with self._lock:
            run = self._open.pop(found.name, None) or open_listed(found, self.runtime)
            self._open[found.name] = run
            self._close_others()
        with suppress(NotYetRead):  # the answer is about what was read
            run.wait(_WAIT)
        return run.split(split) if split else run

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Keep all runs open for the time of an answer: it may compare more of them than stay open."""
        with self._lock:
            self._answers += 1
        try:
            yield
        finally:
            with self._lock:
                self._answers -= 1
                self._close_others()

    def _close_others(self) -> None:
        """Close the runs that were asked for the longest ago, unless an answer may use them."""
        while not self._answers and len(self._open) > _MAX_OPEN:
            self._open.popitem(last=False)[1].close()

    def close(self) -> None:
        """Close all runs."""
        with self._lock:
            for run in self._open.values():
                run.close()
            self._open.clear()
