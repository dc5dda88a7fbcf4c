"""Packs a conversation for the browser: blocks, texts, tokens, and the time of each message."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from rlpanel.analysis.replay_clock import replay_clock
from rlpanel.analysis.text_turns import Conversation, conversation_of
from rlpanel.number_text import number
from rlpanel.panels.conversation.blocks import MessageBlock, ToolCallBlock, blocks_of, turn_tokens
from rlpanel.panels.conversation.safe_markdown import formatted_html
from rlpanel.panels.language.labels import tr
from rlpanel.panels.replay.replay_score import replay_score
from rlpanel.panels.tokens.token_view import decoded_tokens, pack_sample
from rlpanel.schema import Sample
from rlpanel.sources.records.conversation import tool_results
from rlpanel.sources.records.embedded_media import Image, Medium
from rlpanel.sources.records.messages import TOOL_ROLES, Message
from rlpanel.store.snapshot.snapshot_cache import cached_on
from rlpanel.texts.agent_line import PlanChange, plan_changes
from rlpanel.texts.display_text import escape_invisible

# -- turn times ----------------------------------------------------------------------------------------
# The recorded time of each message and result: from timestamps, else spans, else seconds.
#
# - *Timestamps* of the messages are taken where two messages have one.
# - Else *spans*: if there are as many generations as turns of the policy, a turn is shown when its generation
#   ends, and its results when the last span before the next generation ends.
# - Else *seconds* of messages and results are added up.


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


# -- conversation payload ------------------------------------------------------------------------------
# Packs a conversation for the browser: blocks with the beginnings of their texts, and the tokens.
#
# Long texts are cut; the browser asks for the rest. HTML of Markdown is sent for the first blocks only, if it
# takes little time, and for the others when they come into view.


#: Characters of a text that are sent at first, and of all texts together.
CUT, BUDGET = 20_000, 400_000
#: Characters of a text that are sent once the budget is used up.
_MIN_SENT = 400
#: Characters whose Markdown is converted before the conversation is sent, and the CPU time for it in seconds.
_RENDERED, _SECONDS = 30_000, 0.15
_MARKDOWN_ROLES = ("assistant", "user", "system", "developer")


@dataclass(frozen=True)
class PackedConversation:
    """A conversation and its payload.

    Attributes
    ----------
    blocks : list of MessageBlock
        With complete texts.
    images : list of list of Image
        Of each message.
    media : list of list of Medium
        Audio and video of each message.
    payload : dict
        What the browser draws; see `pack_conversation`.
    """

    blocks: list[MessageBlock]
    images: list[list[Image]]
    media: list[list[Medium]]
    payload: dict[str, Any]


def pack_conversation(
    sample: Sample, *, pad_token: str = "", kl_estimator: str = "kl_k3"
) -> PackedConversation:
    """Pack a sample's conversation.

    Returns
    -------
    PackedConversation
        The payload has ``uid``, ``blocks`` (see `_Packer.pack`), ``tokens`` (see
        `rlpanel.panels.tokens.token_view.pack_sample`; None without texts of tokens), ``status``, ``judge``,
        ``notes`` and ``score`` (see `rlpanel.panels.conversation.conversation_payload.conversation_score`).
    """
    conversation = _turns_of(sample, pad_token)
    texts = decoded_tokens(sample, pad_token).texts
    tokens = turn_tokens(conversation.response, texts, sample.loss_mask)
    blocks = blocks_of(sample, conversation, tokens)
    packer = _Packer(_plans(blocks))
    payload = {
        "uid": sample.uid,
        "blocks": [packer.pack(block) for block in blocks],
        # Without texts of tokens, no turn can be drawn in tokens, and the response would be sent twice.
        "tokens": pack_sample(sample, pad_token=pad_token, kl_estimator=kl_estimator) if texts else None,
        "status": _status(sample),
        "judge": [[escape_invisible(name), escape_invisible(text)] for name, text in sample.judge.items()],
        "notes": _notes(conversation, tokens.note),
        "score": conversation_score(sample, blocks),
    }
    images = [list(message.get("images", ())) for message in conversation.messages]
    media = [list(message.get("media", ())) for message in conversation.messages]
    return PackedConversation(blocks, images, media, payload)


def part_text(blocks: list[MessageBlock], block: int, part: str) -> str:
    """Return the complete text of a part of a block.

    Parameters
    ----------
    part : str
        ``text``, ``reasoning``, ``begun``; ``call:K`` and ``result:K`` of a call, ``json:K`` for arguments
        as logged.

    Raises
    ------
    LookupError
        If the conversation has no such part.
    """
    chosen = blocks[block]
    name, _, number = part.partition(":")
    if name in ("text", "reasoning", "begun"):
        return str(getattr(chosen, name))
    call = chosen.calls[int(number)]
    if name == "call":
        return call.text
    if name == "json":
        return call.arguments
    if name == "result" and call.result is not None:
        return call.result.text
    raise LookupError(part)


def _plans(blocks: list[MessageBlock]) -> dict[int, PlanChange]:
    """Return why turns begin a new plan, by their number."""
    turns = [block for block in blocks if block.turn]
    words = [
        ("\n".join((block.reasoning, block.text)), [call.name for call in block.calls]) for block in turns
    ]
    found = zip(turns, plan_changes(words), strict=True)
    return {block.turn: change for block, change in found if change is not None}


class _Packer:
    """Packs blocks within the limits of characters."""

    def __init__(self, plans: Mapping[int, PlanChange]) -> None:
        self._left, self._plans = BUDGET, plans
        self._rendered_left, self._seconds_left = _RENDERED, _SECONDS

    def pack(self, block: MessageBlock) -> dict[str, Any]:
        """Return a block as JSON; parts and numbers that it lacks are left out."""
        packed: dict[str, Any] = {"role": block.role, "given": block.given}
        known = {
            "name": block.name,
            "turn": block.turn,
            "tokens": block.tokens,
            "error": block.error,
            "images": block.images,
            "media": block.media,
            "calls": [self._call(call) for call in block.calls],
            "reward": _signed(block.reward),
            "worth": _known(block.reward),
            "seconds": _seconds(block.seconds),
            "took": _known(block.seconds),
            "version": _version(block.versions),
            "plan": [*self._plans.get(block.turn, ())],
        }
        packed |= {name: value for name, value in known.items() if value}
        markdown = block.role in _MARKDOWN_ROLES
        if block.begun:
            packed["begun"] = self._text(block.begun)
        if block.reasoning:
            packed["reasoning"] = self._text(block.reasoning, markdown=False)
        if block.text:
            packed["text"] = self._text(block.text, markdown=markdown)
        packed["markdown"] = markdown
        return packed

    def _call(self, call: ToolCallBlock) -> dict[str, Any]:
        packed: dict[str, Any] = {"name": call.name, "text": self._text(call.text)}
        if call.unreadable:
            packed["unreadable"] = True
        if call.result is not None:
            result = call.result
            packed["result"] = self._text(result.text) | {
                "error": result.error,
                "inferred": result.inferred,
                "seconds": _seconds(result.seconds),
                "took": _known(result.seconds),
                "tokens": result.tokens,
                "images": result.images,
            }
        return packed

    def _text(self, text: str, *, markdown: bool = False) -> dict[str, Any]:
        """Return the beginning of a text, its length if it was cut, and its HTML unless time is up."""
        shown = text[: min(CUT, max(_MIN_SENT, self._left))]
        self._left -= len(shown)
        packed: dict[str, Any] = {"text": shown}
        if len(shown) < len(text):
            packed |= {"length": len(text), "lines": text.count("\n") + 1}
        if markdown and len(shown) <= self._rendered_left:
            self._rendered_left -= len(shown)
            packed |= self._formatted(shown)
        return packed

    def _formatted(self, text: str) -> dict[str, str]:
        """Return a text's HTML; nothing if it takes more than the time that is left."""
        started = time.thread_time()
        made = formatted_html(text, self._seconds_left) if self._seconds_left > 0 else None
        self._seconds_left -= time.thread_time() - started
        return {} if made is None else {"html": made}


