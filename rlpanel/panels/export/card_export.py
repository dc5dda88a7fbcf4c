"""Export of one card: the texts and colours around its picture, and the plotted numbers as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pandas as pd

#: Maximum number of characters of a run's or column's name within a file name.
_MAX_LENGTH = 100


class CardExport(NamedTuple):
    """The content of a card for export as a picture or as CSV.

    Attributes
    ----------
    name : str
        File name without extension: run, column and step.
    title, words : str
        Title and subtitle above the picture. The subtitle says what is drawn, and of which run and step.
    rows : callable
        Returns the plotted numbers as a table; called on a thread.
    legend : tuple of (str, str)
        Label and colour of each legend entry, if the plot has no legend of its own. The colour is a name of
        the theme's palette or a colour code.
    """

    name: str
    title: str
    words: str
    rows: Callable[[], pd.DataFrame]
    legend: tuple[tuple[str, str], ...] = ()


def file_name(run: str) -> str:
    """Return a run's or column's name with all characters replaced that are unsafe in file names."""
    characters = [
        character if character.isalnum() or character in "-_." else "_" for character in run[:_MAX_LENGTH]
    ]
    return "".join(characters) or "samples"


def well_formed(text: str) -> str:
    """Return text with lone surrogates replaced: file names may hold them, but UTF-8 cannot encode them."""
    return text.encode("utf-8", "replace").decode("utf-8")
