"""Aligns the turns of two rollouts of one prompt, and says where and how they part.

Two turns are the same if the policy did the same: the same calls with the same outcome, or, without calls,
the same text. Policies that sample hardly ever repeat their reasoning word for word.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

from rlpanel.analysis.text_turns import conversation_of
from rlpanel.panels.compare.text_diff import align
from rlpanel.panels.conversation.blocks import MessageBlock, blocks_of
from rlpanel.panels.conversation.turn_tokens import TurnTokens
from rlpanel.panels.language.labels import marked
from rlpanel.panels.tokens.token_view import decoded_tokens
from rlpanel.schema import Sample

#: Ways in which two rollouts part, from the coarsest on.
ENDS = marked("one of them ends here")
OTHER_ROLE = marked("another speaker")
CALLS = marked("only one of them calls a tool")
OTHER_TOOL = marked("another tool")
OTHER_ARGUMENTS = marked("other arguments")
OTHER_OUTCOME = marked("the same call, which fails in one of them")
OTHER_WORDS = marked("other words")


class TurnRow(NamedTuple):
    """Messages that stand beside each other, by their positions; None beside a message that is alone."""

    left: int | None
    right: int | None
    same: bool


@dataclass(frozen=True)
class TurnTotals:
    """Numbers of some of a rollout's messages; NaN where nothing is logged."""

    turns: int
    calls: int
    failed: int
    reward: float
    seconds: float


@dataclass(frozen=True)
class TurnAlignment:
    """The responses of two rollouts beside each other.

    Attributes
    ----------
    left, right : list of MessageBlock
        Messages of the two responses; results stand beside their calls.
    rows : list of TurnRow
        Every message of both sides, in order.
    parting : int or None
        Position of the first message that is not the same, which is equal on both sides and the number of
        rows before it; None if all are the same.
    words : int or None
        Position of the first message before the parting whose words or results differ; None if none does.
    whole : bool
        False if the messages after the parting were too many and too similar to align.
    """

    left: list[MessageBlock]
    right: list[MessageBlock]
    rows: list[TurnRow]
    parting: int | None
    words: int | None
    whole: bool

    @property
    def reason(self) -> str:
        """How the rollouts part; empty if they do not."""
        if self.parting is None:
            return ""
        here, there = self.left[self.parting :], self.right[self.parting :]
        return _difference(here[0], there[0]) if here and there else ENDS


def response_blocks(sample: Sample, pad_token: str = "") -> list[MessageBlock]:
    """Return the messages of a sample's response, as the conversation shows them."""
    texts = () if sample.messages else decoded_tokens(sample, pad_token).texts
    conversation = conversation_of(sample, texts)
    tokens = TurnTokens([None] * len(conversation.response))
    return [block for block in blocks_of(sample, conversation, tokens) if not block.given]


def has_several(blocks: Sequence[MessageBlock]) -> bool:
    """Return True if a response is more than one text."""
    return len(blocks) > 1 or any(block.calls for block in blocks)


def align_turns(left: list[MessageBlock], right: list[MessageBlock]) -> TurnAlignment:
    """Align the messages of two responses."""
    sections, whole = align([_deed(block) for block in left], [_deed(block) for block in right])
    rows = []
    for same, here, there in sections:
        pairs = zip_longest(range(here.start, here.stop), range(there.start, there.stop))
        rows += [TurnRow(a, b, same) for a, b in pairs]
    parting = next((place for place, row in enumerate(rows) if not row.same), None)
    words = (place for place in range(len(rows[:parting])) if _words(left[place]) != _words(right[place]))
    return TurnAlignment(left, right, rows, parting, next(words, None), whole)


def totals(blocks: Iterable[MessageBlock]) -> TurnTotals:
    """Return the numbers of some messages."""
    blocks = list(blocks)
    calls = [call for block in blocks for call in block.calls]
    results = [call.result for call in calls if call.result is not None]
    seconds = [*(block.seconds for block in blocks), *(result.seconds for result in results)]
    return TurnTotals(
        turns=sum(block.turn > 0 for block in blocks),
        calls=len(calls),
        failed=sum(result.error for result in results) + sum(block.error for block in blocks),
        reward=_sum(block.reward for block in blocks),
        seconds=_sum(seconds),
    )


def _sum(values: Iterable[float | None]) -> float:
    known = [value for value in values if value is not None and not math.isnan(value)]
    return math.fsum(known) if known else math.nan


def _outcome(block: MessageBlock) -> tuple[bool, ...]:
    return tuple(call.result is not None and call.result.error for call in block.calls)


def _tools(block: MessageBlock) -> tuple[str, ...]:
    return tuple(call.name for call in block.calls)


def _deed(block: MessageBlock) -> Hashable:
    """Return what is equal for two messages that do the same."""
    if block.calls:
        return block.role, tuple((call.name, call.arguments) for call in block.calls), _outcome(block)
    return block.role, block.name, block.text.strip(), block.error


def _words(block: MessageBlock) -> Hashable:
    results = tuple(call.result.text for call in block.calls if call.result is not None)
    return block.reasoning.strip(), block.text.strip(), results


def _difference(here: MessageBlock, there: MessageBlock) -> str:
    tests: list[tuple[str, Callable[[MessageBlock], Hashable]]] = [
        (OTHER_ROLE, lambda block: block.role),
        (CALLS, lambda block: bool(block.calls)),
        (OTHER_TOOL, _tools),
        (OTHER_ARGUMENTS, lambda block: tuple(call.arguments for call in block.calls)),
        (OTHER_OUTCOME, _outcome),
    ]
    return next((reason for reason, of in tests if of(here) != of(there)), OTHER_WORDS)
