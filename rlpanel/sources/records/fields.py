"""Builds a record from the keys of one sample, named as in `rlpanel.schema`. All adapters use it.

Each further scalar becomes a sample column. ``rewards`` (an object) becomes one column per entry,
``rewards/<name>``. A field of the wrong type is left out with a note, and the sample is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from rlpanel import schema
from rlpanel.errors import LineError
from rlpanel.sources.records import field_values
from rlpanel.sources.records.chat_shapes import text_items
from rlpanel.sources.records.conversation import join_conversation
from rlpanel.sources.records.embedded_media import without_embedded, without_embedded_values
from rlpanel.sources.records.field_values import (
    READ_FROM,
    STEP_LIMIT,
    as_number,
    as_text,
    column_name,
    flat_turns,
    is_by_turn,
    item_count,
    short_repr,
    step_number,
)
from rlpanel.sources.records.json_parser import MAX_KEYS, NESTED, to_float_array, to_python
from rlpanel.sources.records.judge_calls import calls_in, may_judge
from rlpanel.sources.records.message_spellings import role_of
from rlpanel.sources.records.messages import find_messages, messages_text, read_items, response_text
from rlpanel.sources.records.path_numbers import is_eval, rank_of
from rlpanel.sources.records.record_types import Record
from rlpanel.sources.records.token_lists import EXPERTS, expert_ids, routing_mismatch, take_token_lists
from rlpanel.sources.records.value_shapes import (
    read_alternatives,
    read_array,
    read_reward,
    read_scored,
    trained_mask,
)

#: Columns that the store or readers fill, or that a filter computes (`filter_columns`). A logged key
#: with one of these names becomes ``logged_<name>``.
RESERVED = frozenset(
    {"uid", "file", "line", "offset", "prompt_chars", "response_chars", "trajectory_tokens"}
    | {"attempt", "copies", "group_reward", "note", "tag", schema.FIELD_REMARKS}
)
#: Keys of SGLang's output, which hold logprobs with their tokens.
ENGINE_KEYS = ("meta_info", "output_token_logprobs")
#: Names that other programs use, too: a value of another shape is theirs, not a fault.
_SHARED_NAMES = frozenset({"values", "returns", "timing", "images", "audios", "videos", "top_logprobs"})


def build_record(step: Any, fields: Iterable[tuple[str, Any]], path: str, *, full: bool) -> Record:
    """Build the record of one sample.

    Parameters
    ----------
    step : number or text
        12, 12.0 and "12" are the same step.
    fields : pairs of key and value
        Keys of `schema` or their aliases; arrays may be lazy (see `json_parser`).
    path : str
        The file's path below the run. Its name may give the rank, and ``_val`` in it means split "eval".
    full : bool
        Whether to keep all texts, the tokens and unknown keys as well.

    Raises
    ------
    LineError
        If the step is not an integer.
    """
    record = Record(step=step_number(step))
    taker_of = (_FULL if full else _LEAN).get
    others: list[tuple[str, Any]] = []
    judged: list[tuple[str, Any]] = []
    for key, value in fields:
        take = taker_of(key)
        try:
            if take is not None:
                take(record, value)
            else:
                _unknown(record, key, value, full=full)
                if type(value) in NESTED and value is not None:
                    others.append((key, value))
                if may_judge(key, value):
                    judged.append((key, value))
        except (ValueError, RecursionError) as error:
            if key in _SHARED_NAMES and isinstance(error, ValueError):
                _unknown(record, key, value, full=full)
                continue
            # Keep the message only: the error would hold this frame and with it the parser's lazy document.
            reason = "is nested too deeply" if isinstance(error, RecursionError) else str(error)
            record.notes.append(f"{short_repr(key)} {reason}; the sample is kept without it")
    if record.rank < 0:
        record.rank = rank_of(path)
    if is_eval(path):
        record.labels.setdefault("split", "eval")
    if record.experts:
        _compare_experts(record)
    tokens = _count_tokens(record)
    if tokens and others:
        record.unfit = take_token_lists(others, int(tokens), record.arrays, full=full)
    if record.conversation:
        join_conversation(record, full=full)
    if judged:
        _add_judges(record, judged)
    if record.agent is not None:
        _add_agent_columns(record)
    return record


def require_keys(document: Mapping[str, Any], place: str, *keys: str) -> None:
    """Check that a part of a line has keys that its format always writes.

    Without such a key, a value that is shown would be wrong.

    Parameters
    ----------
    document : mapping
    place : str
        The part's own keys in the line, such as ``traces[]``.
    *keys : str

    Raises
    ------
    LineError
        If a key is missing; the message names it.
    """
    for key in keys:
        if key not in document:
            raise LineError(f"no '{place}.{key}'")


def build_texts(fields: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """Return only the texts of a sample, as `build_record` with ``full`` does, at a third of its cost."""
    record = Record(step=0)
    for key, value in fields:
        take = _TEXTS.get(key)
        if take is not None:
            with suppress(ValueError, RecursionError):
                take(record, value)
    if record.conversation:
        join_conversation(record, full=False)
    return record.texts


def _add_judges(record: Record, judged: list[tuple[str, Any]]) -> None:
    """Add the calls of judges that a reward function logs by names of its own, unless calls are logged."""
    if record.agent is not None and record.agent.judge_calls:
        return
    try:
        calls = calls_in(judged)
    except (ValueError, RecursionError):
        return  # the values stay as they are logged
    if calls:
        record.agent_fields().judge_calls = calls


def _add_agent_columns(record: Record) -> None:
    """Add the columns of an agent's rollout; logged numbers come first, except for media, which add up."""
    fields, numbers = record.agent_fields(), record.numbers
    columns = fields.columns()
    for name in schema.MEDIA:
        if name in columns:
            numbers[name] = numbers.get(name, 0.0) + columns[name]
    if fields.policy_versions and "trainer_version" in numbers:
        columns["lag"] = numbers["trainer_version"] - columns["policy_version_min"]
    record.numbers = columns | numbers


