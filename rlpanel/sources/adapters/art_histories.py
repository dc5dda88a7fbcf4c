"""Finds the histories of an ART trajectory: conversations, each of which is a training sequence.

A trajectory holds ``messages_and_choices``, and further ones in ``additional_histories``, or else
``exchanges``: the requests to a model that ART captured, with the responses. An exchange whose request goes
on with the messages of an earlier one continues its history; any other begins a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.adapters.responses_api import chat_messages

#: A chat message, or a choice of the model: ``{"finish_reason", "message", "logprobs"}``.
Item = dict[str, Any]
History = list[Item]
_READ = ("chat_completions", "responses")


def choice_of(item: Item) -> dict[str, Any] | None:
    """Return the message in a choice of the model; None for any other message."""
    message = item.get("message")
    return message if "finish_reason" in item and isinstance(message, dict) else None


def histories_of(trajectory: Mapping[str, Any]) -> list[History]:
    """Return the histories in order; none if nothing was logged, or only exchanges that are not read."""
    logged = [trajectory, *(trajectory.get("additional_histories") or ())]
    histories = [_items(each.get("messages_and_choices")) for each in logged if isinstance(each, dict)]
    return [history for history in histories if history] or _join_exchanges(trajectory)


def unread_kinds(trajectory: Mapping[str, Any]) -> list[str]:
    """Return the kinds of captured exchanges that are not read."""
    return sorted(kind for kind, logged in _exchanges(trajectory).items() if logged and kind not in _READ)


def _items(value: Any) -> History:
    if value is not None and not isinstance(value, list):
        raise LineError("'messages_and_choices' is not a list")
    return [item for item in value or () if isinstance(item, dict)]


def _exchanges(trajectory: Mapping[str, Any]) -> dict[str, Any]:
    value = trajectory.get("exchanges")
    return value if isinstance(value, dict) else {}


def _join_exchanges(trajectory: Mapping[str, Any]) -> list[History]:
    logged = [
        (str(exchange.get("start_time")), kind, exchange)
        for kind in _READ
        for exchange in _exchanges(trajectory).get(kind) or ()
        if isinstance(exchange, dict)
    ]
    histories: list[History] = []
    for _, kind, exchange in sorted(logged, key=lambda each: each[0]):
        request, response = exchange.get("request") or {}, exchange.get("response") or {}
        if kind == "responses":
            _continue(histories, *_response(request, response))
            continue
        asked = _items(request.get("messages"))
        for choice in _items(response.get("choices")):
            _continue(histories, asked, [choice])
    return histories


def _response(request: Mapping[str, Any], response: Mapping[str, Any]) -> tuple[History, History]:
    """Return what was asked and what was answered in the Responses API, as chat messages."""
    told = request.get("instructions")
    asked = [
        *([{"role": "system", "content": told}] if told else []),
        *chat_messages(request.get("input") or []),
    ]
    reason = (response.get("incomplete_details") or {}).get("reason")
    finish = "length" if reason == "max_output_tokens" else reason or "stop"
    answers = chat_messages(response.get("output") or [])
    return asked, [{"finish_reason": finish, "message": answer} for answer in answers]


def _continue(histories: list[History], asked: History, answers: History) -> None:
    """Add an exchange to the newest history that its request continues, or as a new one."""
    for history in reversed(histories):
        messages = [choice_of(item) or item for item in history]
        if len(messages) <= len(asked) and all(map(_is_same, messages, asked)):
            history += [*asked[len(messages) :], *answers]
            return
    histories.append([*asked, *answers])


def _is_same(earlier: Item, later: Item) -> bool:
    """Return True for a message that is repeated, with or without keys that hold nothing."""
    return all((earlier.get(key) or None) == (later.get(key) or None) for key in ("role", "content"))
