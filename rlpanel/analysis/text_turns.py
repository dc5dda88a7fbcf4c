"""Messages of a sample whose log has only texts: they are divided at the markup of the chat template.

Many trainers log one text for a whole episode. Its turns, tool calls and reasoning are found by the markup
that the model was trained on, and shown as if they had been logged as messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from rlpanel.schema import Sample
from rlpanel.sources.records.messages import TOOL_ROLES, read_messages
from rlpanel.texts.chat_templates import Turn, continued_turns, open_turn, turns_of

#: Most characters of a text in which markup is searched.
_MAX_CHARS = 4_000_000
_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
#: A call without markup, on a line of its own: decoding may leave out special tokens.
_BARE_CALL = re.compile(r'\s*(\{"name"\s*:[^\n]*"(?:arguments|parameters)"[^\n]*\})[ \t]*(?:\n|\Z)')
#: A call as Qwen Coder writes it, and its arguments.
_FUNCTION = re.compile(r"\s*<function=([^>\s]+)>(.*?)(?:</function>|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\s]+)>\s*(.*?)\s*(?:</parameter>|\Z)", re.DOTALL)
_RESULT = re.compile(r"<tool_response>(.*?)(?:</tool_response>|\Z)", re.DOTALL)
_REASONING = ("<think>", "</think>")
#: What templates begin an answer with.
_OPENING = re.compile(r"\s*<think>\s*(?:</think>\s*)?")
#: Name of a call whose JSON cannot be read.
UNREADABLE = "unreadable call"
#: Parts of a message besides text.
_SHOWN_BESIDE = frozenset({"tool_calls", "images", "media"})


@dataclass(frozen=True)
class Conversation:
    """Messages of a sample in order.

    Attributes
    ----------
    messages : list of mapping
        In the shape of `rlpanel.sources.records.messages.Message`.
    prompt_messages : int
        Number of messages before the response.
    from_text : bool
        True if they were found in texts by the markup of a chat template.
    begun : str
        Beginning of the response's first message that the log holds as the end of the prompt; empty for
        tags alone, with which templates begin an answer.
    continuation : mapping, optional
        The rest of that message, as it stands in the response.
    """

    messages: list[Mapping[str, Any]]
    prompt_messages: int
    from_text: bool = False
    begun: str = ""
    continuation: Mapping[str, Any] | None = None

    @property
    def response(self) -> list[Mapping[str, Any]]:
        """Messages as they stand in the response: the first one without what the prompt holds of it."""
        messages = self.messages[self.prompt_messages :]
        return messages if self.continuation is None else [self.continuation, *messages[1:]]

    @property
    def has_turns(self) -> bool:
        """True if there is more to it than a prompt and an answer."""
        roles = [message["role"] for message in self.messages]
        answered = roles[self.prompt_messages :]
        return (
            len(answered) > 1
            or roles.count("user") > 1
            or any(_SHOWN_BESIDE & message.keys() for message in self.messages)
        )


def conversation_of(sample: Sample, token_texts: Sequence[str] = ()) -> Conversation:
    """Return the messages of a sample: as logged, else as the markup in its texts has them.

    Parameters
    ----------
    sample : Sample
    token_texts : sequence of str, length T
        Decoded tokens of the response. They may hold the turns that a response's text leaves out.
    """
    logged = list(sample.messages)
    count = max(sample.prompt_messages, 0)
    prompt, response = logged[:count], logged[count:]
    if not logged:
        prompt = _as_messages("user", sample.prompt)
        response = _by_tokens(token_texts, sample.loss_mask) or _as_messages("assistant", sample.response)
        logged = [*prompt, *response[:1]]  # a response that its tokens divide is one text
    new_prompt = _without_opening(_split(prompt, "user", turns_of))
    new_response = _split(response, "assistant", continued_turns)
    divided = len(new_prompt) + len(new_response) > len(logged)
    begun, continuation = "", None
    if not sample.messages and (joined := _joined(sample.prompt or "", new_response)):
        begun, whole = joined
        continuation = _with_parts(new_response[0])
        new_prompt, new_response = new_prompt[:-1], [whole, *new_response[1:]]
    for key, media in (("images", sample.images), ("media", sample.media)):
        if media:
            new_prompt = _with_media(new_prompt, key, media)
    found = [*new_prompt, *new_response]
    messages = [_with_parts(message) for message in found]
    return Conversation(messages, len(new_prompt), divided, begun, continuation)


def _joined(prompt: str, response: Sequence[Mapping[str, Any]]) -> tuple[str, Mapping[str, Any]] | None:
    """Return the beginning of a turn that the prompt's text ends in, and the whole turn; None without one.

    Templates may begin the answer, for example with ``<think>``, and AReaL may end the prompt inside of a
    turn or of a tool's result. A result must be closed in the response, since a policy may write without one.
    """
    turn = open_turn(prompt) if len(prompt) <= _MAX_CHARS else None
    if turn is None or not response or response[0]["role"] != "assistant":
        return None
    if turn.role != "assistant" and not (turn.role in TOOL_ROLES and len(response) > 1):
        return None
    begun = prompt[turn.begin :]
    if _RESULT.search(begun):  # several results may stand in one turn
        return None
    shown = "" if _OPENING.fullmatch(begun) else begun
    return shown, read_messages({"role": turn.role, "content": begun + response[0]["content"]})[0]


def _without_opening(prompt: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Leave out an empty last message of the policy: markup after which the response begins."""
    if len(prompt) < 2 or prompt[-1]["role"] != "assistant":
        return prompt
    opens = not any(prompt[-1].get(key) for key in ("content", "reasoning_content", *_SHOWN_BESIDE))
    return prompt[:-1] if opens else prompt


