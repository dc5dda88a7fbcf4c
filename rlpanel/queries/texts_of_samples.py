"""Texts of samples with a limit on their length, read from the files of the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rlpanel.errors import SettingError
from rlpanel.queries.run_data import RunData
from rlpanel.store.query.fetch_sample import fetch_all_texts
from rlpanel.texts.prompt_line import prompt_cell
from rlpanel.texts.prompt_parts import TextStyle


@dataclass(frozen=True)
class TextLimit:
    """The characters of each text that a table returns: from an offset on, up to a maximum number.

    Attributes
    ----------
    chars : int or None
        Maximum number of characters; None for whole texts.
    offset : int
        Number of characters before the first one that is returned.

    Raises
    ------
    SettingError
        If a number is negative.
    """

    chars: int | None = None
    offset: int = 0

    def __post_init__(self) -> None:
        if self.offset < 0 or (self.chars is not None and self.chars < 0):
            raise SettingError("a text limit must not be negative")

    def of(self, text: str) -> str:
        """Return the part of a text."""
        end = None if self.chars is None else self.offset + self.chars
        return text[self.offset : end]

    def cuts(self, text: str) -> bool:
        """Return True if characters are left out after the part."""
        return self.chars is not None and len(text) > self.offset + self.chars


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
