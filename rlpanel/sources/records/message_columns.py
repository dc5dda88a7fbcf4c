"""Counts turns, tool calls, tool errors and media of a conversation, for the columns of a sample."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from rlpanel.schema import TOOL_CALLS, TOOL_ERRORS
from rlpanel.sources.records.embedded_media import count_media
from rlpanel.sources.records.messages import TOOL_ROLES, Message

#: Longest name of a tool that is a column's name.
_LONGEST_NAME = 64
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
    own = [message for message in response if message["role"] == "assistant"]
    calls = Counter(tool_name(call["name"]) for message in own for call in message.get("tool_calls", ()))
    numbers = {"turns": float(len(own)), "tool_calls": float(calls.total())}
    results, errors = Counter[str](), Counter[str]()
    for name, message in tool_results(response):
        results[name] += 1
        errors[name] += bool(message.get("is_error"))
    if results or not calls:
        numbers["tool_errors"] = float(errors.total())
    numbers |= {f"{TOOL_CALLS}{name}": float(count) for name, count in calls.items()}
    numbers |= {f"{TOOL_ERRORS}{name}": float(count) for name, count in errors.items() if name in calls}
    return numbers | media_columns([*prompt, *response])


def media_columns(messages: Sequence[Message]) -> dict[str, float]:
    """Return the numbers of images, audio and videos of messages, without zeros."""
    images = [image for message in messages for image in message.get("images", ())]
    return count_media(images, (medium for message in messages for medium in message.get("media", ())))


def turn_rewards(response: Iterable[Message]) -> np.ndarray | None:
    """Return the rewards in the policy's messages, shape (n_turns,); None if no message has one."""
    rewards = [message.get("reward", np.nan) for message in response if message["role"] == "assistant"]
    return np.array(rewards) if np.isfinite(rewards).any() else None


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
    return name if 0 < len(name) <= _LONGEST_NAME and name.isprintable() else OTHER
