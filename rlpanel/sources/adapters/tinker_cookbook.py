"""Reads tinker-cookbook's ``iteration_{N}/{train,eval_*}_rollout_summaries.jsonl``, one line per trajectory.

The file of an iteration is written in one go. It holds rewards, lengths, metrics and what the environment
logged, but no tokens and no prompt. Environments with tools log what the policy said and what the tools
answered (``assistant_content``, ``tool_call_0``, ``tool_result_0``, …), which is the response here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from itertools import count, pairwise, takewhile
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.record_types import Record

_STOP = "stop/"
#: Status of a trajectory by the reason why it stopped; other reasons are successes.
_STATUS = {
    "max_tokens": "truncated",
    "max_sampled_tokens": "truncated",
    "max_turns": "truncated",
    "max_tool_calls": "truncated",
    "context_overflow": "truncated",
    "rollout_timeout": "timeout",
}
_LENGTH_LIMITS = ("max_tokens", "max_sampled_tokens", "context_overflow")
_KEYS = ("split", "iteration", "total_reward", "steps")
_PLAIN = ("traj_idx", "final_reward", "final_ob_len")

Fields = Iterator[tuple[str, Any]]
Step = Mapping[str, Any]


class TinkerCookbook:
    """Adapter for tinker-cookbook's rollout summaries."""

    name = "tinker-cookbook"
    looks = "iteration_{N}/*_rollout_summaries.jsonl with 'total_reward' and 'steps' (tinker-cookbook)"
    path_in_run = re.compile(r"(?<![^/])iteration_\d+/[^/]+_rollout_summaries\.jsonl$")

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the line is the summary of a trajectory."""
        return {*_KEYS, "group_idx", "traj_idx"} <= document.keys()

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the line's only sample."""
        for key in _KEYS:
            if key not in document:
                raise LineError(f"no {key!r}")
        summary = {key: to_python(value) for key, value in document.items()}
        steps = summary["steps"]
        if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
            raise LineError("'steps' is not a list of objects")
        record = build_record(summary["iteration"], _fields(summary, steps), path, full=full)
        record.numbers["response_tokens"] = float(sum(step.get("ac_len") or 0 for step in steps))
        return [record]


def _fields(summary: Mapping[str, Any], steps: list[Step]) -> Fields:
    split, _, dataset = str(summary.get("split", "train")).partition("/")
    yield "split", split
    if dataset:
        yield "dataset", dataset
    yield "reward", summary["total_reward"]
    if (group := summary.get("group_idx")) is not None:
        # Each file counts its groups from 0, and each evaluated data set has one.
        yield "group", f"{dataset}:{group}" if dataset else group
    yield "policy_version", summary.get("sampling_client_step")
    if split == "train":
        yield "trainer_version", summary["iteration"]  # iteration N trains what N updates have made
    for key in _PLAIN:
        if summary.get(key) is not None:
            yield key, summary[key]
    if summary.get("tags"):
        yield "env", ",".join(map(str, summary["tags"]))
    yield "turns", len(steps)
    yield "turn_rewards", [step.get("reward") for step in steps]
    if steps:
        yield "prompt_length", steps[0].get("ob_len")
        yield from _context_tokens(steps)
    yield from _metrics(summary, steps)
    messages = [message for step in steps for message in _messages(step.get("logs") or {})]
    if messages:
        yield "response", messages
    yield "logs", [step.get("logs") for step in steps]


def _context_tokens(steps: list[Step]) -> Fields:
    """Yield the tokens that came between the policy's turns, if each observation holds what was before it."""
    lengths = [(step.get("ob_len", math.nan), step.get("ac_len", math.nan)) for step in steps]
    added = [observed - before - written for (before, written), (observed, _) in pairwise(lengths)]
    if all(count >= 0 for count in added):
        yield "context_tokens", sum(added)


def _metrics(summary: Mapping[str, Any], steps: list[Step]) -> Fields:
    """Yield the metrics of the trajectory and of its last step, and why it stopped."""
    last = dict(steps[-1].get("metrics") or {}) if steps else {}
    reasons = [name.removeprefix(_STOP) for name, value in last.items() if name.startswith(_STOP) and value]
    for name, value in (last | (summary.get("trajectory_metrics") or {})).items():
        if not name.startswith(_STOP):
            yield f"metrics/{name}", value
    if reasons:
        yield "finish_reason", reasons[0]
        yield "truncated", int(reasons[0] in _LENGTH_LIMITS)
        yield "status", _STATUS.get(reasons[0], "ok")
        if reasons[0] in _STATUS:
            yield "status_reason", reasons[0]


def _messages(logs: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what the policy said in a step, with its tool calls, and what the tools answered."""
    calls = [str(value).partition("(") for value in _numbered(logs, "tool_call_")]
    if "assistant_content" in logs or calls:
        yield {
            "role": "assistant",
            "content": logs.get("assistant_content"),
            "tool_calls": [
                {"name": name, "arguments": arguments.removesuffix(")")} for name, _, arguments in calls
            ],
        }
    for value in _numbered(logs, "tool_result_"):
        yield {"role": "tool", "content": value}


def _numbered(logs: Mapping[str, Any], prefix: str) -> list[Any]:
    keys = takewhile(lambda key: key in logs, (f"{prefix}{number}" for number in count()))
    return [logs[key] for key in keys]
