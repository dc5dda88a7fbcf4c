"""The table whose pages are sorted and sent by itself."""

from __future__ import annotations

import pandas as pd
import panel as pn
import pytest

from rlpanel.panels.samples.sample_table import SampleTable

EQUAL = pd.DataFrame({"a": [1] * 12})
BY_A = [{"field": "a", "dir": "asc"}]


def test_equal_rows_keep_their_order() -> None:
    table = SampleTable(EQUAL, pagination="remote", page_size=12)
    table.sorters = BY_A
    assert table.current_view.index.tolist() == list(range(12))


@pytest.mark.upstream_fault
def test_panel_still_sorts_equal_rows_by_the_text_of_their_numbers() -> None:
    table = pn.widgets.Tabulator(EQUAL, pagination="remote", page_size=12)
    table.sorters = BY_A
    assert table.current_view.index.tolist() != list(range(12))
