"""Processes that run queries: started when needed, kept for the next query, killed at the limit of time.

Each is a fresh interpreter that does not import the caller's script, as in `rlpanel.store.backlog.workers`.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd

from rlpanel.errors import QueryError, install_command
from rlpanel.sql.column_messages import column_from_arrays, receive, send
from rlpanel.sql.sample_relation import Relation
from rlpanel.sql.sql_limits import SqlLimits, binary_size
from rlpanel.sql.statement import Statement

#: pandas must not import pyarrow: its allocator reserves 1 GiB of writable memory at once, and a limit of
#: memory would have no meaning.
_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); sys.modules['pyarrow'] = None; "
    "from rlpanel.sql import sql_worker; sql_worker.serve()"
)
#: Most queries at a time; each may use a gigabyte.
PARALLEL = 2
#: Seconds in which a process must have started.
_START = 60.0


class SqlProcess:
    """One process, used for one query at a time.

    Attributes
    ----------
    limits : SqlLimits
        Of the query.
    """

    def __init__(self) -> None:
        self.limits = SqlLimits()
        self._late = self._spent = self._ready = False
        self._process = subprocess.Popen(
            # -P: modules in the working directory must not shadow installed ones.
            [sys.executable, "-P", "-c", _BOOT, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in the terminal must reach the parent only
        )

    @property
    def runs(self) -> bool:
        """Return True if it can take another query."""
        return self._process.poll() is None and not (self._late or self._spent)

    def start(self) -> None:
        """Wait until it can take a query; QueryError if it does not start."""
        if not self._ready:
            with self.at_most(_START):
                self._answer()
            self._ready = True

    def parse(self, text: str, tables: Iterable[str]) -> Statement:
        """Return what a query reads of the tables; QueryError if it is not valid or not allowed."""
        self._say({"query": text, "tables": [*tables], "limits": asdict(self.limits)})
        head, _ = self._answer()
        names = None if head["names"] is None else frozenset(head["names"])
        steps = {name: tuple((first, last) for first, last in calls) for name, calls in head["steps"].items()}
        return Statement(text, frozenset(head["tables"]), names, steps)

    def rows(self, views: Sequence[tuple[str, str, Relation]]) -> pd.DataFrame:
        """Return the rows of the query that was parsed.

        Parameters
        ----------
        views : sequence of (str, str, Relation)
            Name of the table that each view reads, the statement that makes the view, and the table.
        """
        arrays: list[np.ndarray] = []
        told = []
        for source, sql, relation in views:
            columns = []
            for name, values in relation.arrays.items():
                is_text = isinstance(values, pd.Categorical)
                columns.append([name, values.categories.tolist() if is_text else None])
                arrays.append(values.codes if is_text else values)
            told.append({"source": source, "sql": sql, "arrays": columns})
        self._say({"views": told}, arrays)
        parts = [self._part()]
        while len(parts[-1]):
            parts.append(self._part())
        self._answer()
        return pd.concat(parts[:-1], ignore_index=True) if len(parts) > 1 else parts[0]

    def _part(self) -> pd.DataFrame:
        """Return the next rows of the result."""
        head, arrays = self._answer()
        rest = iter(arrays)
        columns = [
            (name, column_from_arrays(found, [next(rest) for _ in range(count)]))
            for name, count, found in head["columns"]
        ]
        # Columns of a result may have equal names, which a dictionary cannot hold.
        frame = pd.DataFrame({at: values for at, (_, values) in enumerate(columns)}, copy=False)
        frame.columns = pd.Index([name for name, _ in columns])
        return frame

    @contextmanager
    def at_most(self, seconds: float) -> Iterator[None]:
        """Kill the process after this time, whatever it does."""
        timer = threading.Timer(seconds, self._end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _end(self) -> None:
        self._late = True
        self._process.kill()

    def kill(self) -> None:
        """Kill the process and wait until it has ended."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with suppress(OSError):  # closing flushes, which fails because the reader is dead
                if pipe is not None:
                    pipe.close()
        self._process.wait()

    def _say(self, head: dict[str, Any], arrays: Sequence[np.ndarray] = ()) -> None:
        assert self._process.stdin is not None
        try:
            send(self._process.stdin, head, arrays)
        except OSError as error:
            raise self._death() from error

    def _answer(self) -> tuple[dict[str, Any], list[np.ndarray]]:
        """Return the next answer; QueryError if it is an error or the process has ended."""
        assert self._process.stdout is not None
        try:
            head, arrays = receive(self._process.stdout)
        except (EOFError, OSError, ValueError) as error:
            raise self._death() from error
        self._spent |= head.get("spent", False)
        if "error" in head:
            raise QueryError(head["error"])
        return head, arrays

    def _death(self) -> QueryError:
        """Return why the process has ended."""
        self._process.kill()
        code = self._process.wait()
        if self._late and not self._ready:
            return QueryError(f"the process for SQL did not start within {_START:g} s: try again")
        if self._late:
            return QueryError(f"the query was cancelled after {self.limits.seconds:g} s: read fewer rows")
        if code >= 0:
            said = self._process.stderr.read() if self._process.stderr else b""
            last = said.decode("utf-8", "replace").strip().rpartition("\n")[2]
            return QueryError(f"the process for SQL ended with exit code {code}: {last[:500]}")
        return QueryError(
            f"the query ended its process ({signal.Signals(-code).name}), as one that needs more than "
            f"{binary_size(self.limits.memory)} of memory may: read less, or aggregate"
        )


# Of the process, not of a runtime: the limit on queries at a time protects the machine.
_lock = threading.Lock()
_idle: list[SqlProcess] = []
_places = threading.BoundedSemaphore(PARALLEL)


@contextmanager
def sql_process(limits: SqlLimits) -> Iterator[SqlProcess]:
    """Give a process that can run one query, for at most the seconds of the limits.

    Raises
    ------
    QueryError
        If duckdb is not installed, or other queries run all the time.
    """
    if find_spec("duckdb") is None:
        raise QueryError(f"SQL needs the package duckdb: {install_command('sql')}")
    places = _places
    if not places.acquire(timeout=limits.seconds):
        raise QueryError(f"{PARALLEL} other queries ran for {limits.seconds:g} s: try again")
    try:
        process = _taken()
        process.limits = limits
        try:
            process.start()
            with process.at_most(limits.seconds):
                yield process
        except QueryError:  # the process has answered
            _keep(process)
            raise
        except BaseException:  # Ctrl-C: the query still runs
            process.kill()
            raise
        _keep(process)
    finally:
        places.release()


def _taken() -> SqlProcess:
    with _lock:
        while _idle:
            process = _idle.pop()
            if process.runs:
                return process
            process.kill()
    return SqlProcess()


def _keep(process: SqlProcess) -> None:
    if process.runs:
        with _lock:
            _idle.append(process)
    else:
        process.kill()


def _end_all() -> None:
    with _lock:
        while _idle:
            _idle.pop().kill()


def _forget() -> None:
    """Leave the processes to the parent: two processes cannot read the same answers."""
    global _lock, _idle, _places
    _lock, _idle, _places = threading.Lock(), [], threading.BoundedSemaphore(PARALLEL)


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
