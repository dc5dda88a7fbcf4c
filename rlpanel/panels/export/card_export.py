"""What is taken away of one card: the words and colours of its picture, and the numbers it is drawn from."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pandas as pd

#: Letters of a file's name that a run or a column may take.
_LONGEST = 100


class CardExport(NamedTuple):
    """A card as a file.

    Attributes
    ----------
    name : str
        Of the file, without its ending: run, number and step.
    title, words : str
        Above the picture; ``words`` say what is drawn, and of what.
    rows : callable
        Gives the numbers that are drawn as a table; called on a thread.
    legend : tuple of (str, str)
        What the picture's colours stand for, each with the theme's name of its colour or the colour itself,
        where the plot does not say so.
    """

    name: str
    title: str
    words: str
    rows: Callable[[], pd.DataFrame]
    legend: tuple[tuple[str, str], ...] = ()


def file_name(run: str) -> str:
    """A run's or column's name as a part of a file's."""
    letters = [letter if letter.isalnum() or letter in "-_." else "_" for letter in run[:_LONGEST]]
    return "".join(letters) or "samples"


def well_formed(text: str) -> str:
    """Text without halves of letters, which names of files may hold and no channel carries."""
    return text.encode("utf-8", "replace").decode("utf-8")
