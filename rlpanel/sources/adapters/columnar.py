"""Reads lines of several samples: columns of a step, whose values are lists of equal length, and groups.

A group is one prompt with lists of equal length under its responses and rewards. Its other values belong to
all its samples, unless they are lists of this length, too.

ms-swift appends such a line to ``completions.jsonl`` at each logging step (see also `ms_swift`); ROLL writes
one to ``rollout_dump_data.step_{N}.jsonl``. ms-swift logs no total reward: the columns between
``completion`` and ``advantages`` are its reward functions, and their sum is the reward. On Megatron its step
is ``gen_step``. ROLL asks its policy ``messages``, JSON in a text, if a data set has them; ``prompt`` may
lack the question.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.records.chat_shapes import text_items
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.record_types import MAX_SAMPLES, Record
from rlpanel.sources.records.text_pieces import are_pieces

_STEPS = ("step", "gen_step", "global_step")
_PROMPTS = ("prompt", "prompts", "input")
_SEVERAL = ("completions", "responses", "outputs")
_RESPONSES = ("completion", "response", "output", *_SEVERAL)
_REWARDS = ("reward", "rewards", "score", "scores")
#: Native names. The logged entropy is a mean over tokens; natively ``entropy`` has one value per token.
_NAMES = {
    **dict.fromkeys(_PROMPTS, "prompt"),
    **dict.fromkeys(_RESPONSES, "response"),
    "scores": "reward",
    "score": "reward",
    "gts": "ground_truth",
    "advantages": "advantage",
    "entropy": "logged_entropy",
}
#: Most samples times columns in a line, because each value becomes an object of some hundred bytes.
MAX_VALUES = 1_000_000


class Columnar:
    """Adapter for lines that hold a step's samples as columns."""

    name = "columnar"
    looks = "*.jsonl with lists of equal length under 'step', 'gen_step' or 'global_step', 'prompt' and "
    looks += "'completion' or 'responses' (ms-swift, ROLL)"
    #: ms-swift writes the last samples again at each evaluation and at the end of training.
    repeats_rows = True

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the values of the step and of a text are lists."""
        steps, prompts, responses = (_first(document, keys) for keys in (_STEPS, _PROMPTS, _RESPONSES))
        return is_list(steps) and (is_list(prompts) or is_list(responses))

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the samples of a line."""
        step_key = next((key for key in _STEPS if key in document), None)
        if step_key is None:
            raise LineError("no 'step', 'gen_step' or 'global_step'")
        columns = {key: to_python(value) for key, value in document.items()}
        count = count_samples(columns)
        reward_keys = _reward_columns(columns)
        steps = columns.pop(step_key)
        return [
            build_record(steps[index], _fields(columns, reward_keys, index), path, full=full)
            for index in range(count)
        ]


class Groups:
    """Adapter for lines with the responses to one prompt and their rewards."""

    name = "groups"
    looks = "*.jsonl with a 'step' and lists of equal length under 'completions' and 'rewards' (groups)"

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if a line with one step holds a list of responses, which are texts or conversations."""
        response, step = _first(document, _RESPONSES), _first(document, _STEPS)
        rewards = [document[key] for key in _REWARDS if key in document]
        is_several = any(key in document for key in _SEVERAL) and holds_samples(response)
        return step is not None and not is_list(step) and (is_several or fits_rewards(response, rewards))

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the samples of a line."""
        values = {key: to_python(value) for key, value in document.items()}
        step_key = next((key for key in _STEPS if key in values), None)
        response = next((key for key in _RESPONSES if isinstance(values.get(key), list)), None)
        if step_key is None or response is None:
            raise LineError("no 'step', or no list of responses")
        step = values.pop(step_key)
        lists = {key: values[key] for key in (response, *_REWARDS) if isinstance(values.get(key), list)}
        return [
            build_record(step, ((_group_name(*pair), pair[1]) for pair in each.items()), path, full=full)
            for each in split_group(values, count_samples(lists, len(values)))
        ]


def fits_rewards(response: Any, rewards: Iterable[Any]) -> bool:
    """Return True if a response is a list of responses and a reward is a list of as many."""
    return holds_samples(response) and any(is_list(each) and len(each) == len(response) for each in rewards)


