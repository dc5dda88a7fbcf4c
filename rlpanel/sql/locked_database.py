"""A duckdb database in memory without access to anything outside, and the rows of a query in parts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rlpanel import schema
from rlpanel.errors import QueryError
from rlpanel.sql.sql_limits import SqlLimits, binary_size

if TYPE_CHECKING:
    import pandas as pd
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
