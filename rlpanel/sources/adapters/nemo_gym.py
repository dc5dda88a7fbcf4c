"""Reads NeMo Gym's rollouts, one line per rollout, appended as they finish.

``responses_create_params.input`` is the prompt and ``response.output`` what followed, as items of the
Responses API. Rollouts that failed are in ``{rollouts}_failures.jsonl`` with ``_ng_failure_class``; some have
neither a conversation nor a reward, and the others' reward of 0 is not read. ``mask_sample`` marks a reward
that is not a valid measurement: the sample has none, and is in the split discarded. The lines hold no step:
it is 0 unless the path names one, as in ``step_12/rollouts.jsonl``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rlpanel.errors import LineError
from rlpanel.schema import LABEL_MAX
from rlpanel.sources.records.chat_shapes import chat_messages, join_snapshots
from rlpanel.sources.records.fields import build_record, require_keys
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.record_types import Record

_PARAMS, _FAILURE, _MASK = "responses_create_params", "_ng_failure_class", "mask_sample"
_NAMES = {
    "reward_components": "rewards",
    "_ng_rollout_index": "rollout_index",
    "_ng_attempt_index": "attempt_index",
    "expected_answer": "ground_truth",
}
#: Keys that are read in another way, and keys that repeat the conversation.
_OWN = frozenset({_PARAMS, "response", "reward", "agent_ref", _FAILURE, "_ng_task_index"})
_REPEATED = frozenset({"ng_trajectory", "ng_model_call_capture"})

Fields = Iterator[tuple[str, Any]]


class NemoGym:
    """Adapter for NeMo Gym's collected rollouts."""

    name = "NeMo Gym"
    looks = "*.jsonl with 'responses_create_params', 'response' and 'reward', or with '_ng_failure_class' "
    looks += "(NeMo Gym)"
    lacks_steps = True
    path_in_run = re.compile(r"(?<![^/])step_\d+/[^/]+\.jsonl$")

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the line is a finished or failed rollout; the inputs alone are not."""
        return {_PARAMS, "response", "reward"} <= document.keys() or _FAILURE in document

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the line's only sample."""
        rollout = {key: to_python(value) for key, value in document.items()}
        for key in (_PARAMS, "response"):
            if rollout.get(key) is None and rollout.get(_FAILURE) is not None:
                rollout[key] = {}  # it failed before there was one
            if not isinstance(rollout.get(key), dict):
                raise LineError(f"{key!r} is not an object" if key in rollout else f"no {key!r}")
        return [build_record(0, _fields(rollout, path), path, full=full)]


def _fields(rollout: Mapping[str, Any], path: str) -> Fields:
    params = rollout[_PARAMS]
    response = rollout["response"] or rollout.get("_ng_failure_partial_response") or {}
    prompt = chat_messages(params.get("input") or [])
    if params.get("instructions"):
        prompt.insert(0, {"role": "system", "content": params["instructions"]})
    output = response.get("output") or []
    # With `return_transitions`, an agent gives the whole conversation after each turn.
    transitions = isinstance(output, list) and all(isinstance(item, list) for item in output)
    answer = join_snapshots(map(chat_messages, output)) if transitions else chat_messages(output)
    if prompt:
        yield "prompt", prompt
    if answer:
        yield ("response" if prompt else "messages"), answer
    for key, value in rollout.items():
        if key not in _OWN | _REPEATED:
            yield _NAMES.get(key, key), value
    yield "group", _group(rollout, path)
    if agent := (rollout.get("agent_ref") or {}).get("name"):
        yield "agent", agent
    yield from _outcome(rollout, response)
    yield from _tokens(output)


def _group(rollout: Mapping[str, Any], path: str) -> str | None:
    """Return the task's number with its data set: each file, and each source of tasks, counts from 0."""
    task = rollout.get("_ng_task_index")
    if task is None:
        return None
    name = path.rsplit("/", 1)[-1].partition(".")[0].removesuffix("_failures")
    source = rollout.get("task_source")
    dataset = source if isinstance(source, str) and source else name.removesuffix("_rollouts")
    return str(task) if dataset == "rollouts" else f"{dataset}:{task}"


def _outcome(rollout: Mapping[str, Any], response: Mapping[str, Any]) -> Fields:
    """Yield the reward unless it is not valid, the status, and what failed."""
    failure, masked = rollout.get(_FAILURE), _is_masked(rollout)
    if failure is not None or masked:
        yield from _failure(rollout)
    else:
        yield "reward", rollout.get("reward")
    if masked:
        split = rollout.get("split") or "train"
        yield "split", "discarded" if split == "train" else f"discarded {split}"
    if failure is None and response.get("status") != "completed":  # image_tools writes this alone
        require_keys(response, "response", "incomplete_details")
    details = response.get("incomplete_details")
    if details is not None:
        require_keys(details, "response.incomplete_details", "reason")
    limit = details["reason"] if details is not None else None
    if failure is None:
        yield "finish_reason", limit
        yield "truncated", int(limit == "max_output_tokens")
    if failure is None and not masked:
        yield from _unmasked_status(rollout, limit)


def _is_masked(rollout: Mapping[str, Any]) -> bool:
    """Return True if the environment left the sample out; some environments say so in ``instance_config``."""
    config = rollout.get("instance_config")
    return bool(rollout.get(_MASK) or (isinstance(config, dict) and config.get(_MASK)))


def _failure(rollout: Mapping[str, Any]) -> Fields:
    """Yield the status of a rollout that failed or is masked, and the reason."""
    kind = rollout.get(_FAILURE) or rollout.get("failure_kind")
    yield "status", "discarded" if kind is None else _status(str(kind), "environment_error")
    keys = ("error", "_ng_failure_judge_error", "_ng_failure_message", "failure_reason")
    yield "status_reason", _reason(kind or _MASK, rollout.get("_ng_failure_stage"), map(rollout.get, keys))


def _unmasked_status(rollout: Mapping[str, Any], limit: Any) -> Fields:
    """Yield the status of a sample whose reward is valid.

    Whatever failed, the sample counts: its status is not ``environment_error``, which would leave it out.
    """
    kind = rollout.get("failure_kind")
    if kind is None:
        yield "status", "truncated" if limit else "ok"
    else:
        yield "status", _status(str(kind), "tool_error")
        yield "status_reason", _reason(kind, None, [rollout.get("failure_reason")])


def _status(kind: str, otherwise: str) -> str:
    return "timeout" if "timeout" in kind else "tool_error" if "tool" in kind else otherwise


def _reason(kind: Any, stage: Any, details: Iterable[Any]) -> str:
    place = f"{kind} in {stage}" if stage else str(kind)
    return next((f"{place}: {text}" for text in details if text), place)[:LABEL_MAX]


def _tokens(items: list[Any]) -> Fields:
    """Yield the tokens that the policy sampled; only items of rollouts for training have them."""
    sampled = [item for item in items if isinstance(item, dict) and item.get("generation_token_ids")]
    ids = [token for item in sampled for token in item["generation_token_ids"]]
    logprobs = [value for item in sampled for value in item.get("generation_log_probs") or ()]
    if ids:
        yield "response_token_ids", ids
        if len(logprobs) == len(ids):
            yield "rollout_logprobs", logprobs
