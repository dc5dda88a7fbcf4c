"""The texts of the grid's rows, read back from the files."""

from __future__ import annotations

import numpy as np

from rlpanel.errors import RLPanelError
from rlpanel.store.index import RunIndex
from rlpanel.store.run import fetch_record
from rlpanel.store.snapshot import Snapshot

#: Bytes of log that are read on the event loop; more is read on a thread while the numbers stand.
READ_NOW = 8 << 20


def read_texts(index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> list[dict[str, str]]:
    """The texts of each row by name; a row that cannot be read says so in place of its prompt."""
    return [_texts_of(index, snapshot, row) for row in rows.tolist()]


def _texts_of(index: RunIndex, snapshot: Snapshot, row: int) -> dict[str, str]:
    try:
        return fetch_record(index, snapshot, row).texts
    except RLPanelError as error:  # the file changed under us; its rows are replaced in a moment
        return {"prompt": f"({error})"}
