"""Tests of the values under a key, and of columns that hold the answers of several systems."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.adapters.record_shapes import PLUS, columns_of, values_of
from rlpanel.sources.inference.aliases import fields_of, names_model, plain_name
from rlpanel.sources.records.chat_shapes import logged_role
from rlpanel.sources.records.json_parser import parse_value
from rlpanel.sources.records.message_spellings import role_of
from rlpanel.sources.records.messages import is_messages
from rlpanel.sources.records.text_pieces import are_pieces
from rlpanel.sources.records.value_shapes import verdict_of

# -- alternatives --------------------------------------------------------------------------------------
# Finds the columns that hold the answers of several systems to one prompt, and their verdicts.
#
# The names of such columns differ in one part, the system: ``gpt4_answer`` and ``llama_answer``, ``answer_a``
# and ``answer_b``, or ``chosen`` and ``rejected``. `record_shapes` reads them under one key.


#: Fewest and most columns that belong together, and most keys of a record that are compared.
_MIN_COLUMNS, _MAX_COLUMNS, _MAX_KEYS = 2, 512, 600
_NUMBERED = re.compile(r"(?P<stem>.*[^\d])(?P<number>\d{1,4})", re.ASCII | re.DOTALL)
#: Ends of names under which a system has a text or a verdict, whatever else they mean.
_TEXTS = frozenset(
    {"predicted", "prediction", "pred", "response", "output", "answer", "completion", "generation"}
)
_VERDICTS = frozenset({"correct", "score", "passed", "reward", "success", "acc", "accuracy", "exact_match"})
#: Names of the two sides of a comparison.
_SIDES = (
    *({"a", "b"}, {"chosen", "rejected"}, {"preferred", "dispreferred"}, {"accepted", "rejected"}),
    *({"left", "right"}, {"winner", "loser"}, {"win", "lose"}, {"better", "worse"}),
)
#: Words of a system's name that say who else wrote the text.
_OTHERS = frozenset({"gold", "golden", "gt", "reference", "ref", "expected", "correct", "target", "human"})

#: A part of a name that is the system, and the rest: ``("before", "answer")`` of ``gpt4_answer``.
_Place = tuple[str, str]


def parallel_keys(record: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the keys that stand for columns of a record, each with its values.

    Numbered columns count from 0 or 1, and hold all texts or all numbers. Named ones count if each of the
    same systems has a text and a verdict, if all systems are models, or if they are two sides.
    """
    if not _MIN_COLUMNS <= len(record) <= _MAX_KEYS:
        return {}
    return {**_numbered(record), **_of_systems(record)}


def _numbered(record: Mapping[str, Any]) -> dict[str, list[Any]]:
    stems: dict[str, dict[int, Any]] = {}
    for name, value in record.items():
        if (found := _NUMBERED.fullmatch(name)) is not None and "*" not in name:
            stems.setdefault(found["stem"], {})[int(found["number"])] = value
    return {
        f"{stem}*": [values[number] for number in sorted(values)]
        for stem, values in stems.items()
        if _MIN_COLUMNS <= len(values) <= _MAX_COLUMNS
        and min(values) in (0, 1)
        and max(values) - min(values) == len(values) - 1
        and (_are(values.values(), _is_text) or _are(values.values(), _alternatives_is_number))
    }


def _of_systems(record: Mapping[str, Any]) -> dict[str, list[Any]]:
    names = [name for name in record if not set("*+") & set(name)]
    texts = _by_place(names, record, _is_text)
    numbers = _by_place(names, record, _alternatives_is_number)
    texts = {place: each for place, each in texts.items() if place[1] == "" or _may_answer(place[1])}
    numbers = {place: each for place, each in numbers.items() if place[1] and _may_judge(place[1])}
    found: dict[str, list[Any]] = {}
    for place, columns in texts.items():
        verdicts = [each for each in numbers.values() if _are_systems(each, columns, place)]
        for each in verdicts:
            found |= _joined([columns[system] for system in each], record)
            found |= _joined([*each.values()], record)
        if verdicts:
            continue
        models = {system: name for system, name in columns.items() if names_model(name)}
        if len(models) >= _MIN_COLUMNS and (place[1] or len(models) == len(columns) - _asked(columns)):
            found |= _joined([*models.values()], record)
        elif sides := next((each for each in _SIDES if each == _plain_sides(columns, place)), None):
            found |= _joined([columns[system] for system in columns if system in sides], record)
    return found


def _by_place(names: Iterable[str], record: Mapping[str, Any], fits: Any) -> dict[_Place, dict[str, str]]:
    """Return the names of columns by system, for each place of the system in the names."""
    found: dict[_Place, dict[str, str]] = {}
    for name in names:
        if record[name] is None or fits(record[name]):
            for place, system in _splits(plain_name(name)):
                found.setdefault(place, {}).setdefault(system, name)
    return {
        place: each
        for place, each in found.items()
        if len(each) >= _MIN_COLUMNS and any(record[name] is not None for name in each.values())
    }


def _splits(name: str) -> Iterator[tuple[_Place, str]]:
    yield ("all", ""), name
    words = name.split("_")
    for at in range(1, len(words)):
        yield ("before", "_".join(words[at:])), "_".join(words[:at])
        yield ("after", "_".join(words[:at])), "_".join(words[at:])


def _are_systems(verdicts: Mapping[str, str], columns: Mapping[str, str], place: _Place) -> bool:
    """Return True if systems with a verdict each have a text as well, and none of them is another field."""
    if not verdicts.keys() <= columns.keys() or any(system.isdecimal() for system in verdicts):
        return False
    if not all(_OTHERS.isdisjoint(system.split("_")) for system in verdicts):
        return False
    return place[1] != "" or not any(fields_of(system) for system in verdicts)


def _plain_sides(columns: Mapping[str, str], place: _Place) -> set[str]:
    """Return the systems; beside a column that is the whole name, only those that have no other meaning."""
    return set(columns) if place[1] else {system for system in columns if any(system in s for s in _SIDES)}


def _asked(columns: Mapping[str, str]) -> int:
    """Return the number of columns that are other fields than a response."""
    return sum(bool(fields_of(name)) and not names_model(name) for name in columns.values())


def _may_answer(rest: str) -> bool:
    return rest in _TEXTS or not {"response", "messages"}.isdisjoint(fields_of(rest))


def _may_judge(rest: str) -> bool:
    return rest in _VERDICTS or "reward" in fields_of(rest)


def _joined(names: list[str], record: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the key that stands for columns, with its values: ``*_answer``, or else their names."""
    end = f"_{names[0].rpartition('_')[2]}"
    short = f"*{end}"
    is_short = all(name.endswith(end) for name in names) and set(columns_of(short, record)) == set(names)
    key = short if is_short else PLUS.join(names)
    return {key: values} if (values := values_of(key, record)) is not None else {}


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and bool(value) and is_messages(value))


def _alternatives_is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _are(values: Iterable[Any], fits: Any) -> bool:
    """Return True if all values fit; some may be missing."""
    found = [value for value in values if value is not None]
    return bool(found) and all(map(fits, found))


# -- content -------------------------------------------------------------------------------------------
# Tests of the values under a key: texts, conversations, numbers, counters, lists of values per token.
#
# All functions take the values of one key in the sampled records, without those that lack it or hold null.


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
