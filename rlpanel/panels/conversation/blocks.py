"""Divides a conversation into blocks: one per message, with the results of tools beside their calls."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rlpanel.analysis.text_turns import UNREADABLE, Conversation
from rlpanel.panels.conversation.turn_tokens import Span, TurnTokens
from rlpanel.schema import Sample
from rlpanel.sources.records.messages import TOOL_ROLES
from rlpanel.texts.display_text import escape_invisible
from rlpanel.texts.written_call import is_unreadable, written_call

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
