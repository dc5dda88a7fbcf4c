"""Texts of samples with a limit on their length, read from the files of the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rlpanel import schema
from rlpanel.api.run import Run
from rlpanel.store.query.fetch_sample import fetch_all_texts
from rlpanel.tables.table import TableColumn
from rlpanel.texts.prompt_line import prompt_cell
from rlpanel.texts.prompt_parts import TextStyle
from rlpanel.texts.shorten import TextLimit

#: Columns of texts, which tables of samples share.
TEXT_COLUMNS = tuple(TableColumn(name, "text", schema.BY_NAME[name].help) for name in schema.TEXTS)
CUT = TableColumn("cut", "texts", "Names of the columns whose texts are longer than what is shown.")


def cut_texts(texts: Mapping[str, str | None], limit: TextLimit) -> dict[str, object]:
    """Return texts by name within the limit, with `CUT`; texts that were not logged are left out."""
    logged = {name: text for name, text in texts.items() if text is not None}
    parts: dict[str, object] = {name: limit.of(text) for name, text in logged.items()}
    return parts | {CUT.name: [name for name, text in logged.items() if limit.cuts(text)]}


def question_of(texts: Mapping[str, str] | None, limit: TextLimit) -> str:
    """Return the question of a prompt within the limit; empty if it was not logged or cannot be read."""
    return limit.of(prompt_cell((texts or {}).get("prompt") or "", TextStyle()))


def read_logged_texts(run: Run, rows: Sequence[int] | np.ndarray) -> list[dict[str, str] | None]:
    """Return the texts of each row by name; None where the line can no longer be read."""
    return fetch_all_texts(run.index, run.snapshot, np.asarray(rows, int))
