"""The tokens of some steps as a data frame, read from the lines of their samples."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rlpanel.errors import QueryError, RLPanelError
from rlpanel.metrics.engine.column_info import of_level
from rlpanel.metrics.engine.compute import token_values
from rlpanel.metrics.engine.derived_arrays import derived_of_sample
from rlpanel.number_text import size_text
from rlpanel.sources.records.record_types import Record
from rlpanel.sql.sample_relation import clean_text
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_record
from rlpanel.store.snapshot.run_view import RunView

#: Most bytes of the log that one query reads for tokens.
MAX_BYTES = 256 << 20
#: Columns before the metrics.
HEAD = ("uid", "step", "rank", "position", "token", "token_id", "loss_mask")


def step_tokens(
    index: RunIndex,
    view: RunView,
    ranges: Sequence[tuple[int, int]],
    reads: Callable[[str], bool],
    seconds: float,
) -> pd.DataFrame:
    """Return one row per response token of the samples in some ranges of steps.

    Columns: ``uid``, ``step``, ``rank``, ``position`` (from 0), ``token``, ``token_id``, ``loss_mask`` and
    the token metrics. A value is NaN if it was not logged, and a metric also if the query does not read it.

    Raises
    ------
    QueryError
        If more than `MAX_BYTES` of lines would have to be read, or reading takes longer than ``seconds``.
    """
    rows = _rows(view, ranges)
    names = [metric.name for metric in of_level("token") if not metric.hidden]
    wanted = {"step", *(name for name in (*HEAD, *names) if reads(name))}  # calls are told apart by step
    deadline = time.monotonic() + seconds
    parts = []
    for row, uid in zip(rows.tolist(), view.snapshot.uids(rows), strict=True):
        if time.monotonic() > deadline:
            raise QueryError(f"reading the tokens took longer than {seconds:g} s: choose fewer steps")
        try:
            record = fetch_record(index, view.snapshot, row)
        except (RLPanelError, IndexError):  # its file was rewritten; the index updates shortly
            continue
        parts.append(_tokens_of(record, view, row, uid, wanted))
    columns = {}
    for name in (*HEAD, *names):
        values = [part[name] for part in parts if len(part[HEAD[0]])] if name in wanted else []
        columns[name] = np.concatenate(values) if values else np.empty(0)
    length = max((len(values) for values in columns.values()), default=0)
    return pd.DataFrame(
        {name: values if len(values) else np.full(length, np.nan) for name, values in columns.items()}
    )


def _rows(view: RunView, ranges: Sequence[tuple[int, int]]) -> np.ndarray:
    """Return the rows of the steps; QueryError if their lines are too large."""
    snapshot = view.snapshot
    step = snapshot.metadata("step")
    inside = np.zeros(snapshot.rows, bool)
    for first, last in ranges:
        inside |= (step >= first) & (step <= last)
    rows = np.flatnonzero(inside & snapshot.alive)
    size = int(snapshot.metadata("length")[rows].sum(dtype=np.int64))
    if size > MAX_BYTES:
        raise QueryError(
            f"these steps have {size_text(size)} of lines; tokens of at most "
            f"{size_text(MAX_BYTES)} are read: choose fewer steps"
        )
    return rows


def _tokens_of(record: Record, view: RunView, row: int, uid: str, wanted: set[str]) -> dict[str, np.ndarray]:
    """Return the columns of one sample, each of shape (T,)."""
    arrays = derived_of_sample(record.arrays, record.numbers, view.snapshot.constants) | record.arrays
    values = token_values(arrays)
    tokens = record.tokens or []
    ids, mask = record.arrays.get("response_token_ids"), record.arrays.get("loss_mask")
    found: list[Any] = [array for array in (ids, mask, *values.values()) if array is not None]
    count = len(tokens) or max((len(array) for array in found), default=0)
    rank = int(view.snapshot.metadata("rank")[row])
    texts = [clean_text(token) for token in tokens[:count]]
    made = {
        "uid": np.full(count, clean_text(uid), object),
        "step": np.full(count, record.step),
        "rank": np.full(count, np.nan if rank < 0 else rank),
        "position": np.arange(count),
        "token": np.array([*texts, *[None] * (count - len(texts))], object),
        "token_id": _fitted(ids, count),
        "loss_mask": _fitted(mask, count),
    }
    missing = dict.fromkeys(wanted - made.keys() - values.keys())
    return made | {name: _fitted(array, count) for name, array in (values | missing).items()}


def _fitted(array: np.ndarray | None, count: int) -> np.ndarray:
    """Return an array of this length; NaN where it has no values."""
    fitted = np.full(count, np.nan)
    if array is not None:
        fitted[: min(count, len(array))] = array[:count]
    return fitted
