"""Divides a conversation into blocks, one per message, and finds the tokens of each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from rlpanel.analysis.text_turns import UNREADABLE, Conversation
from rlpanel.panels.language.labels import tr
from rlpanel.schema import Sample
from rlpanel.sources.records.messages import TOOL_ROLES
from rlpanel.texts.agent_line import is_unreadable, written_call
from rlpanel.texts.display_text import escape_invisible

# -- turn tokens ---------------------------------------------------------------------------------------
# Finds the tokens of each message of a response: by the loss mask, else by the messages' texts.
#
# The loss mask is 1 for tokens that the policy wrote: each run of them is one of its messages, if there are
# as many runs as messages. Without such a mask, the beginning and the end of each message are searched in the
# text of the tokens, in order.


#: Characters of a message's beginning and end that are searched in the text of the tokens.
_SEARCHED = 48

Span = tuple[int, int]


@dataclass(frozen=True)
class TurnTokens:
    """The tokens of each message of a response.

    Attributes
    ----------
    spans : list of (int, int) or None, one per message
        First token and the one after the last; None where they are not known.
    method : str
        ``single``, ``loss mask`` or ``texts``; empty if no tokens are logged or none could be found.
    note : str
        What is uncertain, for the reader; empty if nothing is.
    """

    spans: list[Span | None]
    method: str = ""
    note: str = ""


def turn_tokens(
    response: Sequence[Mapping[str, Any]], texts: Sequence[str], loss_mask: np.ndarray | None
) -> TurnTokens:
    """Return the tokens of each message of a response.

    Parameters
    ----------
    response : sequence of mapping
        Messages of the response in order.
    texts : sequence of str, length T
        Decoded text of each token of the response; joined, they are its text.
    loss_mask : ndarray of float, shape (T,), optional
        Not 0 for tokens that the policy wrote.
    """
    unknown: list[Span | None] = [None] * len(response)
    if not texts or not response:
        return TurnTokens(unknown)
    if len(response) == 1:
        return TurnTokens([(0, len(texts))], "single")
    located = _Located(response, texts)
    masked = _by_mask(response, len(texts), loss_mask)
    if masked is not None:
        return _checked(masked, located)
    return located.result()


def _by_mask(
    response: Sequence[Mapping[str, Any]], tokens: int, loss_mask: np.ndarray | None
) -> list[Span | None] | None:
    """Return the spans that the runs of the loss mask give; None if their number differs from the turns'."""
    if loss_mask is None or len(loss_mask) != tokens:
        return None
    written = np.concatenate(([0], (loss_mask != 0).astype(np.int8), [0]))
    edges = np.flatnonzero(np.diff(written)).reshape(-1, 2)
    policy = [at for at, message in enumerate(response) if message["role"] == "assistant"]
    if len(edges) != len(policy) or not policy:
        return None
    spans: list[Span | None] = [None] * len(response)
    for at, (first, last) in zip(policy, edges.tolist(), strict=True):
        spans[at] = (first, last)
    bounds = [0, *edges.ravel().tolist(), tokens]
    for gap, (before, after) in enumerate(zip([-1, *policy], [*policy, len(response)], strict=True)):
        first, last = bounds[2 * gap], bounds[2 * gap + 1]
        if after - before == 2 and last > first:  # exactly one message of somebody else
            spans[before + 1] = (first, last)
    return spans


def _checked(spans: list[Span | None], located: _Located) -> TurnTokens:
    """Return the spans of the mask, with a note if the messages' texts stand somewhere else."""
    differing = sum(
        span is not None and found is not None and (found[0] >= span[1] or found[1] <= span[0])
        for span, found in zip(spans, located.spans, strict=True)
    )
    merged = [span or found for span, found in zip(spans, located.spans, strict=True)]
    if not differing:
        return TurnTokens(merged, "loss mask")
    note = tr(
        "Tokens are assigned to turns by the loss mask. The texts of {differing} of "
        "{spans} messages stand at other tokens.",
        differing=differing,
        spans=len(spans),
    )
    return TurnTokens(spans, "loss mask", note)


