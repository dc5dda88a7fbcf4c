"""The places of a text that a test looks for."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.store.query.text_predicate import (
    ANY,
    MAX_PLACES,
    PATTERN_SECONDS,
    PlaceFinder,
    TextPredicate,
    fold,
    forms_of,
)


def found(word: str, value: str, text: str) -> list[str]:
    return [text[start:end] for start, end in TextPredicate(ANY, word, value).places(text)]


@pytest.mark.parametrize(
    ("word", "value", "text", "places"),
    [
        ("contains", "cat", "Cat, cat and CAT", ["Cat", "cat", "CAT"]),
        ("contains", "K", "\u212a K k", ["K", "k"]),
        ("contains", "x", "İİx", ["x"]),
        ("contains", "aa", "aaaaa", ["aa", "aa"]),
        ("contains", ".", "a.b", ["."]),
        ("contains", "dog", "cat", []),
        ("matches", r"\d+", "1 and 23", ["1", "23"]),
        ("matches", r"\d*", "a1", ["1"]),
        ("startswith", "A", "abc a", ["a"]),
        ("endswith", "C", "abc", ["c"]),
        ("==", "abc", "abc", ["abc"]),
        ("==", "abc", "abcd", []),
        ("missing", "", "abc", []),
        ("contains", "caf\xe9", "Cafe\u0301 CAF\xc9", ["Cafe\u0301", "CAF\xc9"]),
        ("contains", "cafe\u0301", "Cafe\u0301 CAF\xc9", ["Cafe\u0301", "CAF\xc9"]),
        ("startswith", "\xe9", "E\u0301t\xe9", ["E\u0301"]),
        ("endswith", "\xe9", "ete\u0301", ["e\u0301"]),
        ("==", "\xe9", "e\u0301", ["e\u0301"]),
    ],
)
def test_places_are_where_the_text_passes(word: str, value: str, text: str, places: list[str]) -> None:
    assert found(word, value, text) == places


@given(st.text(max_size=20), st.text(min_size=1, max_size=3))
def test_a_text_that_contains_a_value_has_a_place(text: str, value: str) -> None:
    test = TextPredicate(ANY, "contains", value)
    assert bool(test.places(text)) == test.passes(text)
    forms = {fold(form) for form in (value, *forms_of(value))}
    assert all(fold(text[start:end]) in forms for start, end in test.places(text))


def test_only_the_first_places_are_found() -> None:
    assert len(found("contains", "a", "a" * 1000)) == MAX_PLACES


def test_a_pattern_that_takes_too_long_finds_nothing() -> None:
    assert found("matches", "(a+)+$", "a" * 40 + "b") == []


def test_the_time_limit_holds_for_all_texts_together() -> None:
    tests = [TextPredicate(ANY, "matches", "(a+)+$"), TextPredicate(ANY, "contains", "b")]
    finder, text = PlaceFinder(tests), "a" * 40 + "b"
    started = time.process_time()
    assert [finder.places("response", text) for _ in range(40)] == [[(40, 41)]] * 40
    assert time.process_time() - started < 10 * PATTERN_SECONDS  # 40 times this, for each text alone


def test_places_of_several_tests_are_in_order_and_do_not_overlap() -> None:
    tests = [
        TextPredicate(ANY, "contains", "two three"),
        TextPredicate("prompt", "contains", "one two"),
        TextPredicate("response", "contains", "four"),
    ]
    assert PlaceFinder(tests).places("prompt", "one two three four") == [(0, 7)]
    assert PlaceFinder(tests).places("response", "one two three four") == [(4, 13), (14, 18)]
