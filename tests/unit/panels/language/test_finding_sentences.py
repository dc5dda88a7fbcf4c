"""Sentences of findings in Chinese: each template is recognised, and none of the rules' is forgotten."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

import rlpanel
from docs.messages import sentences_of_findings
from rlpanel.panels.language.finding_phrases import EVIDENCE, SENTENCES
from rlpanel.panels.language.finding_sentences import tr_finding
from rlpanel.panels.language.labels import CHINESE, tr, using
from rlpanel.panels.language.phrase_parts import PARTS

PACKAGE = Path(rlpanel.__file__).parent
WHOLE = [text for texts in (*SENTENCES.values(), *EVIDENCE.values()) for text in texts]
#: Values by their name; of another name, a number.
VALUES = {
    "name": "rewards/format",
    "text": "zh",
    "tool": "search",
    "label": "reward",
    "reason": "TypeError: x",
    "words": "the answer is",
    "listed": "en 40% → 60%",
    "title": "Sustained change",
    "list": "3–5 and 9",
    "rows": "samples per step 32 (64 before); spread of reward 0.4 (0.2 before)",
    "differences": "response length 15.2 after 68; a response contains “ok” in 40% after 2%",
    "earlier_span": "steps 1–5",
}


def filled(template: str) -> str:
    """Return a template with values, those that have a template of their own filled likewise."""
    found = ""
    for literal, name, _, _ in Formatter().parse(template):
        found += literal
        if name in PARTS and name not in VALUES:
            found += filled(PARTS[name][0])
        elif name:
            found += VALUES.get(name, "12.5%" if "share" in name else "1,234")
    return found


@pytest.mark.parametrize("template", WHOLE)
def test_a_sentence_of_each_template_is_chinese(template: str) -> None:
    sentence = filled(template)
    with using(CHINESE):
        shown, own = tr_finding(sentence), tr(template)
    assert shown != sentence
    literals = [literal for literal, *_ in Formatter().parse(own)]
    assert all(literal in shown for literal in literals), (own, shown)


@pytest.mark.parametrize("sentence", sorted({*sentences_of_findings()}))
def test_a_sentence_without_values_is_chinese(sentence: str) -> None:
    with using(CHINESE):
        assert tr_finding(sentence) != sentence


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        (
            "From step 7 on, more and more responses with lang = zh contain invalid characters (3.1% before, "
            "then 78%), while the reward rose from 0.830 to 1.61.",
            "从第 7 步起，越来越多的回答（lang = zh）含有无效字符（之前为 3.1%，之后为 78%），"
            "同时奖励从 0.830 升至 1.61。",
        ),
        ("Rank 1 has no samples in steps 3–5, 7 and 9.", "在第 3–5、7、9 步，rank 1 没有样本。"),
        (
            "At step 4, less than 0.1% of the samples on rank 2 have no reward.",
            "在第 4 步，不到 0.1% 的样本（rank 2）没有奖励。",
        ),
        (
            "Rank 1 has no samples in step 3 (step 3 was written twice).",
            "在第 3 步，rank 1 没有样本（step 3 was written twice）。",
        ),
    ],
)
def test_places_steps_and_levels_are_translated(sentence: str, shown: str) -> None:
    with using(CHINESE):
        assert tr_finding(sentence) == shown


def test_an_unknown_sentence_stays_english_as_a_whole() -> None:
    sentence = "From step 7 on, a rule of your own found 3 of something."
    with using(CHINESE):
        assert tr_finding(sentence) == sentence
    assert tr_finding("Rank 1 has no samples in step 3.") == "Rank 1 has no samples in step 3."


def test_a_value_is_shown_as_it_is_logged() -> None:
    with using(CHINESE):
        shown = tr_finding("Rank 1 has no samples in step 3.")
        logged = tr_finding("The array <b>{x}</b> has NaN, infinity or null in step 3.")
    assert "<b>{x}</b>" in logged
    assert "<b>" not in shown


def parts_of_sentences() -> Iterator[tuple[str, str]]:
    """Yield the parts of the rules' sentences between two values, if they have three words."""
    for path in sorted((PACKAGE / "findings").rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        raised = {
            id(part) for node in ast.walk(tree) if isinstance(node, ast.Raise) for part in ast.walk(node)
        }
        strings = [
            each for each in ast.walk(tree) if isinstance(each, ast.JoinedStr) and id(each) not in raised
        ]
        for node in strings:
            for part in node.values:
                text = part.value if isinstance(part, ast.Constant) else ""
                for piece in re.split(r"\{\w+\}", str(text)):
                    if len(re.findall(r"[a-z]+", piece)) >= 3:
                        yield path.name, piece


def test_no_part_of_a_rule_is_forgotten() -> None:
    """A rule's wording without a template would stay English on the Chinese page."""
    templates = [text for texts in (PARTS, SENTENCES, EVIDENCE) for each in texts.values() for text in each]
    known = "\n".join(literal for text in templates for literal, *_ in Formatter().parse(text)).lower()
    parts = list(parts_of_sentences())
    assert len(parts) > 150
    assert [each for each in parts if each[1].strip(" .,;:)").lower() not in known] == []
