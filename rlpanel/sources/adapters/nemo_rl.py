"""Reads NeMo-RL's ``train_data_step{N}.jsonl`` and ``val_data_step{N}.jsonl``, each written in one go.

Every value except ``idx`` is wrapped in a list of length 1. Token arrays cover prompt and response and are
padded on the right to the longest in the batch. The response is where ``token_loss_mask`` is 1 within
``input_lengths``. ``prev_logprobs`` are the policy's before the update, ``generation_logprobs`` the engine's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rlpanel.errors import LineError
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import to_float_array, to_python
from rlpanel.sources.records.record_types import Record

_FILE = re.compile(r"(train|val)_data_step(\d+)\.jsonl(?:\.|$)")
_ARRAYS = {
    "token_ids": "response_token_ids",
    "prev_logprobs": "logprobs",
    "generation_logprobs": "rollout_logprobs",
    "advantages": "advantages",
}
_OWN_COLUMNS = frozenset({*_ARRAYS, "idx", "content", "rewards", "token_loss_mask", "input_lengths"})


class NemoRL:
    """Adapter for NeMo-RL's batches."""

    name = "NeMo-RL"
    looks = "train_data_step{N}.jsonl or val_data_step{N}.jsonl with 'content' and 'rewards' (NeMo-RL)"

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the file's name and the line's keys are those of NeMo-RL."""
        return bool(_FILE.search(path)) and {"content", "rewards"} <= document.keys()

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the line's only sample."""
        match = _FILE.search(path)
        if match is None:
            raise LineError("the file's name contains no step: train_data_step{N}.jsonl was expected")
        for key in ("content", "rewards"):
            if key not in document:
                raise LineError(f"no {key!r}")
        values = _unwrapped(document)
        split = "eval" if match[1] == "val" else "train"
        fields = [*_fields(values), ("split", split)]
        return [build_record(match[2], fields, path, full=full)]


def _unwrapped(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values without their lists of length 1, if all values have one."""
    values = {key: value for key, value in document.items() if key != "idx"}
    wrapped = all(hasattr(value, "__len__") and not isinstance(value, str) for value in values.values())
    if wrapped and all(len(value) == 1 and not isinstance(value, dict) for value in values.values()):
        return {key: value[0] for key, value in values.items()}
    return values


def _fields(values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    prompt, response = _texts(to_python(values["content"]))
    yield "prompt", prompt
    yield "response", response
    yield "reward", values["rewards"]
    for key, value in values.items():
        if key not in _OWN_COLUMNS:
            yield key, value
    yield from _arrays(values)


def _texts(content: Any) -> tuple[Any, Any]:
    """Return all messages but the last, and the last; each is a text or an object with a role."""
    if not isinstance(content, list) or not content:
        raise LineError("'content' is not a list of messages")
    if all(isinstance(item, str) for item in content):
        return "\n".join(content[:-1]), content[-1]
    last = content[-1]
    return content[:-1], last.get("content", last) if isinstance(last, dict) else str(last)


def _arrays(values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    if "token_loss_mask" not in values:
        return
    try:
        mask = to_float_array(values["token_loss_mask"]) == 1
        if "input_lengths" in values:
            mask[int(values["input_lengths"]) :] = False
        for key, name in _ARRAYS.items():
            if values.get(key) is not None:
                yield name, _masked(key, values[key], mask)
    except (TypeError, ValueError) as error:
        raise LineError(f"token arrays cannot be read: {error}") from error


def _masked(key: str, value: Any, mask: np.ndarray) -> list[float]:
    array = to_float_array(value)
    if len(array) != len(mask):
        raise ValueError(f"{key!r} has {len(array)} values, 'token_loss_mask' {len(mask)}")
    return array[mask].tolist()
