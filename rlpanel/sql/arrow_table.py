"""The samples of a run as an Arrow table, for polars and other tools."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from rlpanel.errors import QueryError
from rlpanel.sql.sample_relation import LINE, RANK, STEP, UID, clean_text
from rlpanel.store.snapshot.run_view import RunView


def samples_arrow(view: RunView, columns: Collection[str] | None = None) -> Any:
    """Return the samples that count as a ``pyarrow.Table``, one row per sample.

    If all stored samples count, number columns are the store's own memory, read-only, and only a bitmap of
    nulls is made. Otherwise they are copied.

    Parameters
    ----------
    view : RunView
    columns : collection of str, optional
        By default all, as in `RunView.frame`.

    Raises
    ------
    QueryError
        If pyarrow is not installed, or the run has no column of a given name.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise QueryError('Arrow tables need the package pyarrow: pip install "rlpanel[parquet]"') from error
    snapshot = view.snapshot
    rows: Any = slice(None) if snapshot.alive.all() else snapshot.alive_rows
    numbered = np.arange(snapshot.rows)[rows]

    def whole(values: np.ndarray, missing: int) -> Any:
        return pyarrow.array(values, mask=values == missing)

    makers: dict[str, Any] = {
        UID: lambda: pyarrow.array([clean_text(uid) for uid in snapshot.uids(numbered)], pyarrow.string()),
        STEP: lambda: pyarrow.array(snapshot.metadata("step")[rows]),
        RANK: lambda: whole(snapshot.metadata("rank")[rows], -1),
        LINE: lambda: whole(snapshot.lines(numbered), 0),
    }

    def label(name: str) -> Any:
        codes, texts = snapshot.label_codes(name)
        indices = pyarrow.array(codes[rows], mask=codes[rows] < 0)
        names = pyarrow.array([clean_text(text) for text in texts], pyarrow.string())
        return pyarrow.DictionaryArray.from_arrays(indices, names)

    for shown, name in view.label_names.items():
        makers.setdefault(shown, lambda name=name: label(name))
    for name in view.number_names:
        makers.setdefault(name, lambda name=name: pyarrow.array(view.number(name)[rows], from_pandas=True))
    chosen = list(makers) if columns is None else list(columns)
    if unknown := [name for name in chosen if name not in makers]:
        raise QueryError(f"no column {unknown[0]!r} in {snapshot.name}; columns: {', '.join(makers)}")
    return pyarrow.table([makers[name]() for name in chosen], names=chosen)
