"""Texts of samples with a limit on their length, read from the files of the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rlpanel.queries.run_data import RunData
from rlpanel.store.query.fetch_sample import fetch_all_texts
from rlpanel.texts.prompt_parts import TextStyle, prompt_cell
from rlpanel.texts.shorten import TextLimit


def cut_texts(texts: Mapping[str, str | None], limit: TextLimit) -> dict[str, object]:
    """Return texts by name within the limit, with the column ``cut``, without those that were not logged."""
    logged = {name: text for name, text in texts.items() if text is not None}
    parts: dict[str, object] = {name: limit.of(text) for name, text in logged.items()}
    return parts | {"cut": [name for name, text in logged.items() if limit.cuts(text)]}


def questions_of(run: RunData, rows: Sequence[int] | np.ndarray, limit: TextLimit) -> list[str]:
    """Return the question of each row's prompt within the limit; empty if there is none."""
    texts = read_logged_texts(run, rows)
    return [limit.of(prompt_cell((each or {}).get("prompt") or "", TextStyle())) for each in texts]


def read_logged_texts(run: RunData, rows: Sequence[int] | np.ndarray) -> list[dict[str, str] | None]:
    """Return the texts of each row by name; None where the line can no longer be read."""
    return fetch_all_texts(run.index, run.snapshot, np.asarray(rows, int))