def _status(sample: Sample) -> list[str]:
    """Return status and reason of a rollout that did not end well; empty if it did."""
    if sample.status in (None, "", "ok"):
        return []
    return [escape_invisible(text) for text in (sample.status, sample.status_reason) if text]


def _notes(conversation: Conversation, note: str) -> list[str]:
    notes = [note] if note else []
    if conversation.begun:
        text = tr(
            "The log's prompt ends inside of a turn. It is shown whole; its first {characters} characters "
            "are in the prompt."
        )
        notes.append(text.format(characters=f"{len(conversation.begun):,}"))
    if conversation.from_text:
        notes.append(tr("The log holds one text; turns were found by the markup of the chat template."))
    return notes


def _version(versions: tuple[int, int] | None) -> str:
    if versions is None:
        return ""
    oldest, newest = versions
    return (
        tr("policy {oldest}", oldest=oldest)
        if oldest == newest
        else tr("policy {oldest}–{newest}", oldest=oldest, newest=newest)
    )


def _signed(value: float | None) -> str:
    return "" if value is None or np.isnan(value) else number(value, sign=True)


def _seconds(value: float | None) -> str:
    return "" if value is None or np.isnan(value) else f"{number(value)} s"


def _known(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)


def has_turns(sample: Sample | None) -> bool:
    """Return True if a sample is a conversation of several turns, has tool calls, images, audio or video."""
    if sample is None:
        return False
    return cached_on(sample, "turns", (), lambda: _turns_of(sample).has_turns)


def failed_turn(sample: Sample, tool: str = "") -> int | None:
    """Return the first turn, from 1, with a failed call of a tool; of any tool if empty, None without one."""
    conversation = _turns_of(sample)
    response = cast("list[Message]", conversation.messages[conversation.prompt_messages :])
    results, turn = tool_results(response), 0
    for message in response:
        turn += message["role"] == "assistant"
        if message["role"] in TOOL_ROLES:
            name, result = next(results)
            if result.get("is_error") and tool in ("", name):
                return turn
    return None


def _turns_of(sample: Sample, pad_token: str = "") -> Conversation:
    """Return the conversation; tokens are decoded only if no messages were logged."""
    texts = () if sample.messages else decoded_tokens(sample, pad_token).texts
    return conversation_of(sample, texts)
