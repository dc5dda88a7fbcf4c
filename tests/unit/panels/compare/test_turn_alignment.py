"""Two rollouts turn by turn: every message is shown, and what is equal is what difflib finds equal."""

from __future__ import annotations

import random
from dataclasses import replace
from difflib import SequenceMatcher

import pytest

from rlpanel.panels.compare.turn_pair import (
    CALLS,
    ENDS,
    OTHER_ARGUMENTS,
    OTHER_OUTCOME,
    OTHER_ROLE,
    OTHER_TOOL,
    OTHER_WORDS,
    TurnAlignment,
    align_turns,
    response_blocks,
    totals,
)
from rlpanel.panels.conversation.blocks import MessageBlock, ToolCallBlock, ToolResult
from rlpanel.schema import Sample


def turn(number: int, tool: str = "", arguments: str = "{}", *, failed: bool = False, text: str = "",
         reasoning: str = "") -> MessageBlock:  # fmt: skip
    """Return a turn of the policy with at most one call."""
    result = ToolResult("result", failed, inferred=False, seconds=0.5)
    calls = [ToolCallBlock(tool, f"{tool}({arguments})", arguments, result=result)] if tool else []
    return MessageBlock("assistant", turn=number, text=text, reasoning=reasoning, calls=calls)


def turns(tools: str) -> list[MessageBlock]:
    """Return a turn for each letter, which is the name of its tool."""
    return [turn(place, tool) for place, tool in enumerate(tools, 1)]


def equal_pairs(found: TurnAlignment) -> list[tuple[int | None, int | None]]:
    return [(row.left, row.right) for row in found.rows if row.same]


def made(chance: random.Random) -> tuple[str, str]:
    """Return two rollouts of a few tools: a common beginning, and what each of them does then."""
    common, here, there = ("".join(chance.choices("abcd", k=chance.randint(0, 12))) for _ in range(3))
    return common + here, common + there


def test_every_message_stands_in_its_order_on_its_side() -> None:
    chance = random.Random(0)
    for _ in range(300):
        here, there = made(chance)
        rows = align_turns(turns(here), turns(there)).rows
        assert [row.left for row in rows if row.left is not None] == list(range(len(here)))
        assert [row.right for row in rows if row.right is not None] == list(range(len(there)))
        assert all(here[row.left or 0] == there[row.right or 0] for row in rows if row.same)


def test_the_parting_is_the_end_of_the_longest_common_beginning() -> None:
    chance = random.Random(1)
    for _ in range(300):
        here, there = made(chance)
        shared = max(n for n in range(len(here) + 1) if there.startswith(here[:n]))
        wanted = None if here == there else shared
        assert align_turns(turns(here), turns(there)).parting == wanted
        assert align_turns(turns(there), turns(here)).parting == wanted


def test_equal_turns_are_those_that_difflib_finds() -> None:
    """Each tool is used at most once and in the same order, so there is one best alignment."""
    chance = random.Random(2)
    for _ in range(300):
        every = [chr(ord("A") + place) for place in range(50)]
        here, there = ("".join(name for name in every if chance.random() < 0.7) for _ in range(2))
        blocks = SequenceMatcher(None, here, there, autojunk=False).get_matching_blocks()
        wanted = [(b.a + at, b.b + at) for b in blocks for at in range(b.size)]
        assert equal_pairs(align_turns(turns(here), turns(there))) == wanted


@pytest.mark.parametrize(
    ("here", "there", "reason"),
    [
        ([turn(1, "a")], [turn(1, "b")], OTHER_TOOL),
        ([turn(1, "a")], [turn(1, "a", '{"x": 1}')], OTHER_ARGUMENTS),
        ([turn(1, "a")], [turn(1, "a", failed=True)], OTHER_OUTCOME),
        ([turn(1, "a")], [turn(1, text="done")], CALLS),
        ([turn(1, text="yes")], [turn(1, text="no")], OTHER_WORDS),
        ([turn(1, text="yes")], [MessageBlock("user", text="yes")], OTHER_ROLE),
        ([turn(1, "a")], [], ENDS),
        ([turn(1, "a")], [turn(1, "a", reasoning="else")], ""),
    ],
)
def test_how_two_rollouts_part_is_said(
    here: list[MessageBlock], there: list[MessageBlock], reason: str
) -> None:
    start = [turn(0, "start")]
    assert align_turns(start + here, start + there).reason == reason
    assert align_turns(start + there, start + here).reason == reason


def test_other_words_of_the_same_calls_are_found_before_the_parting() -> None:
    here, there = turns("abc"), turns("abd")
    assert align_turns(here, there).words is None
    there[1] = replace(there[1], reasoning="another thought")
    assert align_turns(here, there).words == 1


def test_the_numbers_of_turns_count_calls_failures_rewards_and_seconds() -> None:
    blocks = [
        replace(turn(1, "a", failed=True), reward=-0.5, seconds=2.0),
        replace(turn(2, "b"), reward=0.25),
    ]
    found = totals(blocks)
    assert (found.turns, found.calls, found.failed, found.reward, found.seconds) == (2, 2, 1, -0.25, 3.0)
    empty = totals([])
    assert (empty.turns, str(empty.reward), str(empty.seconds)) == (0, "nan", "nan")


def test_the_messages_before_the_response_are_left_out() -> None:
    messages = ({"role": "user", "content": "go"}, {"role": "assistant", "content": "done"})
    sample = Sample(uid="log.jsonl:0", step=1, messages=messages, prompt_messages=1)
    assert [(block.role, block.turn) for block in response_blocks(sample)] == [("assistant", 1)]
