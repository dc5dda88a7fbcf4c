"""Tests of the values under a key: texts, conversations, numbers, counters, lists of values per token.

All functions take the values of one key in the sampled records, without those that lack it or hold null.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.inference.aliases import fields_of
from rlpanel.sources.inference.alternatives import parallel_keys
from rlpanel.sources.records.chat_shapes import logged_role
from rlpanel.sources.records.json_parser import parse_value
from rlpanel.sources.records.message_spellings import role_of
from rlpanel.sources.records.messages import is_messages
from rlpanel.sources.records.text_pieces import are_pieces
from rlpanel.sources.records.value_shapes import verdict_of

#: Most keys of a sample, levels of objects and characters of a JSON text that are looked at.
MAX_PATHS, MAX_DEPTH, MAX_TEXT = 400, 4, 200_000
#: Most objects of a list that are entered.
MAX_ITEMS = 1024
_NUMBER_TEXT = re.compile(r"\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*", re.ASCII)
_TRUTH = {"true": 1.0, "false": 0.0}
#: Rewards lie within the first bound, and steps below the second one.
_MAX_REWARD, _MAX_STEP = 1e5, 2**53


#: Keys of lists that hold the samples for one prompt, and of those that hold the turns of one sample.
SAMPLE_LISTS = frozenset(
    {"samples", "completions", "responses", "generations", "rollouts", "outputs", "trajectories", "attempts"}
    | {"candidates", "choices", "predictions", "answers", "episodes", "trials", "results", "solutions"}
)
_TURN_LISTS = frozenset(
    {"messages", "conversation", "conversations", "history", "steps", "turns", "rounds", "trajectory"}
    | {"transitions", "events", "tool_calls", "tools", "spans", "nodes", "content", "parts"}
    | {"actions", "observations"}
)


def values_by_path(record: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    """Return the values of a record by dotted path; a list's only object is entered as item 0.

    Of a list of objects ``*`` stands for each of them: the value is the list of theirs. Columns that hold
    a value for each of several samples are also given together: ``gen_*``.
    """
    found: dict[str, Any] = {}
    several = parallel_keys(record) if depth == 0 else {}
    waiting = [("", record, depth)]
    systems: list[str] | None = None  # keys of an object with a text for each of them
    while waiting and len(found) < MAX_PATHS:
        prefix, value, depth = waiting.pop(0)
        for key, child in value.items():
            path = f"{prefix}{key}"
            if child is None or len(found) >= MAX_PATHS:
                continue
            found[path] = child
            if "response" in fields_of(key) and _holds_texts_by_model(child):
                found[f"{path}.*"] = list(child.values())
                systems = list(child)
            elif "reward" in fields_of(key) and isinstance(child, dict) and list(child) == systems:
                found[f"{path}.*"] = list(child.values())
            if depth < MAX_DEPTH and isinstance(child, dict):
                waiting.append((f"{path}.", child, depth + 1))
            elif depth < MAX_DEPTH and _is_list_of_objects(key, child):
                if len(child) == 1:
                    waiting.append((f"{path}.0.", child[0], depth + 1))
                items = [values_by_path(item, depth + 1) for item in child]
                for inner in dict.fromkeys(name for item in items for name in item):
                    found[f"{path}.*.{inner}"] = [item.get(inner) for item in items]
            elif _is_single_text(child):
                found[f"{path}.0.0"] = child[0][0]
    return found | several


def keys_of(records: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Return the dotted paths of all records."""
    return frozenset(path for record in records for path in values_by_path(record))


def _is_list_of_objects(key: str, value: Any) -> bool:
    """Return True for a list of objects that are not the turns of one sample."""
    return (
        isinstance(value, list)
        and 0 < len(value) <= MAX_ITEMS
        and all(isinstance(item, dict) for item in value)
        and key.lower() not in _TURN_LISTS
        and (key.lower() in SAMPLE_LISTS or not is_messages(value))
    )


def _holds_texts_by_model(value: Any) -> bool:
    """Return True for an object of several texts, none of which has the name of a field."""
    return (
        isinstance(value, dict)
        and 1 < len(value) <= MAX_ITEMS
        and all(isinstance(text, str) for text in value.values())
        and not any(fields_of(name) for name in value)
    )


def _is_single_text(value: Any) -> bool:
    """Return True for a text in a list in a list, as of the only choice for the only request."""
    inner = value[0] if isinstance(value, list) and len(value) == 1 else None
    return isinstance(inner, list) and len(inner) == 1 and isinstance(inner[0], str)


def share(fits: Callable[[Any], bool], values: Sequence[Any]) -> float:
    """Return the share of values that fit."""
    return sum(map(fits, values)) / len(values) if values else 0.0


