"""Joins the prompt, the response and the messages of a sample: whichever was logged gives the others.

Counts turns, tool calls, tool errors and media of a conversation, for the columns of a sample.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from rlpanel.schema import TOOL_CALLS, TOOL_ERRORS
from rlpanel.sources.records.embedded_media import count_media, without_embedded_values
from rlpanel.sources.records.field_values import short_repr
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.messages import (
    TOOL_ROLES,
    Message,
    find_messages,
    messages_text,
    remarks_on,
    response_text,
)
from rlpanel.sources.records.record_types import Record

#: Longest name of a tool that is a column's name.
_MAX_NAME = 64
#: Name that stands for tools whose own name is too long, and for those beyond the limit.
OTHER = "other"


def message_columns(response: Sequence[Message], prompt: Sequence[Message] = ()) -> dict[str, float]:
    """Return the sample columns that the messages of a response give.

    Parameters
    ----------
    response, prompt : sequence of Message
        The prompt counts for its media only.

    Returns
    -------
    dict of str to float
        ``turns`` and ``tool_calls``; ``tool_errors`` unless calls have no results; ``images``, ``audios``
        and ``videos`` if there are any; ``tool_calls.NAME`` and ``tool_errors.NAME`` for each called tool.
    """
    # Plain dicts: a Counter costs as much as counting the calls of a conversation.
    turns, calls = 0, dict[str, float]()
    for message in response:
        if message["role"] == "assistant":
            turns += 1
            for call in message.get("tool_calls", ()):
                name = tool_name(call["name"])
                calls[name] = calls.get(name, 0.0) + 1.0
    errors: dict[str, float] = {}
    for name, message in tool_results(response):
        errors[name] = errors.get(name, 0.0) + bool(message.get("is_error"))
    numbers = {"turns": float(turns), "tool_calls": float(sum(calls.values()))}
    if errors or not calls:
        numbers["tool_errors"] = float(sum(errors.values()))
    for name, count in calls.items():
        numbers[TOOL_CALLS + name] = count
    for name, count in errors.items():
        if name in calls:
            numbers[TOOL_ERRORS + name] = count
    return numbers | media_columns([*prompt, *response])


def media_columns(messages: Sequence[Message]) -> dict[str, float]:
    """Return the numbers of images, audio and videos of messages, without zeros."""
    if not any("images" in message or "media" in message for message in messages):
        return {}
    images = [image for message in messages for image in message.get("images", ())]
    return count_media(images, (medium for message in messages for medium in message.get("media", ())))


def turn_rewards(response: Sequence[Message]) -> np.ndarray | None:
    """Return the rewards in the policy's messages, shape (n_turns,); None if no message has one."""
    own = [message for message in response if message["role"] == "assistant"]
    if not any("reward" in message for message in own):
        return None
    rewards = np.array([message.get("reward", np.nan) for message in own])
    return rewards if np.isfinite(rewards).any() else None


def tool_results(messages: Iterable[Message]) -> Iterator[tuple[str, Message]]:
    """Yield each result of a tool with the tool's name.

    The name is that of the call with the same id, else the message's own, else that of the oldest call
    without a result.
    """
    names: dict[str, str] = {}
    waiting: deque[str] = deque()
    for message in messages:
        for call in message.get("tool_calls", ()):
            name = tool_name(call["name"])
            waiting.append(name)
            if "id" in call:
                names[call["id"]] = name
        if message["role"] in TOOL_ROLES:
            oldest = waiting.popleft() if waiting else OTHER
            name = tool_name(message["name"]) if "name" in message else oldest
            yield names.get(message.get("tool_call_id", ""), name), message


def tool_name(name: str) -> str:
    """Return a tool's name as it stands in a column's name."""
    return name if 0 < len(name) <= _MAX_NAME and name.isprintable() else OTHER


def join_conversation(record: Record, *, full: bool) -> None:
    """Fill in a sample's missing texts from its messages and, if ``full``, its messages from its texts.

    ``record.conversation`` holds what was logged as messages: ``prompt``, ``response``, or ``messages``,
    which is the whole conversation or the prompt alone. It is emptied. The messages of a response are counted
    as columns of the sample.
    """
    parts, record.conversation = record.conversation, {}
    if "messages" in parts:
        value = to_python(parts["messages"])
        whole = find_messages(value)
        if whole is None:
            record.notes.append("'messages' is not a list of chat messages; the sample is kept without it")
            if full:
                record.extra["messages"] = without_embedded_values(value)
            return
        count = _count_prompt(record, whole)
        parts = {"prompt": whole[:count], "response": whole[count:]}
        _set_text(record, "prompt", messages_text(parts["prompt"]))
        _set_text(record, "response", response_text(parts["response"]) if parts["response"] else "")
        _note_no_response(record, parts["prompt"])
    record.notes += remarks_on([message for part in parts.values() for message in part])
    if parts.get("response"):
        _count_messages(record, parts["response"], parts.get("prompt", []))
    else:
        record.numbers = media_columns(parts.get("prompt", [])) | record.numbers
    if full:
        prompt = parts.get("prompt") or _as_message(record, "prompt", "user")
        record.messages = [*prompt, *(parts.get("response") or _as_message(record, "response", "assistant"))]
        record.prompt_messages = len(prompt)


def _count_prompt(record: Record, messages: list[Message]) -> int:
    """Return how many messages come before the response.

    The logged number, else all if the response was logged and the policy did not speak last, else those
    before the policy's first message.
    """
    if record.prompt_messages >= 0:
        return record.prompt_messages
    roles = [message["role"] for message in messages]
    if "assistant" not in roles or ("response" in record.texts and roles[-1] != "assistant"):
        return len(roles)
    return roles.index("assistant")


def _note_no_response(record: Record, prompt: Sequence[Message]) -> None:
    """Note that nothing in the messages is the policy's, unless the log says so or the rollout failed."""
    known = "response" in record.texts or "response_tokens" in record.numbers or record.prompt_messages >= 0
    if prompt and not known and record.labels.get("status", "ok") == "ok":
        roles = ", ".join(dict.fromkeys(short_repr(message["role"]) for message in prompt))
        record.notes.append(f"'messages' has no message of the policy, and there is no response: {roles}")


def _count_messages(record: Record, response: list[Message], prompt: list[Message]) -> None:
    """Add the columns that the messages give; logged numbers come first."""
    columns = message_columns(response, prompt)
    if record.agent is None or record.agent.turn_rewards is None:
        rewards = turn_rewards(response)
        if rewards is not None:
            record.agent_fields().turn_rewards = rewards
    elif len(record.agent.turn_rewards) != columns["turns"]:
        record.notes.append(
            f"'turn_rewards' has {len(record.agent.turn_rewards)} values for {columns['turns']:.0f} turns"
        )
    record.numbers = columns | record.numbers


def _set_text(record: Record, name: str, text: str) -> None:
    if text and name not in record.texts:
        record.texts[name] = text
        record.numbers[f"{name}_chars"] = float(len(text))


def _as_message(record: Record, name: str, role: str) -> list[Message]:
    return [{"role": role, "content": record.texts[name]}] if name in record.texts else []
