"""Regular expressions of users are bounded before they are compiled: compiling copies what is repeated."""

from __future__ import annotations

import time

import pytest

from rlpanel.errors import FilterError
from rlpanel.store.query.filter import LABEL, TEXT, Filter
from rlpanel.store.query.text_predicate import ANY, MAX_WRITTEN_OUT, TextPredicate, written_out

#: Not too large to try, so that this test fails without the limit, and does not end the machine.
EXPLOSIVE = [
    "((a?){199}){199}",
    "(((a?){39}){39}){39}",
    "(a?){2999}" * 10,
    "(" * 16 + "a" + ")+" * 16,
    "(?:" * 16 + "a" + "){1,}" * 16,
    "[[a-z]--[b]]" + "((a?){199}){199}",
    "[a-||](" + "(a?){199}){199}]",
    r"[\]](" + "(a?){199}){199}",
    "((a?){199})(?#x){199}",
    "((a?){199})(?i){199}",
    "(?<n>(a?){199}){199}?",
    "(?i)[\0-\uffff]{2000}",
    f"((a?){{{'9' * 200}}}){{{'9' * 200}}}",
]


@pytest.mark.parametrize("pattern", EXPLOSIVE)
def test_an_explosive_expression_is_refused_before_it_is_compiled(pattern: str) -> None:
    started = time.process_time()
    with pytest.raises(FilterError, match=f"at most {MAX_WRITTEN_OUT:,} are allowed"):
        TextPredicate(ANY, "matches", pattern)
    assert time.process_time() - started < 0.2


@pytest.mark.parametrize(
    "pattern",
    [
        r"(\d{1,3}\.){3}\d{1,3}",
        "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        r"(?i)(?:\w+\s+){3,}because",
        r"(\w+,\s*)+(\w+;\s*)+(\w+:\s*)+(\w+!\s*)+",
        ".{0,5000}end",
        ".{2000}",
        r"\{99999\}",
        "[{99999}]",
        "(?:correct){e<=2}",
        r"\((?:[^()]|(?R))*\)",
        "[[:alpha:]]{3}",
    ],
)
def test_an_expression_that_people_write_is_accepted(pattern: str) -> None:
    TextPredicate(ANY, "matches", pattern)


@pytest.mark.parametrize("pattern", ["(?V0)a", "(?a)(?u)x", r"\L<x>", "(?P<a", "(?(9)a)", "[z-a]", "a{9}{9}"])
def test_an_invalid_expression_says_so(pattern: str) -> None:
    with pytest.raises(FilterError, match="not a valid regular expression"):
        TextPredicate(ANY, "matches", pattern)


def test_the_flag_for_comments_is_refused_by_name() -> None:
    with pytest.raises(FilterError, match=r"\(\?x\) is not available"):
        TextPredicate(ANY, "matches", "(?ix) ((a?) {99} ) # [ \n {99}")


def test_the_expressions_of_one_filter_are_bounded_together() -> None:
    one = 'response matches "(a?){2000}"'
    Filter(one, {"response": TEXT})
    with pytest.raises(FilterError, match="too many"):
        Filter(" or ".join([one, one]), {"response": TEXT})


def test_a_filter_knows_whether_it_may_take_long() -> None:
    assert Filter('tag matches "a"', {"tag": LABEL}).patient
    assert not Filter('tag contains "a"', {"tag": LABEL}).patient


def test_what_is_written_out_counts_each_copy() -> None:
    assert written_out("a{9}") == 10  # nine, and one for the rest
    assert written_out("(ab)+") == 8
    assert written_out("(ab)*") == written_out("(ab)?") == written_out("(ab){0,9}") == 4