def items_of(value: Any) -> list[Any]:
    """Return the items of a list that is not a conversation: one value per sample; else the value alone.

    A list may hold lists of texts or numbers, one for each of several settings.
    """
    if not isinstance(value, list) or not value or is_messages(value):
        return [value]
    if are_pieces(value):
        return ["".join(value)]
    if all(isinstance(item, list) and item and all(map(_is_scalar, item)) for item in value):
        return [each for item in value for each in item]
    return value


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (str, int, float))


def is_text(value: Any) -> bool:
    """Return True for a text that is not blank, or a conversation, or a list of such."""
    items = items_of(value)
    several = len(items) > 1 and all(isinstance(item, str) for item in items)  # some of them may be blank
    return (several and any(item.strip() for item in items)) or all(
        (isinstance(item, str) and bool(item.strip()))
        or (isinstance(item, (list, dict)) and is_messages(item))
        for item in items
    )


def is_action(value: Any) -> bool:
    """Return True for a text, a conversation, an action's object, or a list of such."""
    return all(is_text(item) or (isinstance(item, dict) and bool(item)) for item in items_of(value))


def is_answer(value: Any) -> bool:
    """Return True for a text, a conversation, or a list of calls: objects with one key, a tool's name."""
    calls = isinstance(value, list) and all(isinstance(item, dict) and len(item) == 1 for item in value)
    return bool(value) and (calls or is_text(value))


def read_conversation(value: Any) -> Sequence[Mapping[str, Any]] | None:
    """Return the messages of a conversation, also from JSON text; None for any other value."""
    if isinstance(value, str) and value.lstrip()[:2] in ("[{", "[\n", "[ ") and len(value) <= MAX_TEXT:
        try:
            value = parse_value(value)
        except LineError:
            return None
    return value if isinstance(value, list) and is_messages(value) else None


def is_conversation(value: Any) -> bool:
    """Return True for a list of chat messages, or its JSON text, or a list of such."""
    return all(read_conversation(item) is not None for item in items_of(value))


def holds_answer(value: Any) -> bool:
    """Return True for a conversation in which the policy speaks, or a list of such."""
    return all(
        any(role_of(logged_role(each) or "") == "assistant" for each in read_conversation(item) or ())
        for item in items_of(value)
    )


def as_number(value: Any) -> float | None:
    """Return a number, the number in a text, or that of True and False; None for any other value."""
    if isinstance(value, (int, float)):
        return float(value) if abs(value) < 1e300 or not math.isfinite(value) else None
    if isinstance(value, str):
        text = value.strip().lower()
        return float(text) if _NUMBER_TEXT.fullmatch(text) else _TRUTH.get(text)
    return None


def as_reward(value: Any) -> float | None:
    """Return a number as `as_number` does, or that of a verdict such as ``pass`` or ``incorrect``."""
    number = as_number(value)
    return verdict_of(value) if number is None and isinstance(value, str) else number


def numbers_of(value: Any) -> list[float]:
    """Return the numbers of a value: one, or those of a list; none if an item is not a number."""
    numbers = [as_number(item) for item in items_of(value)]
    return [number for number in numbers if number is not None] if None not in numbers else []


def is_reward(value: Any) -> bool:
    """Return True for a number or a verdict, or a list of some, in the range of rewards.

    NaN counts as a missing one.
    """
    return all(
        (number := as_reward(item)) is not None and not abs(number) > _MAX_REWARD for item in items_of(value)
    )


def is_counter(numbers: Sequence[float]) -> bool:
    """Return True if at least five numbers rise by one from record to record: a line number or id."""
    return len(numbers) > 4 and all(after - before == 1 for before, after in pairwise(numbers))


def is_step(value: Any) -> bool:
    """Return True for a whole number from -1 on, or a list of such."""
    numbers = numbers_of(value)
    truth = any(isinstance(item, bool) for item in items_of(value))
    return bool(numbers) and not truth and all(_is_whole(number) for number in numbers)


def _is_whole(number: float) -> bool:
    return math.isfinite(number) and number.is_integer() and -1 <= number < _MAX_STEP


def is_parts(value: Any) -> bool:
    """Return True for an object of numbers, or of ``{score, weight}``."""
    return isinstance(value, dict) and bool(value) and all(map(_is_part, value.values()))


def _is_part(value: Any) -> bool:
    return as_number(value.get("score") if isinstance(value, dict) else value) is not None


def is_label(value: Any) -> bool:
    """Return True for a short text or a number: the value of an id or a status."""
    return all(isinstance(item, (str, int, float)) and len(str(item)) <= 128 for item in items_of(value))


def is_number_list(value: Any) -> bool:
    """Return True for a list of numbers or nulls, one per token."""
    return isinstance(value, list) and bool(value) and all(_is_number(item) for item in value)


def is_id_list(value: Any) -> bool:
    """Return True for a list of whole numbers."""
    return is_number_list(value) and all(isinstance(item, int) for item in value)


def is_text_list(value: Any) -> bool:
    """Return True for a list of texts, one per token."""
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
