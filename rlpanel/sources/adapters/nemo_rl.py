"""Reads NeMo-RL's ``train_data_step{N}.jsonl`` and ``val_data_step{N}.jsonl``, each written in one go.

Every value except ``idx`` is wrapped in a list of length 1. Token arrays cover prompt and response and are
padded on the right to the longest in the batch. The response's arrays are where ``token_loss_mask`` is 1
within ``input_lengths``. ``prev_logprobs`` are the policy's before the update, ``generation_logprobs`` the
engine's.

With dynamic sampling (DAPO) only ``filtered_rewards`` belongs to the line's sample: ``rewards`` is taken from
the batch before filtering. A sample whose ``sample_loss_mask`` is 0 took no part in the loss.

``content`` holds all messages: of training without roles, of validation with them. After each turn of the
policy follows the environment's message, such as "Environment: correct", also after the last one. Training
with a queue may log no ``content``; then a sample has tokens and no text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rlpanel.errors import LineError
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import LISTS, to_float_array, to_python
from rlpanel.sources.records.record_types import Record

_FILE = re.compile(r"(train|val)_data_step(\d+)\.jsonl(?:\.|$)")
_ARRAYS = {
    "token_ids": "response_token_ids",
    "prev_logprobs": "logprobs",
    "generation_logprobs": "rollout_logprobs",
    "advantages": "advantages",
}
#: Keys of the reward, the one that belongs to the sample first.
_REWARDS = ("filtered_rewards", "rewards")
_OWN_COLUMNS = frozenset({*_ARRAYS, *_REWARDS, "idx", "content", "token_loss_mask", "input_lengths"})


class NemoRL:
    """Adapter for NeMo-RL's batches."""

    name = "NeMo-RL"
    looks = "train_data_step{N}.jsonl or val_data_step{N}.jsonl with 'content' and 'rewards' (NeMo-RL)"

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the file's name and the line's keys are those of NeMo-RL."""
        return bool(_FILE.search(path)) and _has_sample(document) and _reward_key(document) is not None

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the line's only sample."""
        match = _FILE.search(path)
        if match is None:
            raise LineError("the file's name contains no step: train_data_step{N}.jsonl was expected")
        if not _has_sample(document) or _reward_key(document) is None:
            raise LineError("no 'rewards'" if _has_sample(document) else "no 'content' and no tokens")
        values = _unwrapped(document)
        split = "eval" if match[1] == "val" else "train"
        fields = [*_fields(values), ("split", split)]
        return [build_record(match[2], fields, path, full=full)]


def _has_sample(document: Mapping[str, Any]) -> bool:
    """Return True if a line has messages, or at least its tokens."""
    return "content" in document or {"token_ids", "token_loss_mask"} <= document.keys()


def _reward_key(document: Mapping[str, Any]) -> str | None:
    """Return the key of the sample's reward; None if the line has none."""
    return next((key for key in _REWARDS if key in document), None)


def _unwrapped(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values without their lists of length 1, if all values have one."""
    values = {key: value for key, value in document.items() if key != "idx"}
    wrapped = all(hasattr(value, "__len__") and not isinstance(value, str) for value in values.values())
    if wrapped and all(len(value) == 1 and not isinstance(value, dict) for value in values.values()):
        return {key: value[0] for key, value in values.items()}
    return values


def _fields(values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    if "content" in values:
        yield from _texts(to_python(values["content"]), values)
    yield "reward", next(values[key] for key in _REWARDS if key in values)
    tokens = len(values["token_loss_mask"]) if "token_loss_mask" in values else None
    mask = None if tokens is None else _mask(values)
    for key, value in values.items():
        if key not in _OWN_COLUMNS:
            # Another array, such as teacher_logprobs, is padded as those of NeMo-RL itself are.
            padded = type(value) in LISTS and len(value) == tokens
            yield key, _own_masked(value, mask) if padded and mask is not None else value
    yield from _arrays(values)


def _texts(content: Any, values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the prompt and the response as messages."""
    if not isinstance(content, list) or not content:
        raise LineError("'content' is not a list of messages")
    if not all(isinstance(item, str) for item in content):
        yield "messages", content
        return
    count = _count_prompt(len(content), values)
    roles = ["user"] * count + ["assistant", "environment"] * len(content)
    messages = [{"role": role, "content": text} for role, text in zip(roles, content, strict=False)]
    yield "prompt", "\n".join(content[:count])
    if messages[count:]:
        yield "response", messages[count:]


def _count_prompt(messages: int, values: dict[str, Any]) -> int:
    """Return how many messages come before the policy's first one, by the turns in the loss mask.

    One without a mask. The environment's last message may be missing, and it may have no tokens.
    """
    if "token_loss_mask" not in values:
        return 1
    inside = np.flatnonzero(_mask(values))
    turns = 1 + int(np.count_nonzero(np.diff(inside) > 1))
    before = messages - 2 * turns
    return before if before > 0 else max(1, before + 1)


def _arrays(values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    if "token_loss_mask" not in values:
        return
    mask, tokens = _mask(values), len(values["token_loss_mask"])
    for key, name in _ARRAYS.items():
        if values.get(key) is not None:
            yield name, _masked(key, values[key], mask, tokens)
    # All of these tokens are trained, unless the whole sample is not.
    yield "loss_mask", [float(values.get("sample_loss_mask") != 0)] * int(np.count_nonzero(mask))


def _mask(values: dict[str, Any]) -> np.ndarray:
    """Return the loss mask of the tokens that are not padding."""
    try:
        mask = to_float_array(values["token_loss_mask"]) == 1
        return mask[: int(values["input_lengths"])] if "input_lengths" in values else mask
    except (TypeError, ValueError) as error:
        raise LineError(f"token arrays cannot be read: {error}") from error


def _own_masked(value: Any, mask: np.ndarray) -> Any:
    """Return the response's part of a list of the log's own; the list itself if it holds no numbers."""
    items = to_python(value)
    try:
        to_float_array(items)
    except ValueError:
        return items
    return [item for item, inside in zip(items, mask, strict=False) if inside]


def _masked(key: str, value: Any, mask: np.ndarray, tokens: int) -> list[float]:
    try:
        array = to_float_array(value)
    except ValueError as error:
        raise LineError(f"token arrays cannot be read: {error}") from error
    if len(array) != tokens:
        raise LineError(
            f"token arrays cannot be read: {key!r} has {len(array)} values, 'token_loss_mask' {tokens}"
        )
    return array[: len(mask)][mask].tolist()
