"""A table's rows: sorted, filtered and paged by the server, and named by keys in the browser."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.panels.tables.data_table import MAX_FILTER, DataColumn, DataTable, field_of

#: Names of attributes of JavaScript's objects, and names with a special meaning for Tabulator.
ODD = ["constructor", "__proto__", "then", "index", "level_0", "", "0", "a.b", "Foo", "foo", "c_foo", "-2d-"]
FRAME = pd.DataFrame(
    {
        "uid": [f"u{at}" for at in range(10)],
        "text": [f"Text {at}" if at % 2 else f"text {at}" for at in range(10)],
        **{name: [float((at * 7) % 10) for at in range(10)] for name in ODD},
    }
)


@given(st.lists(st.text(st.characters(), max_size=30), unique=True))
def test_fields_are_plain_and_differ(names: list[str]) -> None:
    fields = [field_of(name) for name in names]
    assert len({*fields}) == len(names)
    assert all(re.fullmatch(r"c_[A-Za-z0-9_-]*", field) for field in fields)


@pytest.mark.parametrize(("name", "field"), [("reward", "c_reward"), ("a.b", "c_a-2e-b"), ("-", "c_-2d-")])
def test_a_plain_name_stays_legible(name: str, field: str) -> None:
    assert field_of(name) == field


@pytest.fixture
def picked() -> list[tuple[str, str]]:
    """Keys and columns of clicks."""
    return []


@pytest.fixture
def table(picked: list[tuple[str, str]]) -> DataTable:
    """Ten rows in pages of four."""
    columns = [DataColumn("text", filter="text"), *(DataColumn(name, filter="number") for name in ODD)]
    made = DataTable(columns, page_size=4, pick=lambda key, name: picked.append((key, name)))
    made.draw(FRAME)
    return made


def sent(table: DataTable, name: str) -> list[str | None]:
    """Return the cells of a column that the browser gets."""
    shown = [column["name"] for column in table.shape["columns"]]
    column = json.loads(table.rows)["cells"][shown.index(name)]
    if column and isinstance(column[0], list):
        return [column[0][int(digit)] for digit in column[1]]
    return list(column) if len(column) > 1 else list(column) * len(keys(table))


def keys(table: DataTable) -> list[str]:
    """Return the keys of the rows that the browser gets."""
    return list(json.loads(table.rows)["keys"])


def test_missing_and_infinite_values_are_sent_as_json() -> None:
    values = {
        "number": [math.nan, math.inf],
        "text": pd.Series(["a", math.nan], dtype=str),
        "mixed": pd.Series([None, -math.inf], dtype=object),
    }
    table = DataTable([DataColumn(name) for name in values])
    table.draw(pd.DataFrame({"uid": ["a", "b"], **values}))
    json.loads(table.rows, parse_constant=pytest.fail)
    cells = [sent(table, name) for name in values]
    assert cells == [["–", "∞"], ["a", None], [None, "-inf"]]


def test_one_page_is_sent(table: DataTable) -> None:
    assert (table.page, table.pages, keys(table)) == (1, 3, ["u0", "u1", "u2", "u3"])
    assert sent(table, "a.b") == ["0", "7", "4", "1"]
    table.receive({"page": 3})
    assert keys(table) == ["u8", "u9"]
    table.open_row(5)
    assert keys(table) == ["u4", "u5", "u6", "u7"]


@pytest.mark.parametrize("name", ODD)
def test_a_sort_and_a_filter_of_the_browser_name_the_column(table: DataTable, name: str) -> None:
    table.receive({"order": [[name, True]]})
    assert sent(table, name) == ["9", "8", "7", "6"]
    table.receive({"filters": {name: "8"}})
    assert sent(table, name) == ["9", "8"]
    assert list(table.current[name]) == [9.0, 8.0]
    assert (table.page, table.pages) == (1, 1)


def test_texts_are_sorted_and_filtered_without_their_case(table: DataTable) -> None:
    table.receive({"order": [["text", True]]})
    assert keys(table) == ["u9", "u8", "u7", "u6"]
    table.receive({"filters": {"text": "TEXT 1"}})
    assert keys(table) == ["u1"]


def test_equal_rows_keep_their_order(table: DataTable) -> None:
    frame = FRAME.assign(Foo=1.0)
    table.draw(frame, [("Foo", True)])
    assert table.current["uid"].tolist() == frame["uid"].tolist()


def test_a_click_names_a_key(table: DataTable, picked: list[tuple[str, str]]) -> None:
    table.receive({"pick": ["gone since", "Foo"]})
    assert picked == [("gone since", "Foo")]


WRONG: list[Any] = [
    None,
    [],
    "page",
    {"page": 0},
    {"page": 4},
    {"page": "2"},
    {"page": 1e300},
    {"pick": ["u1"]},
    {"pick": [1, 2]},
    {"order": "Foo"},
    {"order": [["no such column", True], ["Foo"], [["Foo"], True], ["Foo", "desc"], None]},
    {"filters": ["Foo"]},
    {"filters": {"no such column": "1", "Foo": 1, "foo": " "}},
]


@pytest.mark.parametrize("message", WRONG, ids=repr)
def test_a_wrong_message_changes_nothing(
    table: DataTable, picked: list[tuple[str, str]], message: Any
) -> None:
    before = table.rows
    table.receive(message)
    assert (table.rows, table.page, table.order, table.filters, picked) == (before, 1, [], {}, [])


def test_a_filter_that_is_no_number_leaves_all_numbers(table: DataTable) -> None:
    table.receive({"filters": {"Foo": "-", "text": "x" * 10 * MAX_FILTER}})
    assert len(table.filters["text"]) == MAX_FILTER
    assert len(table.current) == 0
    table.receive({"filters": {"Foo": "-"}})
    assert len(table.current) == 10


def test_other_rows_are_sent_without_new_columns(table: DataTable) -> None:
    before = table.shape
    table.draw(FRAME.assign(Foo=FRAME["Foo"] + 1.0))
    assert table.shape is before
    assert sent(table, "Foo") == ["1", "8", "5", "2"]


def test_columns_that_are_gone_neither_sort_nor_filter(table: DataTable) -> None:
    table.receive({"order": [["Foo", True], ["foo", True]]})
    table.receive({"filters": {"Foo": "8", "foo": "7"}})
    table.define([DataColumn("foo", filter="number"), DataColumn("text", hidden=True)])
    assert (table.order, table.filters) == ([("foo", True)], {"foo": "7"})
    assert keys(table) == ["u7", "u4", "u1"]
    assert [column["field"] for column in table.shape["columns"]] == ["c_foo"]


def test_columns_of_other_rows_replace_a_sorted_one(table: DataTable) -> None:
    table.receive({"order": [["Foo", True]]})
    table.define([DataColumn("other")])
    table.draw(pd.DataFrame({"uid": ["u0"], "other": ["new"]}))
    assert table.order == []
    assert (keys(table), sent(table, "other")) == (["u0"], ["new"])


def test_sessions_with_the_same_rows_share_their_text() -> None:
    one, two = (DataTable([DataColumn("text")], page_size=4) for _ in range(2))
    frame = FRAME.copy()
    one.draw(frame)
    two.draw(frame)
    assert one.rows is two.rows


def test_few_texts_of_a_column_are_sent_once_each() -> None:
    table = DataTable([DataColumn("state"), DataColumn("one"), DataColumn("all")])
    states = ["stop", "length", "stop", None, "stop", "stop", "stop", "stop"]
    table.draw(pd.DataFrame({"state": states, "one": "x", "all": [*"abcdefgh"], "uid": [*"abcdefgh"]}))
    assert [sent(table, name) for name in ("state", "one", "all")] == [states, ["x"] * 8, [*"abcdefgh"]]
    assert json.loads(table.rows)["cells"] == [[["stop", "length", None], "01020000"], ["x"], [*"abcdefgh"]]


def test_a_page_has_as_many_rows_as_fit_but_not_fewer_than_its_least() -> None:
    table = DataTable([DataColumn("n")], page_size=4, by_room=True)
    table.draw(pd.DataFrame({"n": range(30), "uid": [f"u{at}" for at in range(30)]}))
    table.receive({"page": 3})
    table.receive({"fits": 6})
    assert keys(table) == [f"u{at}" for at in range(6, 12)]
    assert (table.page, table.pages, table.page_size) == (2, 5, 6)
    table.receive({"fits": 2})
    assert (table.page_size, keys(table)[0]) == (4, "u4")
    table.receive({"fits": 10**9})
    assert len(keys(table)) == 30
    fixed = DataTable([DataColumn("n")], page_size=4)
    fixed.receive({"fits": 6})
    assert fixed.page_size == 4