def holds_samples(values: Any) -> bool:
    """Return True for a list that is neither empty, nor a conversation, nor the pieces of one text."""
    if not is_list(values) or len(values) == 0 or hasattr(values[0], "keys"):
        return False
    return not are_pieces(values)


def split_group(values: Mapping[str, Any], count: int) -> Iterator[dict[str, Any]]:
    """Yield the fields of each sample of a group.

    A list of ``count`` items has one for each sample, also in an object of such lists. A conversation or a
    list of tools is shared.
    """
    shared = {key for key in ("messages", "tools", *_PROMPTS) if not holds_samples(values.get(key))}
    for index in range(count):
        yield {key: value if key in shared else _item(value, count, index) for key, value in values.items()}


def _item(value: Any, count: int, index: int) -> Any:
    if isinstance(value, dict) and value and all(_has_length(each, count) for each in value.values()):
        return {key: each[index] for key, each in value.items()}
    return value[index] if _has_length(value, count) else value


def _has_length(value: Any, count: int) -> bool:
    return isinstance(value, list) and len(value) == count


def _group_name(key: str, value: Any) -> str:
    """Return rlpanel's name for a key of a group's sample; its rewards may be an object."""
    if key == "rewards":
        return key if isinstance(value, dict) else "reward"
    return key if key == "advantages" and isinstance(value, list) else _NAMES.get(key, key)


def _first(document: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((document[key] for key in keys if key in document), None)


def is_list(value: Any) -> bool:
    """Return True for a JSON array, lazy or not."""
    return isinstance(value, list) or hasattr(value, "as_list")


def count_samples(columns: Mapping[str, Any], keys: int = 0) -> int:
    """Return the number of samples of a line with so many keys, by default those of the columns.

    Raises
    ------
    LineError
        If the columns have different lengths, or if the line holds too much.
    """
    scalars = [key for key, value in columns.items() if not isinstance(value, list)]
    if scalars:
        raise LineError(f"{scalars[0]!r} is not a list, unlike the line's other values")
    lengths = {key: len(value) for key, value in columns.items()}
    if len(set(lengths.values())) > 1:
        unequal = ", ".join(f"{key!r} {length}" for key, length in list(lengths.items())[:6])
        raise LineError(f"lists of unequal length: {unequal}")
    count = next(iter(lengths.values()), 0)
    if count > MAX_SAMPLES:
        raise LineError(f"{count:,} samples in one line; the limit is {MAX_SAMPLES:,}")
    values = count * max(keys, len(columns))
    if values > MAX_VALUES:
        raise LineError(f"{values:,} values in one line; the limit is {MAX_VALUES:,}")
    return count


def _reward_columns(columns: dict[str, Any]) -> list[str]:
    """Return the keys of the reward functions' columns; none if the total was logged."""
    keys = list(columns)
    response = next((key for key in _RESPONSES if key in columns), None)
    if {"scores", "reward"} & columns.keys() or response is None or "advantages" not in columns:
        return []
    between = keys[keys.index(response) + 1 : keys.index("advantages")]
    return [key for key in between if all(item is None or _is_number(item) for item in columns[key])]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _fields(columns: dict[str, Any], reward_keys: list[str], index: int) -> Iterator[tuple[str, Any]]:
    asked = _asked(columns, index)
    for key, values in columns.items():
        name = f"rewards/{key}" if key in reward_keys else _NAMES.get(key, key)
        if not asked or (key != "messages" and name != "prompt"):
            yield name, values[index]
    if asked:
        yield "prompt", asked
    scores = [columns[key][index] for key in reward_keys]
    logged = [score for score in scores if score is not None and not math.isnan(score)]
    if reward_keys:
        yield "reward", sum(logged) if logged else None


def _asked(columns: dict[str, Any], index: int) -> list[Any]:
    """Return the messages that ROLL's policy answered; empty if the text holds no messages."""
    text = columns["messages"][index] if "messages" in columns else None
    return (text_items(text) if isinstance(text, str) else None) or []