def _count_tokens(record: Record) -> float | None:
    """Count the tokens, from the logprobs if no tokens were logged; note arrays of another length.

    All tokens are returned; None if none were logged.

    With a loss mask, ``response_tokens`` are those that the policy wrote, ``trajectory_tokens`` all.
    """
    tokens = record.numbers.get("response_tokens")
    if tokens is not None:
        for name, array in record.arrays.items():
            if len(array) not in (tokens, 0):  # engines without logprobs log an empty list
                record.notes.append(f"'{name}' has {len(array)} values for {tokens:.0f} tokens")
    elif len(record.arrays.get("logprobs", ())):
        tokens = record.numbers["response_tokens"] = float(len(record.arrays["logprobs"]))
    mask = record.arrays.get("loss_mask")
    if tokens is not None and mask is not None:
        written = _written_tokens(mask, tokens)
        record.numbers["response_tokens"] = written or tokens
        record.numbers["trajectory_tokens"] = tokens
        record.numbers["context_tokens"] = tokens - written if written else math.nan
    return tokens


def _written_tokens(mask: np.ndarray, tokens: float) -> float:
    """Return how many of the response's tokens the policy wrote; 0 if the mask does not show it.

    A mask of zeros excludes the sample from the loss, as TRL does with truncated ones; it does not show who
    wrote which token. Neither does a mask of another length.
    """
    return float(np.count_nonzero(mask)) if len(mask) == tokens else 0.0


# -- takers: store one key's value in the record; a ValueError says why the value cannot be used ------

Taker = Callable[[Record, Any], None]


def _skip(record: Record, value: Any) -> None:
    """Ignore a key that is read elsewhere or not needed now."""


def _text(name: str) -> Taker:
    def take(record: Record, value: Any) -> None:
        if value is not None:
            record.texts[name] = as_text(value)

    return take


def _counted_text(name: str) -> Taker:
    column = f"{name}_chars"

    def take(record: Record, value: Any) -> None:
        if value is None:
            return
        text = _conversation_text(record, name, value)
        record.texts[name] = text
        record.numbers[column] = float(len(text))

    return take


def _conversation_text(record: Record, name: str, value: Any) -> str:
    """Store the messages of a prompt or a response, also of one that is their JSON; return their text."""
    if isinstance(value, str):
        items = text_items(value)
        if items is None or (name == "response" and role_of(items[0]["role"]) not in ("assistant", "call")):
            return without_embedded(value)
        messages = read_items(items)
    else:
        value = to_python(value)
        found = find_messages(value)
        if found is None:
            return as_text(value)
        messages = found
    record.conversation[name] = messages
    return response_text(messages) if name == "response" else messages_text(messages)


def _array(name: str) -> Taker:
    has_tokens = name.endswith("logprobs")

    def take(record: Record, value: Any) -> None:
        if value is None:
            return
        if isinstance(value, (int, float)):  # a mean over the tokens, for example
            _unknown(record, name, value, full=False)
            return
        try:
            record.arrays[name] = to_float_array(value)
        except ValueError:
            if not (has_tokens and _scored_tokens(record, name, value)):
                record.arrays[name] = read_array(value)

    return take