class _Located:
    """Places of the messages' texts in the text of the tokens."""

    def __init__(self, response: Sequence[Mapping[str, Any]], texts: Sequence[str]) -> None:
        self._ends = np.cumsum([len(text) for text in texts])
        self._text = "".join(texts)
        self._position = 0
        self.spans = [self._find(message) for message in response]

    def result(self) -> TurnTokens:
        """Return the spans, with a note if some are missing."""
        missing = sum(span is None for span in self.spans)
        if missing == len(self.spans):
            note = tr("Tokens cannot be assigned to turns: the tokens do not contain the messages' texts.")
            return TurnTokens(self.spans, "", note)
        if missing:
            note = tr(
                "The tokens of {missing} of {spans} messages are not known: their texts do not "
                "occur in the tokens.",
                missing=missing,
                spans=len(self.spans),
            )
            return TurnTokens(self.spans, "texts", note)
        return TurnTokens(self.spans, "texts")

    def _find(self, message: Mapping[str, Any]) -> Span | None:
        calls = [f"{call['name']}\0{call['arguments']}" for call in message.get("tool_calls", ())]
        parts = [message.get("reasoning_content", ""), message["content"], *"\0".join(calls).split("\0")]
        first = last = -1
        position = self._position
        for part in (part.strip() for part in parts):
            start = self._text.find(part[:_SEARCHED], position) if part else -1
            if start < 0:
                continue
            end = self._text.find(part[-_SEARCHED:], start + max(0, len(part) - 2 * _SEARCHED))
            position = start + len(part) if end < 0 else end + len(part[-_SEARCHED:])
            first, last = (start if first < 0 else first), position
        if first < 0:
            return None
        self._position = last
        tokens = np.searchsorted(self._ends, [first, last - 1], "right")
        return int(tokens[0]), int(tokens[1]) + 1


# -- blocks --------------------------------------------------------------------------------------------
# Divides a conversation into blocks: one per message, with the results of tools beside their calls.


_ASSISTANT = "assistant"
#: The tool's name in a call whose JSON cannot be read.
_NAME = re.compile(r'"name"\s*:\s*"([^"]{1,80})"')


@dataclass
class ToolResult:
    """Result of a tool call.

    Attributes
    ----------
    text : str
        With invisible characters escaped, as all texts of this module.
    error : bool
    inferred : bool
        True if the text, and not a field of the log, says that it is an error.
    seconds : float or None
    logged : str
        The text as it was logged, where it is shown in another way.
    tokens : (int, int) or None
        First token and the one after the last.
    images : list of (int, int)
        Positions of its images: of the message, and in it.
    stamp : float or None
        When it was written, in Unix seconds.
    """

    text: str
    error: bool
    inferred: bool
    seconds: float | None
    logged: str = ""
    tokens: Span | None = None
    images: list[tuple[int, int]] = field(default_factory=list)
    stamp: float | None = None


@dataclass
class ToolCallBlock:
    """A tool call, and its result if there is one.

    Attributes
    ----------
    name : str
    text : str
        The call as a person writes it: ``add(a=5, b=1)``.
    logged : str
        The arguments as they were logged.
    unreadable : bool
        True if the arguments are meant to be JSON and cannot be read as such.
    """

    name: str
    text: str
    logged: str = ""
    unreadable: bool = False
    identifier: str = ""
    result: ToolResult | None = None

    @cached_property
    def arguments(self) -> str:
        """The arguments as they were logged; indented if they are JSON."""
        return _text(self.logged, json_too=True)


@dataclass
class MessageBlock:
    """One message of the conversation as it is drawn.

    Attributes
    ----------
    role, name : str
        ``name`` is the tool's or speaker's name; empty if not logged.
    turn : int
        Number of the policy's message in the response, from 1; 0 for all others.
    given : bool
        True for messages before the response.
    text, reasoning : str
    begun : str
        Beginning of the message that the log holds as the end of the prompt.
    calls : list of ToolCallBlock
    tokens : (int, int) or None
        First token and the one after the last.
    reward, seconds : float or None
        Of a turn of the policy.
    versions : (int, int) or None
        Oldest and newest version of the policy that wrote the turn.
    error : bool
        True for a tool's message that is an error and belongs to no call.
    images : list of (int, int)
        Positions of its images: of the message, and in it.
    media : list of (int, int, str)
        Positions of its audio and video, and their kind.
    stamp : float or None
        When the message was written, in Unix seconds.
    """

    role: str
    name: str = ""
    turn: int = 0
    given: bool = False
    text: str = ""
    reasoning: str = ""
    begun: str = ""
    calls: list[ToolCallBlock] = field(default_factory=list)
    tokens: Span | None = None
    reward: float | None = None
    seconds: float | None = None
    versions: tuple[int, int] | None = None
    error: bool = False
    images: list[tuple[int, int]] = field(default_factory=list)
    media: list[tuple[int, int, str]] = field(default_factory=list)
    stamp: float | None = None


