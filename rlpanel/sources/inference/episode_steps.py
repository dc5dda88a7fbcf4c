"""Gives the steps of an episode, as environments for reinforcement learning log them, as chat messages.

A step has an action, and often what was observed before or after it, a thought, and a reward.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_ACTIONS = ("action", "act", "tool_call", "command")
#: Keys of a tool's name, of its arguments, and of what it gave back.
_TOOLS = ("tool", "tool_name", "function", "function_name", "api_name", "action", "action_type", "name")
_GIVEN = ("arguments", "args", "tool_input", "action_input", "parameters", "params", "tool_args", "input")
_GIVEN_BACK = ("output", "tool_output", "response", "return")
#: Keys of a list of turns, of the policy's text in a turn, and of what it was asked.
_TURNS = re.compile(r"(?:^|\.)(?:turns|rounds)$")
_SAID = (
    "llm_response",
    "model_response",
    "agent_response",
    "response",
    "response_text",
    "completion",
    "output",
    "answer",
)
_ASKED = ("prompt", "question", "user", "feedback", "input")
_NAME = re.compile(r"[\w./:-]{1,64}")
#: Keys of what the policy saw: in the order of the record, before or after its action.
_SEEN = ("observation", "obs", "state", "env_response", "tool_response", "result")
#: Keys of what it saw next, which the next step repeats.
_NEXT = ("next_observation", "next_obs", "next_state")
_THOUGHTS = ("thought", "thoughts", "reasoning", "thinking", "reasoning_content")


def answers_in(key: str, value: Any) -> list[dict[str, Any]] | None:
    """Return the messages of an episode's steps, or of the policy's turns; None for any other value.

    Parameters
    ----------
    key : str
        Dotted key of the value: the turns of a choice are all the policy's.
    value : any
    """
    if key.endswith("choices.0.turns") and isinstance(value, list) and value:
        texts = all(isinstance(turn, str) for turn in value)
        return [{"role": "assistant", "content": turn} for turn in value] if texts else None
    return step_messages(value) or (turn_messages(value) if _TURNS.search(key) else None)


def turn_messages(value: Any) -> list[dict[str, Any]] | None:
    """Return the messages of the policy's turns: objects that each have one text of it; None for others."""
    if not isinstance(value, list) or not value or not all(isinstance(turn, dict) for turn in value):
        return None
    if any("role" in turn or "messages" in turn for turn in value):
        return None
    name = next((each for each in _SAID if all(_is_said(turn.get(each)) for turn in value)), None)
    asked = next((each for each in _ASKED if any(isinstance(turn.get(each), str) for turn in value)), "")
    if name is None:
        return None
    return [
        {"role": role, "content": action_text(turn[key])}
        for turn in value
        for role, key in (("user", asked), ("assistant", name))
        if _is_said(turn.get(key))
    ]


def _is_said(value: Any) -> bool:
    """Return True for a text, or an object with texts: a structured answer."""
    return isinstance(value, str) or (
        isinstance(value, dict) and any(isinstance(each, str) for each in value.values())
    )


def step_messages(value: Any) -> list[dict[str, Any]] | None:
    """Return the messages of a list of steps; None if not every item is an object with an action."""
    value = listed_steps(value) or value
    if not isinstance(value, list) or not value:
        return None
    if not all(isinstance(step, dict) and (_first(step, _ACTIONS) or _tool_of(step)) for step in value):
        return None
    if any("role" in step or "messages" in step for step in value):
        return None
    messages = [message for step in value for message in _messages_of(step)]
    last = _first(value[-1], _NEXT)
    return [*messages, _seen(value[-1][last])] if last else messages


def listed_steps(value: Any) -> list[dict[str, Any]] | None:
    """Return the steps of an episode in columns, as InterCode logs it; None for any other value.

    Its keys are plurals, such as ``actions``, ``observations`` and ``rewards``, with one value per step.
    """
    if not isinstance(value, dict):
        return None
    names = {name: f"{name}s" for name in (*_ACTIONS, *_SEEN, *_THOUGHTS, "reward")}
    columns = {name: value[key] for name, key in names.items() if isinstance(value.get(key), list)}
    actions = next((columns[name] for name in _ACTIONS if columns.get(name)), None)
    if actions is None or not any(name in columns for name in _SEEN):
        return None
    order = [name for name in (*_THOUGHTS, *_ACTIONS, *_SEEN, "reward") if name in columns]
    whole = [name for name in order if len(columns[name]) == len(actions)]
    return [{name: columns[name][at] for name in whole} for at in range(len(actions))]


def is_thought_step(step: Any) -> bool:
    """Return True for a step with a thought, the action that follows, and what was seen then."""
    return isinstance(step, dict) and all(_first(step, names) for names in (_THOUGHTS, _ACTIONS, _SEEN))


def _tool_of(step: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the keys of a tool's name and of its arguments; None if a step lacks one of them."""
    name, given = _first(step, _TOOLS), _first(step, _GIVEN)
    is_name = bool(name) and isinstance(step[name], str) and _NAME.fullmatch(step[name]) is not None
    return (name, given) if is_name and given else None


def _messages_of(step: Mapping[str, Any]) -> list[dict[str, Any]]:
    action, thought, tool = _first(step, _ACTIONS), _first(step, _THOUGHTS), _tool_of(step)
    said: dict[str, Any] = {"role": "assistant", "content": "" if tool else action_text(step[action])}
    if tool:
        action, given = tool
        call = {"name": step[action], "arguments": action_text(step[given])}
        said["tool_calls"] = [{"type": "function", "function": call}]
    if thought:
        said["reasoning_content"] = action_text(step[thought])
    if isinstance(step.get("reward"), (int, float)):
        said["reward"] = step["reward"]
    seen, keys = _first(step, (*_SEEN, *_GIVEN_BACK) if tool else _SEEN), list(step)
    if not seen:
        return [said]
    is_before = keys.index(seen) < keys.index(action)
    return [_seen(step[seen]), said] if is_before else [said, _seen(step[seen])]


def _seen(value: Any) -> dict[str, Any]:
    return {"role": "environment", "content": action_text(value)}


def _first(step: Mapping[str, Any], names: Sequence[str]) -> str:
    return next((name for name in names if step.get(name) not in (None, "")), "")


def action_text(value: Any) -> str:
    """Return an action or an observation as text; an object as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
