"""Tables as CSV: no text is a formula, and removing one apostrophe restores each text."""

from __future__ import annotations

import csv
import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.store.query.csv_text import csv_text

FORMULA = "=+-@＝＋－＠"
#: Characters that OWASP lists as dangerous at the start of a cell.
LEADING = [*FORMULA, "\t", "\r", "\n", "\0"]
#: Prefixes that a spreadsheet may drop before it looks for a formula.
DROPPED = ["", " ", "\t", "\r", "\n", "\u00a0", "\u3000", '"', "'", "\ufeff", "\u200b", "\0", " '\" "]


def cells(text: str) -> list[list[str]]:
    """The rows as Python's own reader takes them apart."""
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


@pytest.mark.parametrize("first", LEADING, ids=ascii)
def test_a_text_that_begins_like_a_formula_is_defused(first: str) -> None:
    text = f"{first}cmd|' /C calc'!A0"
    assert cells(csv_text(pd.DataFrame({"group": [text]}))) == [["group"], ["'" + text]]


@pytest.mark.parametrize("before", DROPPED, ids=ascii)
@pytest.mark.parametrize("first", FORMULA)
def test_nothing_before_the_sign_hides_it(before: str, first: str) -> None:
    text = f"{before}{first}1+1"
    assert cells(csv_text(pd.DataFrame({"group": [text]})))[1] == ["'" + text]


@pytest.mark.parametrize("text", ["a=1", "1-1", "x@y", "'quoted'", "", "月 = 1", "<b>", "(-1)"])
def test_a_text_that_is_no_formula_stays(text: str) -> None:
    assert cells(csv_text(pd.DataFrame({"group": [text], "n": [1]})))[1] == [text, "1"]


def test_numbers_stay_numbers_and_labels_of_digits_are_texts() -> None:
    frame = pd.DataFrame(
        {
            "reward": [-0.5, np.nan],
            "step": [-1, 2],
            "cut": [True, False],
            "group": ["-1", "1"],
            "kind": pd.Categorical(["-a", "b"]),
            "mixed": pd.Series([-1.5, "-1.5"], dtype=object),
        }
    )
    assert cells(csv_text(frame))[1:] == [
        ["-0.5", "-1", "True", "'-1", "'-a", "-1.5"],
        ["", "2", "False", "1", "b", "'-1.5"],
    ]


def test_a_column_name_is_defused_too() -> None:
    frame = pd.DataFrame({"=1+1": [-1.0], "'=1+1": [2.0], "plain": [3.0]})
    assert cells(csv_text(frame))[0] == ["'=1+1", "''=1+1", "plain"]
    assert cells(csv_text(frame, raw=True))[0] == ["=1+1", "'=1+1", "plain"]


def test_a_table_without_a_header_has_only_its_rows() -> None:
    assert csv_text(pd.DataFrame({"group": ["=1"]}), header=False) == "'=1\r\n"


def test_a_text_of_several_lines_is_one_cell() -> None:
    texts = ['a,"b"\n=1', "a\rb", "a\r\n+b", "\r", 'end"']
    frame = pd.DataFrame({"prompt": texts, "n": range(5)})
    assert [row[0] for row in cells(csv_text(frame))[1:]] == [*texts[:3], "'\r", texts[4]]
    assert [row[0] for row in cells(csv_text(frame, raw=True))[1:]] == texts


TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(FORMULA + "'\"\r\n\t ,;"))


@given(st.lists(TEXT, min_size=1), TEXT.filter(lambda name: name != "n"))
def test_the_raw_file_is_exact_and_the_other_differs_by_one_apostrophe(texts: list[str], name: str) -> None:
    frame = pd.DataFrame({name: pd.Series(texts, dtype=object), "n": range(len(texts))})
    raw, safe = cells(csv_text(frame, raw=True)), cells(csv_text(frame))
    assert [row[0] for row in raw] == [name, *texts]
    for (text, *_), (cell, *_) in zip(raw, safe, strict=True):
        assert cell in (text, "'" + text)
        stripped = text.lstrip(" \t\r\n'\"")
        assert (cell != text) or not stripped.startswith(tuple(FORMULA))


@given(st.lists(TEXT, min_size=2, max_size=2, unique=True))
def test_different_texts_stay_different(texts: list[str]) -> None:
    frame = pd.DataFrame({"text": pd.Series(texts, dtype=object)})
    assert len({row[0] for row in cells(csv_text(frame))[1:]}) == 2
