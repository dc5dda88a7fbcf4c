"""Reads the groups that an environment of atropos appends to its ``data_path_to_save_groups``, one a line.

A group holds a list for each key, with one item per sample. ``masks`` repeats ``tokens``, with -100 for
tokens that are not trained: those of the prompt, and later ones of tools. No step is logged, and no number of
the group: its place in the file stands for it. Messages are logged on demand. If the environment has none,
atropos writes the decoded tokens as one message, which does not say where the response begins.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.message_spellings import role_of
from rlpanel.sources.records.record_types import MAX_SAMPLES, Record

_KEYS = ("tokens", "masks", "scores")
_MASKED = -100
#: Arrays with one value for each of a sample's tokens.
_ARRAYS = {
    "advantages": "advantages",
    "ref_logprobs": "ref_logprobs",
    "inference_logprobs": "rollout_logprobs",
}

Fields = Iterator[tuple[str, Any]]


class Atropos:
    """Adapter for the groups of atropos."""

    name = "atropos"
    lacks_steps = True
    looks = "*.jsonl with lists of a group under 'tokens', 'masks' and 'scores' (atropos)"

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the line holds the tokens of several samples."""
        tokens, masks, scores = (to_python(document.get(key)) for key in _KEYS)
        lists = isinstance(tokens, list) and isinstance(masks, list) and isinstance(scores, list)
        return lists and bool(tokens) and all(isinstance(item, list) for item in (*tokens, *masks))

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the samples of a group."""
        group = {key: to_python(value) for key, value in document.items()}
        count = _count(group)
        records = [build_record(0, _fields(_item(group, at, count)), path, full=full) for at in range(count)]
        folder, slash, name = path.rpartition("/")  # files of two ranks may have one name
        for record in records:
            record.labels["group"] = folder + slash + name.partition(".")[0]
        return records

    def place(self, records: list[Record], offset: int) -> None:
        """Name the group by the place of its line."""
        for record in records:
            record.labels["group"] += f":{offset}"


def _count(group: Mapping[str, Any]) -> int:
    """Return the number of samples; LineError if the lists differ in length or hold too much."""
    missing = next((key for key in _KEYS if not isinstance(group.get(key), list)), None)
    if missing:
        raise LineError(f"{missing!r} is not a list")
    lengths = {key: len(group[key]) for key in _KEYS}
    if len(set(lengths.values())) > 1:
        raise LineError(f"lists of unequal length: {', '.join(f'{key!r} {n}' for key, n in lengths.items())}")
    if lengths["tokens"] > MAX_SAMPLES:
        raise LineError(f"{lengths['tokens']:,} samples in one line; the limit is {MAX_SAMPLES:,}")
    return lengths["tokens"]


def _item(group: Mapping[str, Any], at: int, count: int) -> dict[str, Any]:
    """Return what a group holds about one of its samples."""
    return {
        key: value[at] if isinstance(value, list) and len(value) == count else value
        for key, value in group.items()
        if value is not None
    }


def _fields(item: dict[str, Any]) -> Fields:
    tokens, mask = item.pop("tokens"), item.pop("masks")
    if not isinstance(tokens, list) or not isinstance(mask, list) or len(tokens) != len(mask):
        raise LineError("the 'tokens' and the 'masks' of a sample have different lengths")
    trained = [value != _MASKED for value in mask]
    first = trained.index(True) if True in trained else len(tokens)
    yield "reward", item.pop("scores")
    yield "prompt_token_ids", tokens[:first]
    yield "response_token_ids", tokens[first:]
    yield "loss_mask", list(map(int, trained[first:]))
    yield from _texts(item.pop("messages", None))
    for key, value in item.items():
        is_list = isinstance(value, list)
        # Arrays of other names, such as token_scores, are passed on under these.
        if is_list and len(value) == len(tokens) and not any(isinstance(each, (str, list)) for each in value):
            yield _ARRAYS.get(key, key), _of_response(value, trained, first)
        else:
            yield _ARRAYS.get(key, key) if is_list else key, value


def _of_response(values: list[Any], trained: list[bool], first: int) -> list[Any]:
    """Return the values of a response's tokens; those that are not trained have none."""
    return [value if own else math.nan for value, own in zip(values[first:], trained[first:], strict=True)]


def _texts(messages: Any) -> Fields:
    """Yield the conversation, or the text that stands for it."""
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        if messages is not None:
            yield "transcript", messages
        return
    told = any(role_of(str(each.get("role"))) == "assistant" for each in messages)
    yield "messages" if told else "transcript", messages
