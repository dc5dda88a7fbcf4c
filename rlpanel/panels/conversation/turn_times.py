"""The recorded time of each message and result: from timestamps, else spans, else seconds.

- *Timestamps* of the messages are taken where two messages have one.
- Else *spans*: if there are as many generations as turns of the policy, a turn is shown when its generation
  ends, and its results when the last span before the next generation ends.
- Else *seconds* of messages and results are added up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from rlpanel.analysis.replay_clock import replay_clock
from rlpanel.panels.conversation.blocks import MessageBlock
from rlpanel.panels.language.labels import tr
from rlpanel.panels.replay.replay_score import replay_score
from rlpanel.schema import Sample

_GENERATION = "generation"


class TurnEvent(NamedTuple):
    """A message, or the result of one of its calls.

    Attributes
    ----------
    block : int
    call : int
        -1 for the message itself.
    """

    block: int
    call: int


def events_of(blocks: Sequence[MessageBlock]) -> list[TurnEvent]:
    """Return messages and results in the order of reading."""
    return [
        TurnEvent(at, call)
        for at, block in enumerate(blocks)
        for call in (-1, *(k for k, each in enumerate(block.calls) if each.result is not None))
    ]


def conversation_score(sample: Sample, blocks: Sequence[MessageBlock]) -> dict[str, Any]:
    """Return the score of a conversation: `replay_score` with ``events``, one pair (block, call) each.

    ``turns`` is the turn of the policy of each event; 0 for what is given.
    """
    events = events_of(blocks)
    source, moments = moments_of(sample, blocks, events)
    score = replay_score(sample.uid, sample.episode or "", replay_clock(moments), source)
    turn, turns = 0, []
    for event in events:
        turn = blocks[event.block].turn or turn
        turns.append(turn)
    return score | {"events": [list(event) for event in events], "turns": turns}


def moments_of(
    sample: Sample, blocks: Sequence[MessageBlock], events: Sequence[TurnEvent]
) -> tuple[str, list[float | None]]:
    """Return a sentence about where times are from, and each event's time in seconds, None if unknown."""
    stamps = [_part(blocks, event).stamp for event in events]
    if sum(stamp is not None for stamp in stamps) > 1:
        return tr("Played by the times of the messages."), stamps
    by_spans = _by_spans(sample, blocks, events)
    if by_spans is not None:
        return tr("Played by the logged spans: a turn is shown when its generation ends."), by_spans
    return tr("Played by the logged seconds of turns and calls, added up."), _by_seconds(blocks, events)


def _part(blocks: Sequence[MessageBlock], event: TurnEvent) -> Any:
    block = blocks[event.block]
    return block if event.call < 0 else block.calls[event.call].result


def _by_spans(
    sample: Sample, blocks: Sequence[MessageBlock], events: Sequence[TurnEvent]
) -> list[float | None] | None:
    generations = [(start, end) for phase, start, end in sample.spans if phase == _GENERATION]
    turns = sum(block.turn > 0 for block in blocks)
    if not turns or len(generations) != turns:
        return None
    start = sample.timing.get("start", math.nan)
    base = start if math.isfinite(start) else 0.0
    nexts = [begin for begin, _ in generations[1:]] + [math.inf]
    moments: list[float | None] = []
    turn = 0
    for event in events:
        block = blocks[event.block]
        if event.call < 0 and block.turn:
            turn = block.turn
            moments.append(base + generations[turn - 1][1])
            continue
        if not turn:
            moments.append(base)
            continue
        done, until = generations[turn - 1][1], nexts[turn - 1]
        ends = [end for _, begin, end in sample.spans if begin >= done and end <= until]
        moments.append(base + max([done, *ends] if math.isfinite(until) else [done, *ends[:1]]))
    return moments


def _by_seconds(blocks: Sequence[MessageBlock], events: Sequence[TurnEvent]) -> list[float | None]:
    """Return the running sum of the seconds; None for what has none, except what is given."""
    total, moments = 0.0, list[float | None]()
    logged = False
    for event in events:
        part = _part(blocks, event)
        seconds = part.seconds
        if seconds is not None and math.isfinite(seconds) and seconds >= 0:
            total += seconds
            logged = True
            moments.append(total)
        else:
            moments.append(0.0 if blocks[event.block].given and not total else None)
    return moments if logged else [None] * len(events)
