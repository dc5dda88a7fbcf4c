"""A table of short texts in which a click on a row selects a sample."""

from __future__ import annotations

import pandas as pd
import panel as pn

from rlpanel.panels.samples.sample_table import PICK, SampleTable
from rlpanel.panels.ui.assets import read_assets

_WIDE = {"response": 420, "prompt": 380}


def text_table(names: tuple[str, ...], name: str, picked: pn.widgets.TextInput, height: int) -> SampleTable:
    """Return a table with these text columns and ``uid``; a click writes the row's uid into ``picked``."""
    table = SampleTable(
        pd.DataFrame({column: pd.Series(dtype=str) for column in (*names, "uid")}),
        show_index=False,
        disabled=True,
        selectable=1,
        height=height,
        sizing_mode="stretch_width",
        margin=(4, 8),
        layout="fit_columns",
        stylesheets=[read_assets("panels/ui/table.css")],
        css_classes=[name],
        hidden_columns=["uid"],
        formatters={column: {"type": "plaintext"} for column in names},
        text_align={column: "right" for column in names if column not in _WIDE},
        widths={column: 78 for column in names if column not in _WIDE},
        row_height=27,
        configuration={"columnDefaults": {"headerSort": False}, "placeholder": ""},
    )
    table.jscallback(args={"picked": picked}, **{"event:cell-click": PICK})
    return table