def _scored_tokens(record: Record, name: str, value: Any) -> bool:
    """Store logprobs that were logged with their tokens; return False if the value has another shape."""
    scored = read_scored(to_python(value))
    if scored is None:
        return False
    record.arrays[name] = scored.logprobs
    record.numbers.setdefault("response_tokens", float(len(scored.logprobs)))
    if scored.tokens is not None and record.tokens is None:
        record.tokens = scored.tokens
    if scored.ids is not None:
        record.arrays.setdefault("response_token_ids", np.array(scored.ids, float))
    return True


def _engine_output(key: str, *, full: bool) -> Taker:
    """Store SGLang's logprobs: those of the engine are the policy's, unless these were logged."""

    def take(record: Record, value: Any) -> None:
        value = to_python(value)
        logprobs = value.get("output_token_logprobs") if isinstance(value, Mapping) else value
        name = "rollout_logprobs" if "logprobs" in record.arrays else "logprobs"
        if not logprobs or not _scored_tokens(record, name, logprobs):
            _unknown(record, key, value, full=full)

    return take


def _mask(record: Record, value: Any) -> None:
    _take_mask(record, value)
    if "loss_mask" in record.arrays:
        record.arrays["loss_mask"] = trained_mask(record.arrays["loss_mask"])


def _reward(record: Record, value: Any) -> None:
    """Store a reward; one that is an object or a list gives its parts as well."""
    if type(value) is float:
        record.numbers["reward"] = value
    elif value is None or isinstance(value, (int, float, str)):
        record.numbers["reward"] = as_number(value)
    else:
        _reward_parts(record, "reward", to_python(value))


def _reward_parts(record: Record, key: str, value: Any) -> None:
    """Store a reward that is an object or a list, and a remark on what of it was read."""
    found = read_reward(value)
    if found.total is not None and (key == "reward" or "reward" not in record.numbers):
        record.numbers["reward"] = found.total
    for part, score in found.parts.items():
        record.numbers.setdefault(column_name(f"rewards/{part}"), score)
    if found.source:
        record.notes.append(f"{key!r}{READ_FROM}{found.source}")


def _number(name: str) -> Taker:
    """Store a number. Null becomes NaN, so that "logged, but never with a value" shows as a column."""

    def take(record: Record, value: Any) -> None:
        record.numbers[name] = value if type(value) is float else as_number(value)

    return take


def _label(name: str) -> Taker:
    def take(record: Record, value: Any) -> None:
        if isinstance(value, (str, int, float)):
            record.labels[name] = str(value)
        elif value is not None:
            raise ValueError("is not text")

    return take


_take_prompt, _take_response = _counted_text("prompt"), _counted_text("response")
_take_ids = _array("response_token_ids")
_take_mask = _array("loss_mask")
_take_advantage, _take_advantages = _number("advantage"), _array("advantages")


def _messages(record: Record, value: Any) -> None:
    if isinstance(value, str):
        value = text_items(value) or [{"role": "user", "content": value}]
    if value is not None:
        record.conversation["messages"] = value


def _prompt_messages(record: Record, value: Any) -> None:
    number = as_number(value)
    if number.is_integer() and number >= 0:
        record.prompt_messages = int(number)


def _count(record: Record, value: Any) -> None:
    if value is not None:
        record.numbers["response_tokens"] = float(item_count(value))


def _count_ids(record: Record, value: Any) -> None:
    if value is not None:
        record.numbers.setdefault("response_tokens", float(item_count(value)))


def _tokens(record: Record, value: Any) -> None:
    _count(record, value)
    if value is not None:
        tokens = to_python(value)
        tokens = flat_turns(tokens) if is_by_turn(tokens) else tokens
        # Nearly all logs have texts, and their types are compared ten times as fast as they are converted.
        is_text = set(map(type, tokens)) == {str}
        record.tokens = tokens if is_text else ["" if token is None else str(token) for token in tokens]


def _ids(record: Record, value: Any) -> None:
    _count_ids(record, value)
    _take_ids(record, value)


def _alternatives(*, full: bool) -> Taker:
    def take(record: Record, value: Any) -> None:
        if isinstance(value, (int, float)):  # the number that was asked for
            _unknown(record, "top_logprobs", value, full=full)
        elif full and value is not None:
            record.alternatives = read_alternatives(to_python(value))

    return take


def _experts(name: str) -> Taker:
    def take(record: Record, value: Any) -> None:
        if value is not None:
            record.experts[name] = expert_ids(value)

    return take


