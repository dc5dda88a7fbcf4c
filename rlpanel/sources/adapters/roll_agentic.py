"""Reads ROLL's agentic trajectories: one columnar line per step, whose values are JSON in texts.

``messages`` is a trajectory's conversation, ``trajectory_data`` what the environment manager knows about it.
A step is written to ``rollout_dump_data.step_{N}.jsonl`` in one go. Token arrays are not logged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.adapters.columnar import count_samples, is_list
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import parse_value, to_python
from rlpanel.sources.records.record_types import Record

Field = tuple[str, Any]
Object = dict[str, Any]

_KEYS = ("global_step", "trajectory_data", "messages")
#: Entries of ``trajectory_data`` that are read into fields, or repeat another column.
_READ = frozenset({"messages", "trajectory_id", "episode_score", "step_scores", "reward_info"})
#: Status of a trajectory by the reason for which it ended.
_STATUS = {
    "max_length": "truncated",
    "max_steps": "truncated",
    "env_timeout": "timeout",
    "env_reset_failed": "environment_error",
    "sandbox_init_failed": "environment_error",
    "llm_generate_failed": "environment_error",
    "abort": "discarded",
}


class RollAgentic:
    """Adapter for ROLL's agentic trajectories."""

    name = "ROLL agentic"
    looks = "*.jsonl with lists under 'global_step', 'trajectory_data' and 'messages' (ROLL agentic)"
    shares_evaluation = "ROLL writes a step's evaluation to the same file as its training"

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the line has the columns of trajectories."""
        return all(is_list(document.get(key)) for key in _KEYS)

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the trajectories of a line."""
        for key in _KEYS:
            if key not in document:
                raise LineError(f"no {key!r}")
        columns = {key: to_python(value) for key, value in document.items()}
        rows = ({key: values[at] for key, values in columns.items()} for at in range(count_samples(columns)))
        return [_read_trajectory(row, path, full=full) for row in rows]


def _read_trajectory(row: Object, path: str, *, full: bool) -> Record:
    notes: list[str] = []
    for key in ("messages", "trajectory_data", "tools"):
        if isinstance(row.get(key), str):
            try:
                row[key] = parse_value(row[key])
            except LineError as error:
                notes.append(f"'{key}' is {error}; it is kept as text")
    data = row["trajectory_data"]
    known = data if isinstance(data, dict) else {}
    record = build_record(row["global_step"], _fields(row, known), path, full=full)
    record.notes += notes
    return record


def _fields(row: Object, data: Object) -> Iterator[Field]:
    messages = _conversation(row["messages"])
    if isinstance(messages, list):
        yield from _texts(messages, data)
    else:
        yield "response", messages
    yield from _reward_fields(data, played=bool(messages))
    yield from _identity_fields(data)
    yield from _end_fields(data)
    yield from ((key, value) for key, value in data.items() if key not in _READ)
    read = {"messages", "global_step", *(["trajectory_data"] if data else [])}
    yield from ((key, value) for key, value in row.items() if key not in read)


def _conversation(messages: Any) -> Any:
    """Return the messages; the agent-native manager writes a list of conversations, of which it has one."""
    if isinstance(messages, list) and any(isinstance(item, list) or item is None for item in messages):
        return list(chain.from_iterable(item for item in messages if isinstance(item, list)))
    return messages


def _texts(messages: list[Any], data: Object) -> Iterator[Field]:
    """Yield the messages before the policy's first one as the prompt, and the others as the response."""
    own = [at for at, item in enumerate(messages) if _role(item) == "assistant"]
    # A single step of a trajectory is logged with the messages before it, and without its own response.
    is_lone_step = "branch_or_step_idx" in data and bool(own) and own[-1] != len(messages) - 1
    first = len(messages) if is_lone_step or not own else own[0]
    yield "prompt", messages[:first]
    yield "response", messages[first:]


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, dict) else None


def _reward_fields(data: Object, *, played: bool) -> Iterator[Field]:
    """Yield the rewards; a trajectory without messages stands for one that failed, and has none."""
    logged = _object(data, "reward_info")
    reward = data.get("episode_score", logged.get("episode_reward"))
    yield "reward", reward if played else None
    turn_rewards = data.get("step_scores", logged.get("step_rewards"))
    if turn_rewards is not None:
        yield "turn_rewards", turn_rewards
    own = {"episode_reward", "step_rewards"}
    yield from ((key, value) for key, value in logged.items() if key not in own)
    if not played:
        yield "status", "environment_error"
        yield "status_reason", "no messages: ROLL's placeholder for a trajectory that failed"


def _identity_fields(data: Object) -> Iterator[Field]:
    """Yield episode, group, environment and split, as far as they are known."""
    trajectory, environment = data.get("trajectory_id"), _object(data, "env_info")
    if isinstance(trajectory, str):
        branch = f"_b{data.get('branch_or_step_idx')}"
        yield "episode", trajectory.removesuffix(branch)
    group = _group(trajectory, data, environment)
    if group:
        yield "group", group
    if "tag" in environment:
        yield "env", environment["tag"]
    if environment.get("mode") in ("train", "val"):
        yield "split", "eval" if environment["mode"] == "val" else "train"


def _group(trajectory: Any, data: Object, environment: Object) -> str:
    """Return ROLL's id of a group of trajectories: tag, group, episode and seed; empty if unknown."""
    parts = [environment.get(key) for key in ("tag", "group_id", "episode_id", "seed")]
    if None not in parts:
        return "_".join(map(str, parts))
    # Otherwise the trajectory's id is: the group's id, the environment's number, the time, the branch.
    time = data.get("timestamp")
    if isinstance(trajectory, str) and isinstance(time, str) and f"_{time}" in trajectory:
        return trajectory.partition(f"_{time}")[0].rpartition("_")[0]
    return ""


def _end_fields(data: Object) -> Iterator[Field]:
    """Yield how the trajectory ended: finish reason, truncation and status."""
    failure, length = _object(data, "failure_info"), _object(data, "length_info")
    reason = str(failure.get("stop_reason", "")).lower()
    mode = str(failure.get("failure_mode", ""))
    status = _STATUS.get(reason, "ok")
    if failure.get("has_failure"):
        status = _status_of_failure(mode)
    elif status == "ok" and length.get("truncated"):
        status = "truncated"
    if reason:
        yield "finish_reason", "stop" if reason == "finish" else reason
    if failure:
        yield "status", status
    if failure and status != "ok":
        yield "status_reason", mode if failure.get("has_failure") else reason
    if "truncated" in length:
        yield "truncated", bool(length["truncated"]) or _STATUS.get(reason) == "truncated"
    if "num_actions" in length:
        yield "num_actions", length["num_actions"]


def _status_of_failure(mode: str) -> str:
    if "timeout" in mode.lower():
        return "timeout"
    return "tool_error" if mode.lower().startswith("tool") else "environment_error"


def _object(data: Object, key: str) -> Object:
    value = data.get(key)
    return value if isinstance(value, dict) else {}
