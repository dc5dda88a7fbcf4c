"""The process that parses and runs queries: whatever a query uses up, it uses up here.

Its duckdb database is in memory, without access to anything outside. It answers messages on its standard
input, and ends with its parent, even if that is killed, because its input is closed then.
"""

from __future__ import annotations

import os
import queue
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import duckdb
import numpy as np
import pandas as pd

from rlpanel import schema
from rlpanel.errors import QueryError
from rlpanel.sql.column_messages import column_to_arrays, receive, send
from rlpanel.sql.sql_limits import SqlLimits, binary_size
from rlpanel.sql.statement import Statement, parse

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


#: Most threads of one query; the machine does other work as well.
_THREADS = 4
#: Number of vectors of 2,048 rows that are fetched at a time.
_VECTORS = 32
#: Names of texts, which are no columns.
_TEXTS = re.compile(rf'Referenced column "({"|".join(schema.TEXTS)})" not found')
#: What duckdb says when it gets no memory.
_NO_MEMORY = re.compile("out of memory|bad.?alloc|allocation failure", re.IGNORECASE)


def connect(limits: SqlLimits) -> DuckDBPyConnection:
    """Open an empty database in memory, with no access to files, network, extensions or Python variables."""
    import duckdb

    connection = duckdb.connect(
        ":memory:",
        config={
            "enable_external_access": False,
            "autoload_known_extensions": False,
            "autoinstall_known_extensions": False,
            "allow_community_extensions": False,
            "python_enable_replacements": False,
            "temp_directory": "",  # a query that needs more memory fails; nothing is written to a disk
            "memory_limit": f"{limits.memory}B",
            "threads": min(_THREADS, os.cpu_count() or 1),
        },
    )
    # The bar would be part of what a command prints.
    connection.execute("set enable_progress_bar = false")
    return connection


def lock(connection: DuckDBPyConnection) -> None:
    """Forbid changes of settings from now on."""
    connection.execute("set lock_configuration = true")


def fetch_parts(connection: DuckDBPyConnection, text: str, limits: SqlLimits) -> Iterator[pd.DataFrame]:
    """Yield the rows of a query in parts; the last part is empty.

    Raises
    ------
    QueryError
        If the query fails, or has more rows or needs more memory than the limits allow.
    """
    import duckdb

    try:
        result = connection.execute(text)
        total = 0
        while True:
            part = result.fetch_df_chunk(_VECTORS)
            total += len(part)
            if total > limits.rows:
                raise QueryError(f"the result has more than {limits.rows:,} rows: add LIMIT, or aggregate")
            yield part
            if not len(part):
                return
    except (duckdb.Error, MemoryError) as error:
        raise QueryError(explained(error, limits)) from error


def explained(error: Exception, limits: SqlLimits) -> str:
    """Return what an error of duckdb means and what to do."""
    message = str(error)
    if isinstance(error, MemoryError) or _NO_MEMORY.search(message):
        return f"the query needs more than {binary_size(limits.memory)} of memory: read less, or aggregate"
    if found := _TEXTS.search(message):
        return (
            f"{found.group(1)} is no column: texts stay in the files. rlpanel search finds samples by their "
            "texts, and run.samples(text=True) returns them"
        )
    return message


try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

#: Bytes besides the limit of a query, for the stacks of its threads and for Python.
_SPARE = 64 << 20
#: Bytes that a process may keep of earlier queries before it is replaced.
_KEPT = 256 << 20


@dataclass
class _Work:
    """A query that was parsed and not yet run."""

    connection: DuckDBPyConnection
    statement: Statement
    limits: SqlLimits


