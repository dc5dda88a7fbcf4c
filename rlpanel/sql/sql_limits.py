"""Limits of an SQL query, in a module of its own that imports nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SqlLimits:
    """Limits of one query.

    Attributes
    ----------
    rows : int
        Most rows of the result.
    seconds : float
        Time until the query is cancelled.
    memory : int
        Bytes that duckdb may use besides the columns, which are not copied. A single very long text that a
        query makes may exceed it for a moment.
    """

    rows: int = 1_000_000
    seconds: float = 30.0
    memory: int = 1 << 30
