"""Answers that are read from responses, and their comparison with ground truths."""

from __future__ import annotations

import time

import pytest

from rlpanel.display_settings import ANSWER_RULES
from rlpanel.texts.final_answers import AUTO, RULES, answer_of, choose_rule, match_of

#: Responses as the conventions of data sets and trainers have them: rule, response, its answer.
RESPONSES = [
    ("boxed", r"so $x$ is \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
    ("boxed", r"\boxed{3}, no: \boxed{4}, or \boxed{5", "4"),
    ("boxed", r"\fbox{a}", "a"),
    ("tag", "<answer>1</answer> wait <answer> 14 </answer>", "14"),
    ("tag", "<ANSWER>14", "14"),
    ("hash", "48 + 24 = 72\n#### 72<|im_end|>\n", "72"),
    ("choice", "The answer is (B).", "B"),
    ("choice", "A good question. **Answer: D** because of C's size", "D"),
    ("choice", " b) or (C)", "C"),
    ("choice", "J", "J"),
    ("choice", "The answer is A good idea", None),
    ("number", "costs $1,234.50.", "1,234.50"),
    ("number", "x = 5-3", "3"),
    ("number", "(-3)", "-3"),
    ("number", "GPT4 says 1, 2 and 3/4", "3/4"),
    ("number", "1.5e-3 m", "1.5e-3"),
    ("number", "step_3", None),
    ("line", "I think so.\n\nParis</s>\n", "Paris"),
    ("line", "  \n", None),
]


@pytest.mark.parametrize(("rule", "response", "answer"), RESPONSES)
def test_each_rule_reads_the_answer_as_its_convention_has_it(
    rule: str, response: str, answer: str | None
) -> None:
    assert answer_of(response, RULES[rule]) == answer


def test_thoughts_and_what_tools_wrote_hold_no_answer() -> None:
    agent = '[assistant] I try 3.\n[call] add({"a": 2})\n[tool] 41\n[assistant] It is 5.\n[tool] 7'
    assert answer_of(agent, RULES["number"]) == "5"
    assert answer_of("[assistant] I try 3\n[tool] 41", RULES["number"]) == "3"
    assert answer_of('[assistant] [call] add({"a": 2})\n[tool] 4', RULES["number"]) is None
    assert (
        answer_of("<tool_call>x</tool_call><tool_response>4</tool_response>It is 6", RULES["number"]) == "6"
    )
    assert answer_of(r"<think>\boxed{1}</think> \boxed{2}", RULES["boxed"]) == "2"
    assert answer_of(r"<think>\boxed{1}</think> so", RULES["boxed"]) is None


@pytest.mark.parametrize(
    ("answer", "truth", "match"),
    [
        ("1,000.0", "1000", "yes"),
        (r"\frac{1}{2}", "0.5", "yes"),
        (r"\dfrac12", "1/2", "yes"),
        ("1e3", "1000", "yes"),
        ("$14$.", "14", "yes"),
        ("−7", "-7", "yes"),
        ("-7", "7", "no"),
        ("0.333", "1/3", "no"),
        (r"50\%", "50", "yes"),
        ("14 apples", "14", "yes"),
        ("14 cm", "15 cm", "no"),
        ("1 km", "1000 meters", "unclear"),
        (r"10\text{ cm}^2", "10 cm²", "yes"),
        ("2x", "2", "unclear"),
        ("(B)", "b", "yes"),
        ("C", "(D)", "no"),
        (r"\text{Paris}", "paris", "yes"),
        ("Paris", "London", "no"),
        ("Paris", "the city of Paris", "unclear"),
        ("白云", "白雨", "no"),
        ("x+1", "1+x", "unclear"),
        ("2.83", r"2\sqrt{2}", "unclear"),
        (r"\left( 1,\, 2 \right)", "(1,2)", "yes"),
        ("14", '["13", "14"]', "yes"),
        ("15", "[13, 14]", "no"),
        ("72", "48 + 24 = 72\n#### 72", "yes"),
        ("72", r"so \boxed{73}", "no"),
        ("72", "x" * 400, "unclear"),
        (None, "72", "unclear"),
        ("72", None, None),
        ("72", " ", None),
    ],
)
def test_an_answer_equals_differs_or_cannot_be_compared(
    answer: str | None, truth: str | None, match: str | None
) -> None:
    assert match_of(answer, truth) == match


def test_the_rule_that_equals_most_truths_is_chosen() -> None:
    boxed = [(rf"I have 3 of 5, so \boxed{{{n}}}", str(n)) for n in range(10)]
    chosen = choose_rule([*boxed, ("cut, at 4", "4"), ("no truth", "")])
    assert chosen is not None
    assert (chosen.rule.key, chosen.samples) == ("boxed", 11)
    assert chosen.equal["boxed"] == 10
    assert chosen.equal["number"] == 11
    numbers = choose_rule([*boxed, ("cut, at 4", "4"), ("or 5", "5"), ("so 6", "6")])
    assert numbers is not None
    assert numbers.rule.key == "number"


def test_without_a_right_answer_the_rule_that_can_be_compared_is_chosen() -> None:
    shifted = choose_rule([(f"so {n}.\n#### {n}", str(n + 352)) for n in range(5)])
    assert shifted is not None
    assert shifted.rule.key == "hash"
    assert choose_rule([("42", ""), ("43", " ")]) is None


@pytest.mark.parametrize(
    "piece",
    [
        " ",
        "(",
        "[tool] ",
        "\\boxed{",
        "<answer>",
        "1,",
        "<|",
        "[",
        '"',
        "$",
        "-",
        "1",
        "1/",
        "answer ",
        "\\text{",
    ],
)
def test_hostile_texts_are_read_in_time(piece: str) -> None:
    text = piece * (400_000 // len(piece))
    started = time.process_time()
    for rule in RULES.values():
        match_of(answer_of(text, rule), text)
        match_of(answer_of(text, rule), text[:299])
    assert time.process_time() - started < 2


def test_the_settings_offer_each_rule() -> None:
    assert [*ANSWER_RULES.values()] == [AUTO, *RULES]


def test_texts_without_an_answer_have_no_rule() -> None:
    poems = [(f"the river sings of night {n}\nand of the moon", "my heart goes drifting") for n in range(6)]
    assert choose_rule(poems) is None
    assert choose_rule([*poems, ("and so\nmy heart goes drifting", "my heart goes drifting")]) is not None