def _with_media(
    prompt: list[Mapping[str, Any]], key: str, media: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Add media that were logged beside the messages to the user's last message of the prompt."""
    asked = [at for at, message in enumerate(prompt) if message["role"] == "user"]
    at = asked[-1] if asked else len(prompt)
    message: dict[str, Any] = dict(prompt[at]) if asked else {"role": "user", "content": ""}
    message[key] = [*message.get(key, ()), *media]
    return [*prompt[:at], message, *prompt[at + 1 :]]


def _as_messages(role: str, text: str | None) -> list[Mapping[str, Any]]:
    return [] if text is None else [{"role": role, "content": text}]


def _by_tokens(texts: Sequence[str], loss_mask: np.ndarray | None) -> list[Mapping[str, Any]]:
    """Return the messages of a response that only its tokens tell: by markup, else by the loss mask."""
    if loss_mask is None or len(loss_mask) != len(texts) or not (loss_mask == 0).any():
        return []
    if continued_turns(text := "".join(texts)):
        return _as_messages("assistant", text)
    written = loss_mask != 0
    edges = [0, *(np.flatnonzero(np.diff(written)) + 1).tolist(), len(texts)]
    return [
        {"role": "assistant" if written[first] else "environment", "content": "".join(texts[first:last])}
        for first, last in pairwise(edges)
    ]


def _split(messages: Sequence[Mapping[str, Any]], role: str, turns: Any) -> list[Mapping[str, Any]]:
    """Divide a single message that holds several turns; other messages stay as they are."""
    if len(messages) != 1 or messages[0]["role"] != role or messages[0].keys() - {"role", "content"}:
        return list(messages)
    text = messages[0]["content"]
    found: list[Turn] = turns(text) if len(text) <= _MAX_CHARS else []
    if not found:
        return list(messages)
    return [message for turn in found for message in _messages(turn, text)]


def _messages(turn: Turn, text: str) -> Iterator[Mapping[str, Any]]:
    content = text[turn.begin : turn.finish]
    results = _RESULT.findall(content) if turn.role in ("tool", "user") else []
    if results:
        for result in results:
            # As logged messages are read: a text that is an error marks the result as failed.
            yield from read_messages({"role": "tool", "content": result.strip("\n")})
    elif content.strip() or not turn.lead:
        yield from read_messages({"role": turn.role, "content": content})


def _with_parts(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Take reasoning and tool calls that are written in an assistant's content out of it."""
    if message["role"] != "assistant":
        return message
    parts = dict(message)
    _take_reasoning(parts)
    if "tool_calls" not in parts and "<tool_call>" in parts["content"]:
        calls = [call for text in _CALL.findall(parts["content"]) for call in _read_calls(text)]
        if calls:
            parts["tool_calls"] = calls
            parts["content"] = _CALL.sub("", parts["content"]).strip()
    elif "tool_calls" not in parts and (bare := _BARE_CALL.match(parts["content"])):
        parts["tool_calls"] = [*_read_calls(bare[1])]
        parts["content"] = parts["content"][bare.end() :].strip()
    return parts


def _take_reasoning(parts: dict[str, Any]) -> None:
    """Move ``<think>…</think>`` to the reasoning; templates may put the opening tag into the prompt."""
    opening, closing = _REASONING
    before, found, after = parts["content"].partition(closing)
    if not found or parts.get("reasoning_content"):
        return
    lead, opened, inner = before.partition(opening)
    parts["reasoning_content"] = (inner if opened else lead).strip()
    parts["content"] = f"{lead if opened else ''}{after}".strip()


def _read_calls(text: str) -> Iterator[dict[str, Any]]:
    """Yield the tool calls that a model wrote as JSON or by tags; a broken one keeps its text."""
    if function := _FUNCTION.match(text):
        named = dict(_PARAMETER.findall(function[2]))
        yield {"name": function[1], "arguments": json.dumps(named, ensure_ascii=False)}
        return
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        yield {"name": UNREADABLE, "arguments": text.strip()}
        return
    for item in value if isinstance(value, list) else [value]:
        fields = item if isinstance(item, dict) else {"name": item}
        arguments = fields.get("arguments", fields.get("parameters", ""))
        yield {
            "name": str(fields.get("name") or "?"),
            "arguments": arguments
            if isinstance(arguments, str)
            else json.dumps(arguments, ensure_ascii=False),
        }
