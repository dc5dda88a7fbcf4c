"""Clicks into tables whose rows change."""

from __future__ import annotations

import pandas as pd
import panel as pn
import pytest
from panel.models.tabulator import CellClickEvent

from rlpanel.panel_fixes.click_table import ClickTable
from rlpanel.panels.samples.sample_table import table_of
from rlpanel.panels.samples.text_table import text_table
from rlpanel.panels.tokens.token_ranking import ranking_table
from rlpanel.panels.ui.table_click import click_field
from tests.page_parts import receive


class _View:
    def pick(self, event: object) -> None: ...


@pytest.fixture(params=["grid", "texts", "ranking"])
def table(request: pytest.FixtureRequest) -> pn.widgets.Tabulator:
    """An empty table."""
    if request.param == "grid":
        return table_of(pd.DataFrame({"uid": pd.Series(dtype=str)}))
    if request.param == "texts":
        return text_table(("step", "response"), "rl-x", click_field(_View().pick), 100)
    return ranking_table()


def test_a_click_on_a_row_that_is_gone_is_no_error(table: pn.widgets.Tabulator) -> None:
    """The browser sent it before it was told of fewer rows."""
    receive(table, CellClickEvent, column="uid", row=3)


def test_the_browser_knows_the_height_of_rows() -> None:
    """It would measure each cell otherwise."""
    table = ClickTable(pd.DataFrame({"a": [1]}), row_height=27, configuration={"renderVertical": "basic"})
    configuration = table.get_root().configuration
    assert (configuration["rowHeight"], configuration["renderVertical"]) == (27, "basic")
