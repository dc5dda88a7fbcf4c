"""A duckdb database in memory without access to anything outside, and limited execution of queries."""

from __future__ import annotations

import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pandas as pd

from rlpanel import schema
from rlpanel.errors import QueryError
from rlpanel.sql.sql_limits import SqlLimits

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Most threads of one query; the process does other work as well.
_THREADS = 4
#: Number of vectors of 2,048 rows that are fetched at a time.
_VECTORS = 32
#: Seconds between two requests to end a query.
_PULSE = 0.1
#: Names of texts, which are no columns.
_TEXTS = re.compile(rf'Referenced column "({"|".join(schema.TEXTS)})" not found')


def connect(limits: SqlLimits) -> DuckDBPyConnection:
    """Open an empty database in memory, with no access to files, network, extensions or Python variables.

    Raises
    ------
    QueryError
        If duckdb is not installed.
    """
    try:
        import duckdb
    except ImportError as error:
        raise QueryError('SQL needs the package duckdb: pip install "rlpanel[sql]"') from error
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


def fetch_rows(connection: DuckDBPyConnection, text: str, limits: SqlLimits) -> pd.DataFrame:
    """Run a query within limits.

    Raises
    ------
    QueryError
        If it fails or exceeds a limit.
    KeyboardInterrupt
        After Ctrl-C; the query is cancelled.
    """
    import duckdb

    # On a thread: duckdb does not notice Ctrl-C while it waits for the first rows.
    with ThreadPoolExecutor(1) as thread:
        begun, ended = threading.Event(), threading.Event()
        try:
            # Ctrl-C may come at any moment from here on, also before there is a result to wait for.
            result = thread.submit(_fetch_noting, begun, ended, connection, text, limits.rows)
            return result.result(limits.seconds)
        except (TimeoutError, KeyboardInterrupt) as error:
            _cancel(connection, begun, ended)
            if isinstance(error, KeyboardInterrupt):
                raise
            raise QueryError(
                f"the query was cancelled after {limits.seconds:g} s: read fewer rows"
            ) from error
        except duckdb.Error as error:
            raise QueryError(_explained(str(error))) from error


def _cancel(connection: DuckDBPyConnection, begun: threading.Event, ended: threading.Event) -> None:
    """Cancel a query, and return when it has ended, or if it does not begin."""
    while begun.wait(_PULSE) and not ended.wait(_PULSE):
        connection.interrupt()


def _fetch_noting(
    begun: threading.Event, ended: threading.Event, connection: DuckDBPyConnection, text: str, most: int
) -> pd.DataFrame:
    """Run a query as `_fetch` does, and set the events when it begins and ends."""
    begun.set()
    try:
        return _fetch(connection, text, most)
    finally:
        ended.set()


def _fetch(connection: DuckDBPyConnection, text: str, most: int) -> pd.DataFrame:
    """Run a query; the rows are fetched in parts, so that a result above the limit is never complete."""
    result = connection.execute(text)
    parts = [result.fetch_df_chunk(_VECTORS)]
    total = len(parts[0])
    while len(parts[-1]):
        if total > most:
            raise QueryError(f"the result has more than {most:,} rows: add LIMIT, or aggregate")
        parts.append(result.fetch_df_chunk(_VECTORS))
        total += len(parts[-1])
    return pd.concat(parts[:-1], ignore_index=True) if len(parts) > 1 else parts[0]


def _explained(message: str) -> str:
    """Add what to do to an error of duckdb."""
    if "Out of Memory" in message:
        return f"the query needs too much memory: {message.splitlines()[0]}"
    if found := _TEXTS.search(message):
        return (
            f"{found.group(1)} is no column: texts stay in the files. rlpanel search finds samples by their "
            "texts, and run.samples(text=True) returns them"
        )
    return message
