"""Turns samples of slime and miles into fields of native lines, for their dumps and for recording.

A sample is what ``Sample.to_dict`` returns; its arrays may be tensors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_ARRAYS = {
    "rollout_log_probs": "rollout_logprobs",
    "log_probs": "logprobs",
    "ref_log_probs": "ref_logprobs",
    "values": "values",
    "advantages": "advantages",
    "returns": "returns",
    "entropy": "entropy",
    "teacher_log_probs": "teacher_logprobs",
    "loss_mask": "loss_mask",
    "loss_masks": "loss_mask",
}
#: Keys of lists that stand elsewhere or that hold something else than a value for each token.
_NO_ARRAYS = frozenset({*_ARRAYS, "tokens", "weight_versions", "rollout_top_p_token_ids"})
_STATUS = {"completed": "ok", "truncated": "truncated", "failed": "tool_error", "aborted": "discarded"}
#: Names of the total in a reward with several parts.
_TOTALS = ("score", "reward", "total")


def sample_rows(
    samples: Sequence[Mapping[str, Any]], reward_key: str | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the fields of each sample as the inference engine returned it.

    Parameters
    ----------
    samples : sequence of mapping
        All samples of a rollout: those with one ``rollout_id`` become one episode.
    reward_key : str, optional
        The part of a reward with several parts that is trained on, as in ``--reward-key``.
    """
    shared = Counter(sample.get("rollout_id") for sample in samples)
    for sample in samples:
        row = _row(sample) | _reward(sample.get("reward"), reward_key)
        arrays = array_fields(sample)
        row |= arrays | _policy_versions(sample, arrays.get("loss_mask"))
        if sample.get("remove_sample"):
            # slime replaces the loss mask of such a sample when it makes the training's batch.
            row["loss_mask"] = [0] * int(sample.get("response_length") or 0)
        if sample.get("rollout_id") is not None and shared[sample["rollout_id"]] > 1:
            row["episode"] = str(sample["rollout_id"])
        yield {key: value for key, value in row.items() if value is not None}


def array_fields(sample: Mapping[str, Any], length: int | None = None) -> dict[str, Any]:
    """Return the arrays of a sample, of rollout or of training, under rlpanel's names.

    Parameters
    ----------
    sample : mapping
    length : int, optional
        Number of response tokens, by default the sample's own: other arrays of numbers that are as long,
        such as ``kl`` and ``opd_reverse_kl``, keep their names.
    """
    arrays = {name: _plain(sample[key]) for key, name in _ARRAYS.items() if key in sample}
    found = {name: value for name, value in arrays.items() if isinstance(value, list)}
    length = int(sample.get("response_length") or 0) if length is None else length
    others = {key: value for key, value in sample.items() if key not in _NO_ARRAYS and _size(value) == length}
    return found | {key: plain for key, value in others.items() if _are_numbers(plain := _plain(value))}


def _size(value: Any) -> int:
    """Return the length of a list or tensor; 0 for other values."""
    shape: tuple[int, ...] = getattr(value, "shape", ())
    return int(shape[0]) if len(shape) == 1 else len(value) if isinstance(value, list) else 0


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list) and bool(values) and all(isinstance(x, (int, float)) for x in values)


def _row(sample: Mapping[str, Any]) -> dict[str, Any]:
    length = int(sample.get("response_length") or 0)
    tokens = _plain(sample.get("tokens")) or []
    status = getattr(sample.get("status"), "value", sample.get("status"))
    return {
        "group": sample.get("group_index"),
        "prompt": sample.get("prompt"),
        "response": sample.get("response"),
        "ground_truth": sample.get("label"),
        "finish_reason": status,
        "status": _STATUS.get(str(status)),
        "truncated": status == "truncated",
        "response_token_ids": tokens[len(tokens) - length :] if length else None,
    }


def _reward(reward: Any, key: str | None) -> dict[str, Any]:
    """Return a number as the reward; of a dict, the named part, one with a total's name, or the only part."""
    if not isinstance(reward, dict):
        return {"reward": _plain(reward)}
    parts = {name: value for name, value in reward.items() if isinstance(value, (int, float))}
    if key:
        return {"reward": parts.get(key), "rewards": parts}
    total = next((parts[name] for name in _TOTALS if name in parts), None)
    if total is None and len(parts) == 1:
        total = next(iter(parts.values()))
    return {"reward": total, "rewards": parts}


def _policy_versions(sample: Mapping[str, Any], mask: Any) -> dict[str, Any]:
    """Return the versions of the policy that sampled the first and the last part, and each token.

    They count updates of the weights, also the one before training, so they are not compared with the step.
    The trainers note a version at the end of each call of the engine (``Sample.append_response_tokens`` and
    ``update_from_meta_info``). Only where each call wrote a stretch of the loss mask are those of the tokens
    known: a call that went on after an abort begins where the one before it ended.
    """
    versions = sample.get("weight_versions") or ()
    try:
        numbers = [int(version) for version in versions]
    except (TypeError, ValueError):
        return {}
    if not numbers:
        return {}
    return {"policy_version": [numbers[0], numbers[-1]]} | _token_versions(numbers, mask)


def _token_versions(calls: Sequence[int], mask: Any) -> dict[str, Any]:
    """Return the version of each token, if the calls are as many as the stretches of the loss mask."""
    if not isinstance(mask, list) or len(set(calls)) == 1:
        return {}
    begins = [at for at, used in enumerate(mask) if used and not (at and mask[at - 1])]
    if len(begins) != len(calls):
        return {}
    # Tokens of a tool count as those of the call after them, as of AReaL.
    found, call = [], 0
    for at, used in enumerate(mask):
        found.append(calls[call])
        if used and call + 1 < len(calls) and not any(mask[at + 1 : at + 2]):
            call += 1
    return {"token_version": found}


def _plain(value: Any) -> Any:
    """Convert a tensor to a number or list."""
    return value.tolist() if hasattr(value, "tolist") else value