def _compare_experts(record: Record) -> None:
    """Add the share of layers with other experts, if both sides are logged and it is not."""
    trainer, engine = (record.experts.get(name) for name in EXPERTS)
    if trainer is None or engine is None or "routing_mismatch" in record.arrays:
        return
    if trainer.shape != engine.shape:
        record.notes.append("'experts' and 'rollout_experts' differ in shape and are not compared")
        return
    record.arrays["routing_mismatch"] = routing_mismatch(trainer, engine)


def _agent_field(read: Callable[[field_values.AgentFields, Any], None]) -> Taker:
    def take(record: Record, value: Any) -> None:
        if value is not None:
            read(record.agent_fields(), value)

    return take


def _advantage(record: Record, value: Any) -> None:
    """Store a scalar or per-token advantage; trainers use either name for both."""
    if hasattr(value, "__len__") and not isinstance(value, str):
        _take_advantages(record, value)
    else:
        _take_advantage(record, value)


def _rank(record: Record, value: Any) -> None:
    number = as_number(value)
    if number.is_integer() and 0 <= number < 2**31:
        record.rank = int(number)


def _rewards(record: Record, value: Any) -> None:
    if value is None:
        return
    if not hasattr(value, "__len__") or isinstance(value, str):
        record.numbers.setdefault("reward", as_number(value))
        return
    if not hasattr(value, "items"):
        _reward_parts(record, "rewards", to_python(value))
        return
    if len(value) > MAX_KEYS:
        raise ValueError(f"has {len(value):,} entries; the limit is {MAX_KEYS:,}")
    for part, score in value.items():
        name = f"rewards/{part}"
        try:
            record.numbers[column_name(name)] = score if type(score) is float else as_number(score)
        except ValueError as error:
            if hasattr(score, "items"):
                _reward_parts(record, "rewards", to_python(value))
                return
            record.notes.append(f"{short_repr(name)} {error}; the sample is kept without it")


def _unknown(record: Record, key: str, value: Any, *, full: bool) -> None:
    """Store a scalar as a column. Other values stay in the file and are added only if ``full`` is set."""
    name = column_name(f"logged_{key}" if key in RESERVED else key)
    if type(value) is int and abs(value) >= STEP_LIMIT:
        value = str(value)  # a float would equal its neighbours
    if isinstance(value, str):
        if len(value) <= schema.LABEL_MAX:
            record.labels[name] = value
    elif isinstance(value, (int, float)):
        record.numbers[name] = float(value)
    if full:
        record.extra[key] = without_embedded_values(to_python(value))


_AGENT_FIELDS: dict[str, Callable[[field_values.AgentFields, Any], None]] = {
    "turn_rewards": field_values.read_turn_rewards,
    "policy_version": field_values.read_versions,
    "timing": field_values.read_timing,
    "judge": field_values.read_judge,
    "judge_calls": field_values.read_judge_calls,
    "verifier": field_values.read_verifier,
    "images": field_values.read_images,
    "audios": partial(field_values.read_media, kind="audio"),
    "videos": partial(field_values.read_media, kind="video"),
}
_MAKERS = {"array": _array, "number": _number, "label": _label, "text": _text}


def _takers(*, full: bool) -> dict[str, Taker]:
    """Return the function that stores each key; without ``full`` only those for columns and metrics."""
    takers: dict[str, Taker] = {}
    for field in schema.FIELDS:
        if field.kind in _MAKERS:
            takers |= dict.fromkeys((field.name, *field.aliases), _MAKERS[field.kind](field.name))
    takers |= {name: _agent_field(read) for name, read in _AGENT_FIELDS.items()}
    takers |= {key: _experts(name) for key, name in schema.CANONICAL.items() if name in EXPERTS}
    takers |= {"step": _skip, "rank": _rank, "rewards": _rewards}
    takers |= {"messages": _messages, "prompt_messages": _prompt_messages}
    takers |= {"advantage": _advantage, "advantages": _advantage}
    takers |= {"reward": _reward, "loss_mask": _mask}
    takers |= {key: _engine_output(key, full=full) for key in ENGINE_KEYS}
    takers["top_logprobs"] = _alternatives(full=full)
    takers |= {"prompt": _take_prompt, "response": _take_response}
    takers["response_tokens"] = _tokens if full else _count
    takers["response_token_ids"] = _ids if full else _count_ids
    if not full:
        takers |= {"ref_response": _skip, "ground_truth": _skip, "judge": _skip}
    return takers


_LEAN = _takers(full=False)
_FULL = _takers(full=True)
_TEXTS = {key: _FULL[key] for key, name in schema.CANONICAL.items() if name in schema.TEXTS}
_TEXTS |= {"messages": _messages, "prompt_messages": _prompt_messages}
#: Keys of a line that `build_texts` uses.
TEXT_KEYS = frozenset(_TEXTS)