def serve() -> None:
    """Answer queries until the standard input is closed."""
    answers = sys.stdout.buffer
    sys.stdout = sys.stderr
    requests: queue.SimpleQueue[tuple[dict[str, Any], list[np.ndarray]]] = queue.SimpleQueue()
    _confine()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, requests), daemon=True).start()
    most = (_writable() or 0) + _KEPT
    work: _Work | None = None
    send(answers, {"ready": True})
    while True:
        head, arrays = requests.get()
        try:
            if "query" in head:
                work = _parsed(head["query"], head["tables"], SqlLimits(**head["limits"]), work)
                send(answers, _described(work.statement))
            elif work:
                _run(work, head["views"], arrays, answers)
                arrays.clear()
                send(answers, {"spent": (_writable() or 0) > most})
        except BrokenPipeError:  # the parent has ended
            os._exit(0)
        except Exception as error:
            said = _said(error, work.limits if work else SqlLimits())
            arrays.clear()
            send(answers, {"error": said, "spent": (_writable() or 0) > most})


def _said(error: Exception, limits: SqlLimits) -> str:
    """Return the message of an error for the person who wrote the query."""
    if isinstance(error, QueryError):
        return str(error)
    known = isinstance(error, (duckdb.Error, MemoryError))
    return explained(error, limits) if known else f"{type(error).__name__}: {error}"


def _confine() -> None:
    """Let this process write no file, and leave no image of its memory if it crashes."""
    if resource:
        for what in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
            resource.setrlimit(what, (0, 0))


def _listen(stream: BinaryIO, requests: queue.SimpleQueue[Any]) -> None:
    """Read messages; the end of the input ends the process also while a query runs."""
    try:
        while True:
            requests.put(receive(stream))
    finally:
        os._exit(0)


def _parsed(text: str, tables: list[str], limits: SqlLimits, before: _Work | None) -> _Work:
    """Parse a query in a database of its own; the database before is closed."""
    if before:
        before.connection.close()
    connection = connect(limits)
    with _limited(limits.memory):
        return _Work(connection, parse(connection, text, tables), limits)


def _described(statement: Statement) -> dict[str, Any]:
    names = None if statement.names is None else sorted(statement.names)
    return {"tables": sorted(statement.tables), "names": names, "steps": dict(statement.steps)}


def _run(work: _Work, views: list[dict[str, Any]], arrays: list[np.ndarray], answers: BinaryIO) -> None:
    """Make the views, run the query and send its rows in parts; the last part has none."""
    connection, limits = work.connection, work.limits
    rest = iter(arrays)
    for view in views:
        columns = {
            name: next(rest) if texts is None else pd.Categorical.from_codes(next(rest), _index(texts))
            for name, texts in view["arrays"]
        }
        connection.register(view["source"], pd.DataFrame(columns, copy=False))
        connection.execute(view["sql"])
    lock(connection)
    total = 0
    with _limited(limits.memory), closing(connection):
        for part in fetch_parts(connection, work.statement.text, limits):
            described, sent = [], []
            for at, name in enumerate(part.columns):
                column, pieces, size = column_to_arrays(part.iloc[:, at])
                described.append([str(name), len(pieces), column])
                sent += pieces
                total += size
            if total > limits.size:
                raise QueryError(
                    f"the result has more than {binary_size(limits.size)}: select fewer columns, add LIMIT, "
                    "or aggregate"
                )
            send(answers, {"columns": described}, sent)


def _index(texts: list[str]) -> pd.Index:
    return pd.Index(texts, dtype=object)


@contextmanager
def _limited(size: int) -> Iterator[None]:
    """Let this process take this many more bytes of memory; only Linux counts them."""
    used = _writable()
    if used is None:
        yield
        return
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = used + size + _SPARE
    resource.setrlimit(
        resource.RLIMIT_DATA, (wanted if most == resource.RLIM_INFINITY else min(wanted, most), most)
    )
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _writable() -> int | None:
    """Return the bytes of writable memory of this process, which is what Linux limits; else None."""
    with suppress(OSError):
        found = re.search(r"VmData:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
        return int(found.group(1)) << 10 if found and resource else None
    return None
