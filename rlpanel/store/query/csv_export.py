"""Tables as CSV (RFC 4180) whose texts a spreadsheet does not take for formulas."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

#: A text that a spreadsheet may calculate, see OWASP's "CSV Injection". Programs drop blanks, quotes and
#: invisible characters before a formula; Excel in East Asia takes the wide forms for the narrow ones.
_DROPPED = r"""[\s"'\x00-\x1f\x7f\u200b-\u200f\u2060\ufeff]*"""
_FORMULA = re.compile(_DROPPED + r"[=+\-@＝＋－＠﹦﹢﹣﹫]|[\t\r\n\x00]")


def csv_text(frame: pd.DataFrame, *, raw: bool = False, header: bool = True) -> str:
    """A table as CSV: numbers as they are, texts and column names defused.

    Parameters
    ----------
    frame : DataFrame
    raw : bool
        Keep every text as it is.
    header : bool
        Begin with the column names.
    """
    # With this line end a lone CR is quoted too; unquoted it would end a row.
    return (frame if raw else _defused(frame)).to_csv(index=False, header=header, lineterminator="\r\n")


def defuse(cell: Any) -> Any:
    """A cell with ``'`` before a text that begins like a formula; all else as it is.

    Different texts stay different: one apostrophe taken off such a cell gives the text back.
    """
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def _defused(frame: pd.DataFrame) -> pd.DataFrame:
    columns = {name: frame[name] for name in frame.columns}
    return pd.DataFrame(
        {
            defuse(name): values if pd.api.types.is_numeric_dtype(values) else _cells(values)
            for name, values in columns.items()
        },
        index=frame.index,
    )


def _cells(values: pd.Series) -> pd.Series:
    return pd.Series([defuse(cell) for cell in values.tolist()], values.index, dtype=object)
