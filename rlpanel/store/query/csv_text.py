"""CSV export (RFC 4180), with protection against formula injection in spreadsheets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


#: Texts that a spreadsheet may evaluate as a formula, see OWASP's "CSV Injection". Programs ignore blanks,
#: quotes and invisible characters before a formula; East Asian versions of Excel also accept full-width
#: signs.
_IGNORED = r"""[\s"'\x00-\x1f\x7f\u200b-\u200f\u2060\ufeff]*"""
_FORMULA = re.compile(_IGNORED + r"[=+\-@＝＋－＠﹦﹢﹣﹫]|[\t\r\n\x00]")


def csv_text(frame: pd.DataFrame, *, raw: bool = False, header: bool = True) -> str:
    """Return a table as CSV: numbers unchanged, texts and column names made safe by `defuse`.

    Parameters
    ----------
    frame : DataFrame
    raw : bool
        Write all texts unchanged.
    header : bool
        Write the column names first.
    """
    # This line end makes pandas quote a lone CR as well, which would otherwise end a row.
    return (frame if raw else _defused(frame)).to_csv(index=False, header=header, lineterminator="\r\n")


def defuse(cell: Any) -> Any:
    """Return a cell, with ``'`` put before a text that begins like a formula.

    Distinct texts stay distinct: removing one apostrophe from such a cell restores the text.
    """
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def _defused(frame: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    columns = {name: frame[name] for name in frame.columns}
    return pd.DataFrame(
        {
            defuse(name): values if pd.api.types.is_numeric_dtype(values) else _defused_cells(values)
            for name, values in columns.items()
        },
        index=frame.index,
    )


def _defused_cells(values: pd.Series) -> pd.Series:
    import pandas as pd

    return pd.Series([defuse(cell) for cell in values.tolist()], values.index, dtype=object)
