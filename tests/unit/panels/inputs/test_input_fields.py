"""Fields in the style of the board."""

from __future__ import annotations

import panel as pn

from rlpanel.panels.inputs.input_fields import FieldRow, select_field


def test_a_row_of_fields_may_be_narrower_than_they_are() -> None:
    row = FieldRow(select_field("a", "A", 250), select_field("b", "B", 250))
    page = pn.Column(row, sizing_mode="stretch_width").get_root()
    assert not page.min_width
    assert not page.children[0].min_width
