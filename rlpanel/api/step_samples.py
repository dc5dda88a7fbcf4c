"""Table of samples, with their texts on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rlpanel import schema
from rlpanel.metrics.engine.compute import text_columns
from rlpanel.store.columns.run_table import OLDER
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_all_texts, fetch_texts
from rlpanel.store.snapshot.run_view import RunView

if TYPE_CHECKING:
    import pandas as pd


def sample_frame(
    index: RunIndex, view: RunView, step: int | None, *, text: bool, older: bool
) -> pd.DataFrame:
    """Return the table of `Run.samples`."""
    snapshot = view.snapshot
    rows = snapshot.rows_of(step, older=older)
    frame = view.frame(rows)
    if older:
        frame["older"] = snapshot.state[rows] == OLDER
    if text:
        many = zip(rows.tolist(), fetch_all_texts(index, snapshot, rows), strict=True)
        # The second attempt raises the error that says why a row cannot be read.
        texts = [fetch_texts(index, snapshot, row) if found is None else found for row, found in many]
        for name in schema.TEXTS:
            if any(name in sample for sample in texts):
                frame[name] = [sample.get(name) for sample in texts]
        if "response" in frame:
            responses = np.array([sample.get("response", "") for sample in texts], object)
            frame = frame.assign(**text_columns(responses))
    return frame
