"""Filters: results, rows that need their texts, and error messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from rlpanel.errors import FilterError
from rlpanel.store.query.filter import Filter, FilterInput
from rlpanel.store.query.filter_syntax import conditions_of
from rlpanel.store.query.text_predicate import TextPredicate

KINDS = {
    "reward": "number",
    "kl_k3_mean": "number",
    "response_tokens": "number",
    "format/ok": "number",
    "finish_reason": "label",
    "response": "text",
}
NAN = float("nan")


class Rows:
    """Five samples."""

    numbers: Mapping[str, Sequence[float]] = {
        "reward": [-1, 0, 1, 2, NAN],
        "kl_k3_mean": [5, 4, 3, 2, 1],
        "response_tokens": [600, 10, 700, 20, 800],
        "format/ok": [1, 0, 1, 0, 1],
    }

    def __len__(self) -> int:
        return 5

    def number(self, name: str) -> np.ndarray:
        return np.array(self.numbers[name], float)

    def codes(self, name: str) -> tuple[np.ndarray, Sequence[str]]:
        return np.array([0, 1, 0, -1, 1]), ["length", "stop"]


def found(text: str) -> list[int]:
    return np.flatnonzero(Filter(text, KINDS).evaluate(FilterInput(Rows())).sure).tolist()


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("reward < 0 and response_tokens > 500", [0]),
        ("reward < 0 or reward > 1", [0, 3]),
        ("not (reward < 0 or reward > 1)", [1, 2, 4]),
        ("NOT reward >= 0 AND kl_k3_mean > 1", [0]),
        ("reward > 0 or reward < 0 and kl_k3_mean > 9", [2, 3]),
        ("0 <= reward < 2", [1, 2]),
        ("reward = 1", [2]),
        ("reward in [-1, 2]", [0, 3]),
        ("reward not in [-1, 2]", [1, 2, 4]),
        ("missing(reward)", [4]),
        ("reward + kl_k3_mean * 2 == 9", [0]),
        ("kl_k3_mean - reward > 2", [0, 1]),
        ("-reward == 1", [0]),
        ("`format/ok` == 1", [0, 2, 4]),
        ("`format/ok` == true", [0, 2, 4]),
        ("kl_k3_mean > p50", [0, 1]),
        ("p50 > kl_k3_mean", [3, 4]),
        ("reward >= p75", [3]),
        ('finish_reason == "length"', [0, 2]),
        ('finish_reason != "length"', [1, 3, 4]),
        ("'stop' == finish_reason", [1, 4]),
        ('finish_reason in ["stop", "length"]', [0, 1, 2, 4]),
        ("finish_reason in []", []),
        ('finish_reason contains "ENG"', [0, 2]),
        ('finish_reason not startswith "s"', [0, 2, 3]),
        ('finish_reason endswith "p"', [1, 4]),
        ('finish_reason matches "^l.*h$"', [0, 2]),
        ("missing(finish_reason)", [3]),
    ],
)
def test_a_filter_finds(text: str, rows: list[int]) -> None:
    assert found(text) == rows


def test_a_percentile_is_of_its_own_column_and_told() -> None:
    asked = FilterInput(Rows())
    Filter("kl_k3_mean > p25", KINDS).evaluate(asked)
    assert asked.percentiles == {"kl_k3_mean p25": 2.0}


def test_a_percentile_that_was_told_before_is_kept() -> None:
    asked = FilterInput(Rows(), percentiles={"kl_k3_mean p25": 4.5})
    assert np.flatnonzero(Filter("kl_k3_mean > p25", KINDS).evaluate(asked).sure).tolist() == [0]


def test_what_needs_a_text_is_open_until_it_is_read() -> None:
    made = Filter('reward > 0 and not response contains "x" or reward < 0', KINDS)
    sure, maybe = made.evaluate(FilterInput(Rows()))
    assert (np.flatnonzero(sure).tolist(), np.flatnonzero(maybe).tolist()) == ([0], [0, 2, 3])


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("  ", []),
        ("reward > 1", ["reward > 1"]),
        (
            "reward > 1 and not (a or b = 2) AND c in [1, 2]",
            ["reward > 1", "not (a or b = 2)", "c in [1, 2]"],
        ),
        ('response contains "x and y" and (reward > 1 and reward < 2)', None),
        ("reward > 1 or a = 2 and b = 3", ["reward > 1 or a = 2 and b = 3"]),
        ("(reward > 1 and reward < 2)", ["(reward > 1 and reward < 2)"]),
        ("reward > and", ["reward > and"]),
    ],
)
def test_a_filter_is_taken_apart_at_its_ands(text: str, parts: list[str] | None) -> None:
    wanted = ['response contains "x and y"', "(reward > 1 and reward < 2)"] if parts is None else parts
    assert conditions_of(text) == wanted


def test_what_needs_a_text_is_settled_once_it_is_read() -> None:
    made = Filter('reward > 0 and not response contains "x" or reward < 0', KINDS)
    texts = {TextPredicate("response", "contains", "x"): np.array([0, 0, 1, 0, 0], bool)}
    sure, maybe = made.evaluate(FilterInput(Rows(), texts))
    assert np.flatnonzero(sure).tolist() == np.flatnonzero(maybe).tolist() == [0, 3]


@pytest.mark.parametrize(
    ("text", "said", "at"),
    [
        ("rewrd > 1", "no column 'rewrd'; did you mean reward?", 0),
        ("reward > 1 and kl_mean > 1", "did you mean kl_k3_mean?", 15),
        ("zzz > 1", "there is no column 'zzz'", 0),
        ("finish_reason == length", 'write a text in quotes: "length"', 17),
        ("reward > 1 & reward < 2", "write and", 11),
        ("reward", "reward is a value: compare it with something", 0),
        ('reward > "x"', "reward holds numbers", 0),
        ('reward contains "x"', "contains is for texts, but reward is a number", 0),
        ('finish_reason < "x"', "texts are compared with == and !=", 0),
        ("finish_reason + 1 > 2", "finish_reason is a text, but a number is expected", 0),
        ("(reward > 1", "')' is expected at the end", 11),
        ("reward > 1 reward", "'reward' is not expected here", 11),
        ("reward >", "is expected at the end", 8),
        ('response matches "(a"', "not a valid regular expression", 17),
        ('finish_reason == "length', 'the text has no closing "', 17),
        ("p50 < p60", "must be alone on one side", 6),
        ("(reward > 1) + 1 > 0", "not a condition", 1),
        ("reward in [kl_k3_mean]", "a list may only hold numbers and texts", 11),
        ("__import__('os') > 1", "'(' is not expected", 10),
        ("reward.__class__ > 1", "'.' is not understood", 6),
        ("(" * 100 + "reward > 1" + ")" * 100, "nested more than 30 levels deep", 31),
        ("not " * 100 + "reward > 1", "nested more than 30 levels deep", 124),
        ("reward > 1 and " * 400, "at most 2,000 characters", 2000),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, said: str, at: int) -> None:
    with pytest.raises(FilterError) as error:
        Filter(text, KINDS)
    assert said in str(error.value)
    assert error.value.at == at


def test_a_regular_expression_that_never_ends_is_given_up() -> None:
    with pytest.raises(FilterError, match="was stopped after"):
        TextPredicate("", "matches", "(a|aa)+$").passes_sample({"response": "a" * 80 + "b"})
