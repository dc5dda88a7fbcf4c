"""Clicks on a table whose rows may be gone by the time that they arrive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import panel as pn
import pytest
from panel.models.tabulator import CellClickEvent

from rlpanel.panel_fixes.click_table import ClickTable
from tests.page_parts import receive


def click_a_row_that_is_gone(make: Callable[[pd.DataFrame], Any]) -> None:
    """Click the last of three rows of a table that has one row by now."""
    table = make(pd.DataFrame({"a": [1, 2, 3]}))
    table.value = pd.DataFrame({"a": [1]})
    receive(table, CellClickEvent, column="a", row=2)


def test_a_click_on_a_row_that_is_gone_is_ignored() -> None:
    click_a_row_that_is_gone(ClickTable)


@pytest.mark.upstream_fault
def test_panel_still_fails_at_a_row_that_is_gone() -> None:
    with pytest.raises((KeyError, IndexError)):
        click_a_row_that_is_gone(pn.widgets.Tabulator)