def blocks_of(sample: Sample, conversation: Conversation, tokens: TurnTokens) -> list[MessageBlock]:
    """Return the blocks of a conversation in order.

    A tool's message that answers a call has no block of its own. It is the call's that names its id; without
    ids, the first call of the policy's last message that has no result yet.
    """
    blocks: list[MessageBlock] = []
    asking = MessageBlock("")  # the policy's last message, whose calls wait for results
    rewards = iter(_turn_rewards(sample))
    turns = 0
    for position, message in enumerate(conversation.messages):
        place = position - conversation.prompt_messages
        span = tokens.spans[place] if 0 <= place < len(tokens.spans) else None
        if message["role"] in TOOL_ROLES:
            call = _call_of(message, asking.calls)
            if call is not None:
                call.result = _result(message, position, span)
                asking.media += _media(message, position)
                continue
        else:
            asking = MessageBlock("")
        block = _block(message, position, given=place < 0, span=span)
        if message["role"] == _ASSISTANT:
            asking = block
            if place == 0:
                block.begun = escape_invisible(conversation.begun)
            if place >= 0:
                turns += 1
                block.turn = turns
                block.reward = next(rewards, block.reward)
                block.versions = _versions(sample.policy_versions, span)
        blocks.append(block)
    return blocks


def _turn_rewards(sample: Sample) -> Iterator[float]:
    rewards = sample.turn_rewards
    return iter(()) if rewards is None else iter(rewards.tolist())


def _versions(runs: Sequence[tuple[int, int]], span: Span | None) -> tuple[int, int] | None:
    """Return the oldest and the newest version that wrote a span's tokens; None if they are not known."""
    if span is None or any(tokens < 0 for _, tokens in runs):
        return None
    first, found = 0, []
    for version, tokens in runs:
        if first < span[1] and first + tokens > span[0]:
            found.append(version)
        first += tokens
    return (min(found), max(found)) if found else None


def _block(message: Mapping[str, Any], position: int, *, given: bool, span: Span | None) -> MessageBlock:
    return MessageBlock(
        role=message["role"],
        name=escape_invisible(message.get("name", "")),
        given=given,
        text=_text(message["content"], json_too=message["role"] not in (_ASSISTANT, "user", "system")),
        reasoning=escape_invisible(message.get("reasoning_content", "")),
        calls=[_call(call) for call in message.get("tool_calls", ())],
        tokens=span,
        reward=message.get("reward"),
        seconds=message.get("seconds"),
        error=bool(message.get("is_error")),
        images=_images(message, position),
        media=_media(message, position),
        stamp=message.get("timestamp"),
    )


def _call(call: Mapping[str, Any]) -> ToolCallBlock:
    name, arguments = call["name"], call["arguments"]
    unreadable = name == UNREADABLE or is_unreadable(arguments)
    if name == UNREADABLE and (found := _NAME.search(arguments)):
        name = found[1]
    return ToolCallBlock(
        name=escape_invisible(name),
        text=escape_invisible(arguments if unreadable else written_call(name, arguments)),
        logged=arguments,
        unreadable=unreadable,
        identifier=call.get("id", ""),
    )


def _call_of(message: Mapping[str, Any], calls: Sequence[ToolCallBlock]) -> ToolCallBlock | None:
    """Return the call that a tool's message answers."""
    identifier = message.get("tool_call_id")
    waiting = [call for call in calls if call.result is None]
    if identifier and any(call.identifier for call in calls):
        return next((call for call in waiting if call.identifier == identifier), None)
    return waiting[0] if waiting else None


def _result(message: Mapping[str, Any], position: int, span: Span | None) -> ToolResult:
    return ToolResult(
        text=_text(message["content"], json_too=True),
        error=bool(message.get("is_error")),
        inferred=bool(message.get("error_inferred")),
        seconds=message.get("seconds"),
        logged=message["content"],
        tokens=span,
        images=_images(message, position),
        stamp=message.get("timestamp"),
    )


def _images(message: Mapping[str, Any], position: int) -> list[tuple[int, int]]:
    return [(position, number) for number in range(len(message.get("images", ())))]


def _media(message: Mapping[str, Any], position: int) -> list[tuple[int, int, str]]:
    return [(position, number, medium["kind"]) for number, medium in enumerate(message.get("media", ()))]


def _text(text: str, *, json_too: bool) -> str:
    """Return a text with invisible characters escaped; a JSON object or list is indented."""
    if json_too and text[:1] in ("{", "["):
        try:
            text = json.dumps(json.loads(text), ensure_ascii=False, indent=2)
        except (ValueError, RecursionError):
            pass
    return escape_invisible(text)
