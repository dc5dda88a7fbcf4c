"""The minimum width of rows."""

from __future__ import annotations

import panel as pn
import pytest


@pytest.mark.upstream_fault
def test_a_row_still_takes_its_minimum_width_from_its_children() -> None:
    fields = [pn.widgets.Select(width=250) for _ in range(2)]
    row = pn.Row(*fields, sizing_mode="stretch_width", min_width=0)
    assert row.get_root().min_width
