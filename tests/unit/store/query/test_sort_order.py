"""The grid's sort order as a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.store.query.query import Order, parse_order


@given(st.text("ab-`. ", max_size=6), st.booleans())
def test_what_is_written_is_read_again(name: str, falling: bool) -> None:
    assert parse_order(Order(name, falling).text) == Order(name, falling)


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("", None),
        ("-", None),
        ("reward", Order("reward")),
        ("-reward", Order("reward", falling=True)),
        ("`-reward`", Order("-reward")),
        ("-``", Order("", falling=True)),
        ("`", Order("`")),
    ],
)
def test_links_of_before_are_read_as_before(text: str, order: Order | None) -> None:
    assert parse_order(text) == order
