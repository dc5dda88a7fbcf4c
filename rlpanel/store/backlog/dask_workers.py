"""Other machines that index ranges: the workers of a dask cluster, in the place of processes here.

They run what a process here runs, `index_chunk`, so the pieces merge into the same
index. A worker that dies loses its range to another one; what no worker could read is read here. distributed
is imported when a scheduler is named.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock
from typing import Any

from rlpanel.errors import RLPanelError
from rlpanel.store.backlog.range_reader import ByteRange, RangeResult, index_chunk
from rlpanel.store.backlog.workers import WorkerDied
from rlpanel.store.cache.fingerprint import of_reading

#: Seconds for a scheduler to answer.
PATIENCE = "15s"
_OTHER = "a worker of the cluster has another version of rlpanel: install the same one everywhere"

log = logging.getLogger(__name__)


class ClusterError(RLPanelError, RuntimeError):
    """A cluster that cannot help; the message says what to do."""


def index_there(where: ByteRange, code: str) -> RangeResult:
    """A range's piece, made by a worker; it must make rows as whoever asks does.

    Raises
    ------
    ClusterError
        If the worker has another version of rlpanel.
    """
    if of_reading() != code:
        raise ClusterError(_OTHER)
    return index_chunk(where)


class DaskWorkers:
    """The workers of a dask scheduler; see `rlpanel.store.backlog.workers.Workers`.

    Parameters
    ----------
    address : str
        The scheduler's, for example ``tcp://10.0.0.1:8786``.
    wake : callable
        Called on some thread when a range is done; must return at once.

    Attributes
    ----------
    jobs : int
        Ranges that the workers index at a time.
    refused : int
        Ranges that no worker could index; they are read here.
    """

    def __init__(self, address: str, wake: Callable[[], None] = lambda: None) -> None:
        self._address, self.wake = address, wake
        self._client = _client(address)
        self._lock = Lock()
        self.refused = 0
        try:
            self.jobs = sum(self._client.nthreads().values())
            self._check()
        except BaseException:
            self.rest()
            raise

    def submit(self, where: ByteRange) -> Future[RangeResult]:
        """Index a range on some worker; the result raises `WorkerDied` where none could."""
        asked: Future[RangeResult] = Future()
        there = self._client.submit(index_there, where, of_reading(), pure=False)
        there.add_done_callback(lambda done: self._done(done, asked, where))
        return asked

    def rest(self) -> None:
        """Leave the cluster; its workers stay."""
        self._client.close(timeout=2)

    def _check(self) -> None:
        if not self.jobs:
            raise ClusterError(f"the scheduler has no workers yet; start some: dask worker {self._address}")
        try:
            codes = set(self._client.run(of_reading).values())
        except ImportError as error:
            raise ClusterError(f"the workers of {self._address} have no rlpanel: install it there") from error
        if codes != {of_reading()}:
            raise ClusterError(_OTHER)

    def _done(self, there: Any, asked: Future[RangeResult], where: ByteRange) -> None:
        """Hand on what a worker answered."""
        if not asked.set_running_or_notify_cancel():
            return
        try:
            asked.set_result(there.result())
        except Exception as error:  # its workers died over it, or do not see the file
            with self._lock:
                self.refused += 1
                first = self.refused == 1
            if first:
                log.warning("%s: read here, as no worker of %s could: %s", where.name, self._address, error)
            asked.set_exception(WorkerDied(f"{where.name}: {error}"))
        self.wake()


def _client(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError as error:
        raise ClusterError("a scheduler needs dask.distributed: pip install 'rlpanel[dask]'") from error
    try:
        return Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"no dask scheduler answers at {address}; start one with: dask scheduler ({error})"
        ) from error
