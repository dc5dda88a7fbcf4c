"""Reads rLLM's episodes, one indented JSON document per file.

Training writes ``episodes/{mode}_step_{N}_epoch_{E}/episode_hash{task}_id{id}.json``. ``rllm eval`` writes
``episodes/episode_{index}_{task}.json``, which has no step. An episode holds trajectories, one per agent, and
each is a sample. A step is one call of the model, and its ``chat_completions`` are the whole conversation so
far. An episode that failed before its first trajectory is a sample without a response; one that ended with an
error has no reward. As in rLLM, a group holds the trajectories of one agent for one task.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from rlpanel.errors import LineError
from rlpanel.schema import LABEL_MAX
from rlpanel.sources.records.chat_shapes import Message, join_snapshots
from rlpanel.sources.records.fields import build_record, require_keys
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.record_types import Record

#: Status of an episode by the reason why it ended; other reasons are successes.
_STATUS = {
    "max_prompt_length_exceeded": "truncated",
    "max_response_length_exceeded": "truncated",
    "max_turns_exceeded": "truncated",
    "timeout": "timeout",
    "error": "environment_error",
}
_TRUTHS = ("ground_truth", "answer", "solution")
_QUESTIONS = ("instruction", "question", "prompt", "problem")
_MODE = re.compile(r"(?:^|/)([a-z]+)_step_(\d{1,15})_epoch_\d+/")

Fields = Iterator[tuple[str, Any]]


class RLLM:
    """Adapter for rLLM's episodes."""

    name = "rLLM"
    looks = "episodes/{mode}_step_{N}_epoch_{E}/episode_*.json with 'trajectories' and 'task' (rLLM)"
    document_name = re.compile(r"episode_(?:hash|\d{6}_).*\.json")
    path_in_run = re.compile(
        r"(?<![^/])(?:episodes/(?:[a-z]+_step_\d+_epoch_\d+/)?|[a-z]+_step_\d+_epoch_\d+/)[^/]+\.json$"
    )

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the document is an episode."""
        return {"trajectories", "task", "termination_reason", "is_correct"} <= document.keys()

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the samples of an episode."""
        episode = {key: to_python(value) for key, value in document.items()}
        trajectories = episode.get("trajectories")
        if not isinstance(trajectories, list) or not all(isinstance(each, dict) for each in trajectories):
            raise LineError("'trajectories' is not a list of objects")
        for trajectory in trajectories:
            require_keys(trajectory, "trajectories[]", "name", "steps")
        step = _step(episode, path)
        shared = list(_episode_fields(episode, path))
        names = Counter(each.get("name") for each in trajectories)
        return [
            build_record(step, [*shared, *_number(at, each, names), *fields], path, full=full)
            for at, each in enumerate(trajectories or [{}])
            for fields in [_trajectory_fields(each, episode)]
        ]


def _step(episode: Mapping[str, Any], path: str) -> Any:
    """Return the training step; 0 for an evaluation that belongs to no training."""
    if "training_step" in episode:
        return episode["training_step"]
    match = _MODE.search(path)
    return match[2] if match else 0


def _identity(episode: Mapping[str, Any]) -> str:
    """Return the episode's id: ``{task}:{rollout}``."""
    return str(episode.get("episode_id", episode.get("id", "")))


def _episode_fields(episode: Mapping[str, Any], path: str) -> Fields:
    """Yield the fields that all samples of an episode share."""
    yield "episode", _identity(episode)
    match = _MODE.search(path)
    mode = match[1] if match else "eval" if "eval_idx" in episode else ""
    if mode:
        yield "split", "eval" if mode == "val" else mode
    for key in ("epoch", "is_correct", "eval_idx"):
        if key in episode:
            yield key, episode[key]
    yield from _outcome(episode)
    for name, value in (episode.get("metrics") or {}).items():
        yield f"metrics/{name}", value
    if truth := _first_of(episode.get("task"), _TRUTHS):
        yield "ground_truth", truth


def _outcome(episode: Mapping[str, Any]) -> Fields:
    """Yield why the episode ended, and its status."""
    reason = episode.get("termination_reason")
    if reason is None:
        return
    yield "finish_reason", reason
    status = _STATUS.get(str(reason), "ok")
    yield "status", status
    if status != "ok":
        error = (episode.get("metadata") or {}).get("error") or {}
        details = error.values() if isinstance(error, dict) else [error]
        yield "status_reason", str(next((text for text in details if text), reason))[:LABEL_MAX]
    yield "truncated", int(str(reason).endswith("_length_exceeded"))


def _number(at: int, trajectory: Mapping[str, Any], names: Counter[Any]) -> Fields:
    """Yield the number of a trajectory whose agent has several in the episode: each has its own reward."""
    if names[trajectory.get("name")] > 1:
        yield "trajectory", str(at)


def _trajectory_fields(trajectory: Mapping[str, Any], episode: Mapping[str, Any]) -> Fields:
    failed = _STATUS.get(str(episode.get("termination_reason"))) == "environment_error"
    steps = [step for step in trajectory.get("steps") or () if isinstance(step, dict)]
    task = episode.get("task_hash") or _identity(episode).rpartition(":")[0] or _identity(episode)
    agent = trajectory.get("name")
    yield "group", f"{task}:{agent}" if agent else task
    yield "agent", agent
    yield "turns", len(steps)
    if not failed:
        reward = trajectory.get("reward")
        # rLLM trains on the last step's reward if the trajectory has none.
        yield "reward", steps[-1].get("reward") if reward is None and steps else reward
    yield "turn_rewards", [step.get("reward") for step in steps]
    for name, value in (trajectory.get("signals") or {}).items():
        yield f"metrics/{name}", value
    messages = join_snapshots(map(_snapshot, steps))
    if messages:
        yield "messages", messages
    elif question := _first_of(episode.get("task"), _QUESTIONS):
        yield "prompt", question
    yield from _tokens(steps)


def _snapshot(step: Mapping[str, Any]) -> list[Message]:
    """Return the conversation after a step."""
    logged = [item for item in step.get("chat_completions") or () if isinstance(item, dict)]
    return logged or list(_single_turn(step))


def _single_turn(step: Mapping[str, Any]) -> Iterator[Message]:
    """Yield the messages of a step for which no ``chat_completions`` were kept."""
    asked = next((step[key] for key in ("observation", "input") if step.get(key)), None)
    said = next((step[key] for key in ("model_response", "output") if step.get(key)), None)
    if asked is not None:
        yield {"role": "user", "content": asked}
    if said is not None:
        yield {"role": "assistant", "content": said, "reasoning_content": step.get("thought")}


def _tokens(steps: list[dict[str, Any]]) -> Fields:
    """Yield the sampled tokens of all steps and the engine's logprobs; training logs neither."""
    ids = [token for step in steps for token in step.get("response_ids") or ()]
    logprobs = [value for step in steps for value in step.get("logprobs") or ()]
    if ids:
        yield "response_token_ids", ids
        if len(logprobs) == len(ids):
            yield "rollout_logprobs", logprobs


def _first_of(task: Any, names: tuple[str, ...]) -> str:
    """Return the first of a task's values that is there, as text; empty if none is."""
    if isinstance(task, str):
        return task if names is _QUESTIONS else ""
    if not isinstance(task, dict):
        return ""
    metadata = task.get("metadata")  # what `rllm eval` writes is a task with the data set's row in it
    row = task | (metadata if isinstance(metadata, dict) else {})
    return next((str(row[name]) for name in names if row.get(name) is not None), "")
