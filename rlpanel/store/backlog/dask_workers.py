"""Indexes ranges on the workers of a dask cluster, instead of in local processes.

They run the same function as local processes, so the index is the same. If a worker dies, dask gives its
range to another one; ranges that no worker can read are read locally. The package distributed is imported
only if a scheduler address is given.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock
from typing import Any

from rlpanel.errors import RLPanelError, install_command
from rlpanel.store.backlog.range_reader import ByteRange, RangeResult, index_range
from rlpanel.store.backlog.workers import WorkerDied
from rlpanel.store.cache.fingerprint import reading_fingerprint

#: Timeout for connecting to the scheduler.
CONNECT_TIMEOUT = "15s"
_OTHER_VERSION = "a worker of the cluster has another version of rlpanel: install the same one everywhere"

log = logging.getLogger(__name__)


class ClusterError(RLPanelError, RuntimeError):
    """The cluster cannot be used; the message says what to do."""


def index_on_worker(byte_range: ByteRange, code: str) -> RangeResult:
    """Index a range on a worker, after checking that its code builds the same rows as the caller's.

    Raises
    ------
    ClusterError
        If the worker has another version of rlpanel.
    """
    if reading_fingerprint() != code:
        raise ClusterError(_OTHER_VERSION)
    return index_range(byte_range)


class DaskWorkers:
    """The workers of a dask scheduler; see `rlpanel.store.backlog.workers.Workers`.

    Parameters
    ----------
    address : str
        Address of the scheduler, for example ``tcp://10.0.0.1:8786``.
    wake : callable
        Called on any thread when a range is done; must return at once.

    Attributes
    ----------
    jobs : int
        Number of ranges that the workers index in parallel.
    refused : int
        Number of ranges that no worker could index; they are read locally.
    """

    def __init__(self, address: str, wake: Callable[[], None] = lambda: None) -> None:
        self._address, self.wake = address, wake
        self._client, self.jobs = connect(address)
        self._lock = Lock()
        self.refused = 0

    def submit(self, byte_range: ByteRange) -> Future[RangeResult]:
        """Index a range on a worker; the future raises `WorkerDied` if no worker could."""
        future: Future[RangeResult] = Future()
        task = self._client.submit(index_on_worker, byte_range, reading_fingerprint(), pure=False)
        task.add_done_callback(lambda done: self._on_done(done, future, byte_range))
        return future

    def close(self) -> None:
        """Disconnect from the cluster; its workers keep running."""
        self._client.close(timeout=2)

    def _on_done(self, task: Any, future: Future[RangeResult], byte_range: ByteRange) -> None:
        """Copy the outcome of a dask task to the future that the caller holds."""
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(task.result())
        except Exception as error:  # the workers died, or cannot see the file
            with self._lock:
                self.refused += 1
                first = self.refused == 1
            if first:
                message = "%s is read locally, because no worker of %s could: %s"
                log.warning(message, byte_range.name, self._address, error)
            future.set_exception(WorkerDied(f"{byte_range.name}: {error}"))
        self.wake()


def connect(address: str) -> tuple[Any, int]:
    """Return a client of a scheduler, and the number of its workers' threads.

    Raises
    ------
    ClusterError
        If the scheduler does not answer, or has no worker with this version of rlpanel.
    """
    client = _client(address)
    try:
        threads = sum(client.nthreads().values())
        if not threads:
            raise ClusterError(f"the scheduler has no workers yet; start some: dask worker {address}")
        try:
            codes = set(client.run(reading_fingerprint).values())
        except ImportError as error:
            raise ClusterError(
                f"rlpanel is not installed on the workers of {address}: install it there"
            ) from error
        if codes != {reading_fingerprint()}:
            raise ClusterError(_OTHER_VERSION)
    except BaseException:
        client.close(timeout=2)
        raise
    return client, threads


def _client(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError as error:
        raise ClusterError(f"a dask scheduler needs dask.distributed: {install_command('dask')}") from error
    try:
        return Client(address, timeout=CONNECT_TIMEOUT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"no dask scheduler answers at {address}; start one with: dask scheduler ({error})"
        ) from error
