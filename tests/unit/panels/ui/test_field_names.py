"""Column names as keys in the browser: none is lost, and none has a meaning in JavaScript."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.panels.samples.sample_table import SampleTable
from rlpanel.panels.ui.field_names import field_of, name_of

#: Names of JavaScript object attributes, and names with a special meaning for Panel or Tabulator.
ODD = ["constructor", "__proto__", "then", "index", "level_0", "", "0", "a.b", "Foo", "foo", "c_foo", "-2d-"]


@given(st.text(st.characters(), max_size=300))
def test_a_name_comes_back(name: str) -> None:
    assert name_of(field_of(name)) == name


@given(st.text(st.characters(), max_size=300))
def test_a_field_is_a_prefix_and_plain_letters(name: str) -> None:
    assert re.fullmatch(r"c_[A-Za-z0-9_-]*", field_of(name))


@pytest.mark.parametrize(("name", "field"), [("reward", "c_reward"), ("a.b", "c_a-2e-b"), ("-", "c_-2d-")])
def test_a_plain_name_stays_legible(name: str, field: str) -> None:
    assert field_of(name) == field


@pytest.fixture
def table() -> SampleTable:
    """Ten rows in pages of four; the columns are numbers with odd names."""
    frame = pd.DataFrame({name: [float((at * 7) % 10) for at in range(10)] for name in ODD})
    options: dict[str, Any] = {
        "titles": {name: f"title of {name}" for name in ODD},
        "header_filters": {name: {"type": "number", "func": ">="} for name in ODD},
        "hidden_columns": ["constructor"],
    }
    return SampleTable(frame, show_index=False, pagination="remote", page_size=4, disabled=True, **options)


def test_the_browser_is_told_encoded_names_alone(table: SampleTable) -> None:
    model = table.get_root()
    fields = [field_of(name) for name in ODD]
    assert list(model.source.data) == ["index", *fields]
    assert [column.field for column in model.columns] == fields
    assert [column.title for column in model.columns] == [f"title of {name}" for name in ODD]
    configured = model.configuration["columns"]
    assert [column["field"] for column in configured] == fields
    assert {column["headerFilterFunc"] for column in configured} == {">="}
    assert model.hidden_columns == [field_of("constructor"), "index"]


@pytest.mark.parametrize("name", ODD)
def test_a_sort_and_a_filter_of_the_browser_name_the_column(table: SampleTable, name: str) -> None:
    model = table.get_root()
    table._process_events({"sorters": [{"field": field_of(name), "dir": "desc"}]})
    assert table.sorters == [{"field": name, "dir": "desc"}]
    assert model.source.data[field_of(name)] == ["9", "8", "7", "6"]
    table._process_events({"filters": [{"field": field_of(name), "type": ">=", "value": 8}]})
    assert list(table.current_view[name]) == [9.0, 8.0]
    assert model.source.data[field_of(name)] == ["9", "8"]


def test_a_sort_of_the_server_reaches_the_browser_encoded(table: SampleTable) -> None:
    model = table.get_root()
    table.sorters = [{"field": "a.b", "dir": "asc"}]
    assert model.sorters == [{"field": "c_a-2e-b", "dir": "asc"}]
    assert model.source.data["c_a-2e-b"] == ["0", "1", "2", "3"]


def test_other_rows_are_sent_without_new_columns(table: SampleTable) -> None:
    model = table.get_root()
    before = model.columns
    table.value = table.value + 1.0
    assert model.columns is before
    assert model.source.data[field_of("index")] == ["1", "8", "5", "2"]
