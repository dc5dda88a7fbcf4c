"""Lint rules in Chinese: what each finds, what to log, and what it says of a tokenizer."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from rlpanel.lint.lint_rule import missing_text
from rlpanel.lint.linter import LINT_RULES
from rlpanel.panels.language.finding_sentences import tr_lint
from rlpanel.panels.language.labels import CHINESE, tr, using
from rlpanel.panels.lint.lint_page import tr_log

_HAN = re.compile(r"[\u4e00-\u9fff]")
#: A word of prose: keys and options have underscores, capitals or hyphens.
_ENGLISH = re.compile(r"\b(the|of|and|are|its|each|beside|with|without)\b")


@pytest.mark.parametrize("rule", LINT_RULES.values(), ids=lambda rule: rule.name)
def test_title_formula_and_advice_of_each_rule_are_chinese(rule: object) -> None:
    with using(CHINESE):
        texts = [tr(rule.title), tr(rule.formula), tr_log(rule.otherwise)]  # type: ignore[attr-defined]
        missing = tr_log(missing_text(rule, Counter()))  # type: ignore[arg-type]
    assert all(_HAN.search(text) for text in texts), texts
    assert [text for text in (*texts, missing) if _ENGLISH.search(text)] == []


def test_advice_and_the_reason_of_the_tokenizer_are_translated_one_by_one() -> None:
    advice = LINT_RULES["advantage_sum"].otherwise
    problem = "the tokenizer 'org/model' is a path: name its file with --tokenizer"
    assert tr_log(f"{advice}; {problem}") == f"{advice}; {problem}"
    with using(CHINESE):
        assert tr_log(f"{advice}; {problem}") == f"{tr(advice)}; {tr_lint(problem)}".replace("; ", tr("; "))
        assert "'org/model'" in tr_lint(problem)


def test_an_unknown_text_stays_as_it_is() -> None:
    with using(CHINESE):
        assert tr_lint("a text of no rule") == "a text of no rule"
        assert tr_log("a text of no rule; logprobs") == f"a text of no rule{tr('; ')}logprobs"
