"""A filter gives the same result as pandas' `eval`, for expressions that both support."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.errors import FilterError
from rlpanel.store.query.filter import Filter, FilterInput, Labels

NUMBERS = ("reward", "kl_k3_mean", "response_tokens")
LABELS = ("split", "finish_reason")
NAMES = ("train", "eval", "length")
KINDS = dict.fromkeys(NUMBERS, "number") | dict.fromkeys(LABELS, "label")

#: Halves and whole numbers are exact, so both sides compute identical bits.
halves = st.integers(-20, 20).map(lambda n: n / 2)
values = st.one_of(halves, st.just(float("nan")))
comparison = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])


class Frame:
    """A data frame with the interface of a table that a filter runs on."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def __len__(self) -> int:
        return len(self._frame)

    def number(self, name: str) -> np.ndarray:
        return self._frame[name].to_numpy()

    def codes(self, name: str) -> Labels:
        return np.array([NAMES.index(text) for text in self._frame[name]], int), NAMES


@st.composite
def frames(draw: st.DrawFn) -> pd.DataFrame:
    rows = draw(st.integers(1, 8))
    several = {name: st.lists(values, min_size=rows, max_size=rows) for name in NUMBERS}
    several |= {name: st.lists(st.sampled_from(NAMES), min_size=rows, max_size=rows) for name in LABELS}
    return pd.DataFrame({name: draw(column) for name, column in several.items()})


terms = st.recursive(
    st.one_of(st.sampled_from(NUMBERS), halves.map(str)),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"{t[0]} {t[1]} {t[2]}"),
        inner.map(lambda t: f"({t})"),
    ),
    max_leaves=4,
)
#: One side is a column, since pandas returns a scalar for two constants.
tests = st.one_of(
    st.tuples(st.sampled_from(NUMBERS), comparison, terms).map(" ".join),
    st.tuples(terms, comparison, st.sampled_from(NUMBERS)).map(" ".join),
    st.tuples(halves.map(str), comparison, st.sampled_from(NUMBERS), comparison, halves.map(str)).map(
        " ".join
    ),
    st.tuples(st.sampled_from(LABELS), st.sampled_from(["==", "!="]), st.sampled_from(NAMES)).map(
        lambda t: f'{t[0]} {t[1]} "{t[2]}"'
    ),
    st.tuples(
        st.sampled_from(LABELS),
        st.sampled_from(["in", "not in"]),
        st.lists(st.sampled_from(NAMES), min_size=1),
    ).map(lambda t: f"{t[0]} {t[1]} {t[2]}"),
)
filters = st.recursive(
    tests,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join),
        inner.map(lambda t: f"not ({t})"),
        inner.map(lambda t: f"({t})"),
    ),
    max_leaves=6,
)


@given(frames(), filters)
def test_a_filter_finds_what_pandas_finds(frame: pd.DataFrame, text: str) -> None:
    expected = frame.eval(text, engine="python").to_numpy(bool)
    found = Filter(text, KINDS).evaluate(FilterInput(Frame(frame))).sure
    np.testing.assert_array_equal(found, expected, err_msg=text)


@given(st.text(max_size=60))
def test_any_text_is_a_filter_or_is_refused_in_words_at_its_place(text: str) -> None:
    assert 0 <= _wrong_at(text) <= len(text)


def _wrong_at(text: str) -> int:
    try:
        Filter(text, KINDS)
    except FilterError as error:
        return error.at
    return 0
