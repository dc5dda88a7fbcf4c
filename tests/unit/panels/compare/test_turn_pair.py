"""Two rollouts of several turns as HTML: where they part, the numbers from there on, and bounds."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest

from rlpanel.panels.compare.text_diff import response_side
from rlpanel.panels.compare.turn_pair import BUDGET, rollouts_html
from rlpanel.schema import Sample
from rlpanel.texts.prompt_parts import TextStyle

HOSTILE = "<img src=x onerror=alert(1)>"


def acts(tool: str, result: str = "ok", *, error: bool = False, **fields: Any) -> list[dict[str, Any]]:
    """Return a turn of the policy with a call, and the call's result."""
    call = {"name": tool, "arguments": json.dumps({"query": "q"})}
    asked = {"role": "assistant", "content": "", "tool_calls": [call], **fields}
    return [asked, {"role": "tool", "content": result, "is_error": error, "seconds": 2.0}]


def rollout(*messages: dict[str, Any], reward: float = 0.0) -> Sample:
    user = {"role": "user", "content": "go"}
    return Sample(uid="a:0", step=1, messages=(user, *messages), prompt_messages=1, reward=reward)


def drawn(here: Sample, there: Sample) -> str:
    sides = response_side(here), response_side(there)
    return next(rollouts_html((here, there), sides, TextStyle()))


def words(html: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", html)))


def test_the_turn_where_they_part_is_said_with_the_numbers_from_there_on() -> None:
    start = [*acts("ls"), *acts("read")]
    here = rollout(*start, *acts("search", "down", error=True, reward=-0.5), *acts("read"))
    said = words(drawn(here, rollout(*start, *acts("grep", reward=0.25))))
    assert "1 turn before: ls" in said
    assert 'read(query="q")' in said
    assert "same until turn 2" in said
    assert "first different turn: 3, another tool" in said
    table = "from turn 3 on turns calls failed calls sum of turn rewards logged seconds"
    assert f"{table} Response 2 2 1 −0.5 4 Response 1 1 0 +0.25 2" in said


def test_the_end_of_the_shorter_one_is_the_parting() -> None:
    said = words(drawn(rollout(*acts("ls"), *acts("read")), rollout(*acts("ls"))))
    assert "first different turn: 2, one of them ends here" in said


def test_rollouts_that_do_the_same_say_so_and_where_their_words_differ() -> None:
    here, there = (rollout(*acts("ls"), *acts("read", reasoning_content=text)) for text in ("a", "b"))
    assert "both do the same in all 2 turns" in words(drawn(here, here))
    assert "(the same calls; other words from turn 2 on)" in words(drawn(here, there))


def test_a_long_result_is_folded_and_a_very_long_one_is_cut_in_words() -> None:
    lines = "\n".join(f"line {n}" for n in range(20))
    said = words(
        drawn(rollout(*acts("ls", lines), *acts("a")), rollout(*acts("ls", lines), *acts("b", "x" * 9000)))
    )
    assert "6,000 more characters are not drawn" in said
    said = words(drawn(rollout(*acts("a", lines)), rollout(*acts("b", lines))))
    assert said.count("12 more lines") == 2


def test_texts_of_the_log_are_escaped() -> None:
    here = rollout(*acts(HOSTILE, HOSTILE, content=HOSTILE, reasoning_content=HOSTILE), *acts("x"))
    html = drawn(here, rollout(*acts("y", HOSTILE)))
    assert "<img" not in html
    assert "&lt;img" in html


@pytest.mark.parametrize("turns", [60, 200])
def test_what_is_drawn_of_long_rollouts_is_bounded(turns: int) -> None:
    """Both rollouts have 80,000 characters, of which the first quarter is the same."""
    text = "word " * (80_000 // turns // 5)

    def long(tool: str) -> Sample:
        names = ["ls" if n < turns // 4 else f"{tool}{n}" for n in range(turns)]
        return rollout(*(message for name in names for message in acts(name, text)))

    html = drawn(long("a"), long("b"))
    assert f"same until turn {turns // 4}" in html
    assert len(html) < 2 * BUDGET
    more = rollout(*(message for n in range(500) for message in acts(f"c{n}")))
    assert "300 more rows are not drawn" in drawn(more, long("a"))


def test_a_single_answer_is_compared_by_words_from_the_first_different_sentence_on() -> None:
    start = "It is the same sentence again and again. " * 20
    here, there = (
        Sample(uid="a:0", step=1, response=f"{start}So it is {answer}.") for answer in ("<b>", "four")
    )
    html = drawn(here, there)
    assert f"the same {len(start):,} characters before" in html
    assert "first different word: 184" in html
    assert "<div>So it is <ins>&lt;b&gt;</ins>.</div><div>So it is <del>four</del>.</div>" in html
