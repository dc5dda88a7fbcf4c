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
        Bytes that the query's process may use besides the columns.
    size : int
        Most bytes of the result.
    """

    rows: int = 1_000_000
    seconds: float = 30.0
    memory: int = 1 << 30
    size: int = 512 << 20


def binary_size(size: int) -> str:
    """Return a limit as text.

    Examples
    --------
    >>> binary_size(1 << 30), binary_size(64 << 20)
    ('1 GiB', '64 MiB')
    """
    return f"{size / 2**30:,.4g} GiB" if size >= 1 << 30 else f"{size / 2**20:,.4g} MiB"
