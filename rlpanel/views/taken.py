"""What is taken away of one card: the words and colours of its picture, and the numbers it is drawn from."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pandas as pd

#: Letters of a file's name that a run or a column may take.
_LONGEST = 100
#: What spreadsheets take for the beginning of a formula.
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


class Taken(NamedTuple):
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


def csv_text(frame: pd.DataFrame) -> str:
    """A table as CSV whose texts, which are names out of logs, no spreadsheet takes for formulas."""
    columns = {
        name: frame[name] if pd.api.types.is_numeric_dtype(frame[name]) else frame[name].map(_inert)
        for name in frame.columns
    }
    return pd.DataFrame(columns).to_csv(index=False)


def well_formed(text: str) -> str:
    """Text without halves of letters, which names of files may hold and no channel carries."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _inert(text: str) -> str:
    text = text.replace("\r", " ")  # it would end the row, and is not quoted by itself
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text
