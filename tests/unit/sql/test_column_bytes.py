"""Columns of a result come back with the types and values that duckdb gave them."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rlpanel.errors import QueryError
from rlpanel.sql.column_messages import column_from_arrays, column_to_arrays, receive, send

duckdb = pytest.importorskip("duckdb")

VALUES = [
    *("1", "1::tinyint", "1::ubigint", "1.5::float", "1.5::decimal(10, 2)", "true", "'x'", "null"),
    *("'x'::enum('x', 'y')", "'6f1ed002-ab5f-11d9-9669-0800200c9a66'::uuid", "time '10:00:00'"),
    *("date '2020-01-01'", "timestamp '2020-01-01'", "timestamp_ns '2020-01-01'", "interval 1 day"),
    *("timestamptz '2020-01-01'", "'ab'::blob", "'101'::bit", "[1, 2]", "[1, null]", "['a', null]"),
    *("[[1], [2]]", "{'a': 1, 'b': [1.5]}", "map {'a': 1}", "[{'a': 1}]", "union_value(a := 1)"),
    *("'{}'::json", "[date '2020-01-01']", "[interval 1 day]", "{'a': date '2020-01-01'}", "[true, null]"),
    *("{'a': 170141183460469231731687303715884105727}", "['ab'::blob]", "'dict'", "['dict', 'x']"),
    *("'\U0001f600 \"quoted\" \\ , \n'", "'nan'::double", "'inf'::double", "[time '10:00:00']"),
]


def there_and_back(values: pd.Series) -> pd.Series:
    """Return a column after it was written to a stream and read from it."""
    stream = io.BytesIO()
    found, arrays, size = column_to_arrays(values)
    assert size >= sum(array.nbytes for array in arrays)
    send(stream, {"column": found}, arrays)
    stream.seek(0)
    head, arrays = receive(stream)
    return pd.Series(column_from_arrays(head["column"], arrays), name=values.name)


@pytest.fixture(scope="module")
def connection() -> Any:
    return duckdb.connect()


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("rows", ["({})", "({}), (null)"])
def test_a_column_stays_equal(connection: Any, value: str, rows: str) -> None:
    query = f"select * from (values {rows.format(value)}) as t(x)"
    values = connection.execute(query).fetch_df_chunk(1).x
    found = there_and_back(values)
    pd.testing.assert_series_equal(found, values)
    assert repr(found.tolist()) == repr(values.tolist())


def test_a_column_without_rows_keeps_its_type() -> None:
    with duckdb.connect() as connection:
        frame = connection.execute("select 1 as a, 'x' as b, [1] as c where false").fetch_df_chunk(1)
    for name in frame:
        pd.testing.assert_series_equal(there_and_back(frame[name]), frame[name])


def test_a_value_of_another_type_is_an_error() -> None:
    with pytest.raises(QueryError, match="complex cannot be returned: cast them to varchar"):
        column_to_arrays(pd.Series([1j], dtype=object))


def test_a_message_holds_no_objects() -> None:
    stream = io.BytesIO(b'{"head": {}, "arrays": [["|O", 1]]}\n' + bytes(8))
    with pytest.raises(ValueError, match="an array of object is not sent"):
        receive(stream)


@pytest.mark.parametrize("missing", [1, 9, 30])
def test_a_message_that_was_cut_off_is_an_error(missing: int) -> None:
    stream = io.BytesIO()
    send(stream, {}, [np.zeros(2)])
    with pytest.raises(EOFError):
        receive(io.BytesIO(stream.getvalue()[:-missing]))
