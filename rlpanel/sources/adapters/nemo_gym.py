"""Reads NeMo Gym's rollouts, one line per rollout, appended as they finish.

``responses_create_params.input`` is the prompt and ``response.output`` what followed, as items of the
Responses API. Rollouts that failed are in ``{rollouts}_failures.jsonl`` with ``_ng_failure_class``, and their
reward of 0 is not read. The lines hold no step: it is 0 unless the path names one, as in
``step_12/rollouts.jsonl``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rlpanel.errors import LineError
from rlpanel.schema import LABEL_MAX
from rlpanel.sources.adapters.conversation_snapshots import join_snapshots
from rlpanel.sources.adapters.responses_api import chat_messages
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.record_types import Record, step_from_path

_PARAMS, _FAILURE = "responses_create_params", "_ng_failure_class"
_NAMES = {
    "_ng_task_index": "group",
    "_ng_rollout_index": "rollout_index",
    "_ng_attempt_index": "attempt_index",
    "expected_answer": "ground_truth",
}
#: Keys that are read in another way, and keys that repeat the conversation.
_OWN = frozenset({_PARAMS, "response", "reward", "agent_ref", _FAILURE})
_REPEATED = frozenset({"ng_trajectory", "ng_model_call_capture"})

Fields = Iterator[tuple[str, Any]]


class NemoGym:
    """Adapter for NeMo Gym's collected rollouts."""

    name = "NeMo Gym"
    looks = "*.jsonl with 'responses_create_params', 'response' and 'reward' (NeMo Gym)"
    path_in_run = re.compile(r"(?<![^/])step_\d+/[^/]+\.jsonl$")

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the line is a finished or failed rollout; the inputs alone are not."""
        return {_PARAMS, "response", "reward"} <= document.keys()

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the line's only sample."""
        rollout = {key: to_python(value) for key, value in document.items()}
        for key in (_PARAMS, "response"):
            if not isinstance(rollout.get(key), dict):
                raise LineError(f"{key!r} is not an object" if key in rollout else f"no {key!r}")
        return [build_record(step_from_path(path) or 0, _fields(rollout), path, full=full)]


def _fields(rollout: Mapping[str, Any]) -> Fields:
    params, response = rollout[_PARAMS], rollout["response"]
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
    if agent := (rollout.get("agent_ref") or {}).get("name"):
        yield "agent", agent
    yield from _outcome(rollout, response)
    yield from _tokens(response.get("output") or [])


def _outcome(rollout: Mapping[str, Any], response: Mapping[str, Any]) -> Fields:
    """Yield the reward, or else what failed."""
    failure = rollout.get(_FAILURE)
    if failure is not None:
        yield "status", "timeout" if "timeout" in str(failure) else "environment_error"
        details = (rollout.get("error"), rollout.get("_ng_failure_judge_error"))
        reason = next((f"{failure}: {text}" for text in details if text), str(failure))
        yield "status_reason", reason[:LABEL_MAX]
        return
    yield "reward", rollout.get("reward")
    limit = (response.get("incomplete_details") or {}).get("reason")
    if limit:
        yield "finish_reason", limit
        yield "truncated", int(limit == "max_output_tokens")
    yield "status", "truncated" if limit else "ok"


def _tokens(items: list[Any]) -> Fields:
    """Yield the tokens that the policy sampled; only items of rollouts for training have them."""
    sampled = [item for item in items if isinstance(item, dict) and item.get("generation_token_ids")]
    ids = [token for item in sampled for token in item["generation_token_ids"]]
    logprobs = [value for item in sampled for value in item.get("generation_log_probs") or ()]
    if ids:
        yield "response_token_ids", ids
        if len(logprobs) == len(ids):
            yield "rollout_logprobs", logprobs
