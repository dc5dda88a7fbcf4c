"""From a trainer's padded batches to the parts of a row."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

#: A data set's columns that hold the expected answer.
TRUTHS = ("ground_truth", "golden_answer", "answer", "solution")
_NOT_COLUMNS = {"prompt", "completion", "completion_ids", "image", "images", "messages"}


def host(values: Any) -> Any:
    """A tensor's values, copied to host memory as float32 or as they are."""
    values = values.detach()
    values = values.float() if values.is_floating_point() else values
    return values.clone() if values.device.type == "cpu" else values.cpu()


def text_of(value: Any) -> str:
    """A completion or prompt as text; of messages, their contents."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return text_of(value.get("content") or value.get("text") or "")
    return "\n".join(filter(None, map(text_of, value))) if isinstance(value, list | tuple) else ""


def tokens(ids: Sequence[int], decode: Any, pieces: Callable[..., list[str]]) -> dict[str, Any]:
    """Token ids, and their texts, to be made on the writer's thread."""
    found: dict[str, Any] = {"response_token_ids": list(ids)}
    if decode is not None:
        found["response_tokens"] = partial(pieces, decode, list(ids))
    return found


def unpadded(ids: Any, mask: Any) -> list[list[int]]:
    """Rows of a padded matrix of ids, without padding."""
    pairs = zip(ids.tolist(), mask.tolist(), strict=True)
    return [[token for token, real in zip(row, kept, strict=True) if real] for row, kept in pairs]


def loss_masks(output: Mapping[str, Any], lengths: Sequence[int]) -> list[list[int]]:
    """For each row, 1 where a token takes part in the loss."""
    mask = output["completion_mask"]
    if "tool_mask" in output:
        mask = mask * output["tool_mask"]
    return [[int(kept) for kept in row[:length]] for row, length in zip(mask.tolist(), lengths, strict=True)]


def weighted(scores: Any, weights: Any) -> list[float | None]:
    """Each row's reward as the trainers log it: the weighted sum of what its functions gave.

    None where no function gave anything.
    """
    factors = weights.tolist() if weights is not None else [1.0] * scores.shape[1]
    return [_sum(row, factors) for row in scores.tolist()]


def _sum(scores: Sequence[float], factors: Sequence[float]) -> float | None:
    given = [score * factor for score, factor in zip(scores, factors, strict=True) if not math.isnan(score)]
    return sum(given) if given else None


def named(trainer: Any, scores: Any) -> dict[str, float]:
    """Scores by their functions' names; functions of one name are told apart by their place."""
    names = list(trainer.reward_func_names)
    keys = [name if names.count(name) == 1 else f"{name}_{at}" for at, name in enumerate(names)]
    return dict(zip(keys, scores.tolist(), strict=True))


def add_columns(row: dict[str, Any], columns: Mapping[str, Any]) -> None:
    """A data set's own columns; one that bears a row's name goes by ``data/<name>``."""
    for key, value in columns.items():
        if key in _NOT_COLUMNS or not isinstance(value, str | int | float | bool):
            continue
        if key in TRUTHS and "ground_truth" not in row:
            row["ground_truth"] = str(value)
        else:
            row[key if key not in row else f"data/{key}"] = value
