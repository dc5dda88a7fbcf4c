"""Reads results of tau-bench, tau2-bench and BFCL: benchmarks of agents that call tools.

A trial of a task is a sample, and the task its group. tau-bench writes a list of trials, tau2-bench a list
of simulations, or each of them to a file. BFCL writes a line per task without its score: the
scores are in another folder, ``score/{model}/…`` beside ``result/{model}/…``, where only failures are listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

from rlpanel.errors import LineError
from rlpanel.schema import LABEL_MAX
from rlpanel.sources.files.file_access import AnyPath, path_of, read_small, stat
from rlpanel.sources.records.field_values import unix_seconds
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import parse, to_python
from rlpanel.sources.records.record_types import Adapter, Record

Fields = Iterator[tuple[str, Any]]
Logged = Mapping[str, Any]


# -- tau-bench and tau2-bench ------------------------------------------------------------------------


class TauBench:
    """Adapter for tau-bench's trials."""

    name = "tau-bench"
    lacks_steps = True
    looks = "*.json with a list of 'task_id', 'reward', 'traj', 'info' (tau-bench)"

    def accepts(self, path: str, document: Logged) -> bool:
        """Return True if the document is a trial."""
        return {"task_id", "reward", "traj", "info"} <= document.keys()

    def read(self, document: Logged, path: str, *, full: bool) -> list[Record]:
        """Read the trial; one that failed counts with a reward of 0, as for tau-bench."""
        trial = {key: to_python(value) for key, value in document.items()}
        return [build_record(0, _tau_fields(trial), path, full=full)]


def _tau_fields(trial: Logged) -> Fields:
    info = _object(trial.get("info"))
    task, rewards = _object(info.get("task")), _object(_object(info.get("reward_info")).get("info"))
    yield "split", "eval"
    yield "group", trial["task_id"]
    yield "trial", trial.get("trial")
    yield "reward", trial["reward"]
    yield "messages", trial["traj"]
    yield "ground_truth", {key: task[key] for key in ("actions", "outputs") if task.get(key)} or None
    parts = {key: value for key, value in rewards.items() if isinstance(value, int | float)}
    if parts:
        yield "rewards", parts
    yield "metrics/user_cost", info.get("user_cost")
    yield "status", "ok"
    if info.get("error"):
        yield "status_reason", str(info["error"])[:LABEL_MAX]


_TAU2_STATUS = {
    "max_steps": "truncated",
    "context_window_exceeded": "truncated",
    "timeout": "timeout",
    "infrastructure_error": "environment_error",
    "user_error": "environment_error",
    "unexpected_error": "environment_error",
}


class Tau2Bench:
    """Adapter for tau2-bench's simulations."""

    name = "tau2-bench"
    lacks_steps = True
    looks = "*.json with 'simulations', or simulations/*.json (tau2-bench)"
    path_in_run = re.compile(r"(?<![^/])(?:simulations/)?[^/]+$")

    def accepts(self, path: str, document: Logged) -> bool:
        """Return True if the document is a simulation."""
        return {"task_id", "termination_reason", "reward_info"} <= document.keys()

    def read(self, document: Logged, path: str, *, full: bool) -> list[Record]:
        """Read the simulation."""
        run = {key: to_python(value) for key, value in document.items() if key != "ticks"}
        return [build_record(0, _tau2_fields(run), path, full=full)]


def _tau2_fields(run: Logged) -> Fields:
    info, messages = _object(run.get("reward_info")), list(_tau2_messages(run.get("messages")))
    yield "split", "eval"
    yield "group", run["task_id"]
    yield "trial", run.get("trial")
    yield "seed", run.get("seed")
    yield "reward", info.get("reward")
    yield "messages", messages
    # The agent's greeting is fixed: it answers nobody.
    asked = next((at for at, each in enumerate(messages) if each["role"] == "user"), len(messages))
    own = (at for at, each in enumerate(messages) if at > asked and each["role"] == "assistant")
    yield "prompt_messages", next(own, len(messages))
    if breakdown := info.get("reward_breakdown"):
        yield "rewards", breakdown
    reason = str(run["termination_reason"])
    status = _TAU2_STATUS.get(reason, "ok")
    rewarded = info.get("reward") is not None  # then it counts
    yield "status", "ok" if rewarded and status == "environment_error" else status
    yield "finish_reason", reason
    yield "metrics/cost_usd", run.get("agent_cost")
    yield "metrics/user_cost", run.get("user_cost")
    yield "timing", {"start": unix_seconds(run.get("start_time")), "total": run.get("duration")}


def _tau2_messages(logged: Any) -> Iterator[dict[str, Any]]:
    """Yield the messages; what a tool of the user returned goes to the user."""
    for each in logged or ():
        for message in each.get("tool_messages") or (each,):
            if message["role"] == "tool":
                yield {
                    "role": "tool" if message.get("requestor") != "user" else "environment",
                    "content": message.get("content"),
                    "tool_call_id": message.get("id"),
                    "is_error": bool(message.get("error")),
                }
            else:
                yield {key: message.get(key) for key in ("role", "content", "tool_calls")}


def _object(value: Any) -> Logged:
    return value if isinstance(value, Mapping) else {}


# -- BFCL --------------------------------------------------------------------------------------------

_RESULT, _SCORE = "_result.json", "_score.json"
_BFCL = re.compile(r"(?:BFCL_v\d+_)?(.+)_result\.json$")
_MAX_BYTES = 256 << 20


@dataclass(frozen=True)
class Bfcl:
    """Adapter for BFCL's results.

    Attributes
    ----------
    score : str
        Path of the scores; empty if there are none.
    stamp : tuple of int
        Modification times of scores and results, which identify their version.
    result : str
        Path of the results.
    """

    score: str = ""
    stamp: tuple[int, ...] = ()
    result: str = ""
    lacks_steps = True
    looks = "result/{model}/**/*_result.json, lines with 'id' and 'result' (BFCL)"
    document_name = re.compile(r".+_(?:result|score)\.json")
    path_in_run = re.compile(
        r"(?<![^/])(?:(?:live|non_live|multi_turn|agentic|memory|format_sensitivity)/){0,2}[^/]+$"
    )

    @property
    def name(self) -> str:
        """Name that is unique for this version of the scores."""
        return f"BFCL with {self.score} of {self.stamp}" if self.score else "BFCL"

    def accepts(self, path: str, document: Logged) -> bool:
        """Return True if a line is a result."""
        return path.endswith(_RESULT) and {"id", "result"} <= document.keys()

    def for_file(self, path: str) -> Adapter:
        """Return the adapter of a file with the scores that belong to it."""
        beside = path.replace(_RESULT, _SCORE)
        for score in (beside, beside.replace("/result/", "/score/")):
            try:
                stamp = stat(score).st_mtime_ns, stat(path).st_mtime_ns
            except OSError:
                continue
            return Bfcl(score, stamp, path)
        return Bfcl("", (), path)

    def read(self, document: Logged, path: str, *, full: bool) -> list[Record]:
        """Read the result, and what the scores say of it."""
        line = {key: to_python(value) for key, value in document.items()}
        scores = _scores(self.score, self.result, self.stamp) if self.score else None
        fields = [("model", _bfcl_model(self.result)), *_bfcl_fields(line, path, scores)]
        return [build_record(0, fields, path, full=full)]


def _bfcl_model(path: str) -> str | None:
    parts = PurePosixPath(path).parts
    return parts[parts.index("result") + 1] if "result" in parts[:-2] else None


def _bfcl_fields(line: Logged, path: str, scores: Mapping[str, Logged] | None) -> Fields:
    yield "split", "eval"
    yield "group", line["id"]
    match = _BFCL.search(PurePosixPath(path).name)
    yield "env", match[1] if match else None
    failed = scores.get(line["id"]) if scores is not None else None
    if scores is not None:
        yield "reward", float(failed is None)
    if failed is not None:
        yield "ground_truth", failed.get("possible_answer")
        error = failed.get("error")
        yield "error_type", failed.get("error_type") or _object(error).get("error_type")
    yield from _bfcl_conversation(line, failed or {})
    yield "status", "environment_error" if line.get("traceback") and scores is None else "ok"
    if line.get("traceback"):
        yield "status_reason", str(line["result"])[:LABEL_MAX]
    for key, name in (("input_token_count", "prompt_tokens"), ("output_token_count", "output_tokens")):
        if (count := _total(line.get(key))) is not None:
            yield f"metrics/{name}", count
    if (seconds := _total(line.get("latency"))) is not None:
        yield "timing", {"generation": seconds}


def _bfcl_conversation(line: Logged, failed: Logged) -> Fields:
    """Yield all turns if they were logged, else the question, which only a failure has, and the answer."""
    log = line.get("inference_log")
    messages = list(_bfcl_messages(log)) if isinstance(log, list) else []
    if not any(each["role"] == "assistant" for each in messages):
        question = _object(failed.get("prompt")).get("question")
        messages = [dict(each) for turn in question or () for each in turn if isinstance(each, Mapping)]
        messages.append(_answer(line["result"], line.get("reasoning_content")))
    yield "messages", messages
    roles = [each["role"] for each in messages]
    yield "prompt_messages", roles.index("assistant")


def _bfcl_messages(log: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield the messages of a log without what BFCL notes about its own state."""
    for turn in log:
        steps = [] if not isinstance(turn, Mapping) else [turn] if "role" in turn else list(turn.values())
        for step in steps:
            for each in step if isinstance(step, list) else [step]:
                role = each.get("role") if isinstance(each, Mapping) else None
                if role == "assistant":
                    yield _answer(each.get("content"), each.get("reasoning_content"))
                elif role in ("system", "user", "tool"):
                    yield {"role": role, "content": each.get("content")}


def _answer(result: Any, reasoning: Any) -> dict[str, Any]:
    """Return an answer as a message: a text, or a list of ``{name: arguments}``."""
    message: dict[str, Any] = {"role": "assistant", "content": result}
    if isinstance(reasoning, str) and reasoning:
        message["reasoning_content"] = reasoning
    if isinstance(result, list) and all(isinstance(each, Mapping) and len(each) == 1 for each in result):
        calls = [{"name": name, "arguments": given} for each in result for name, given in each.items()]
        message |= {"content": None, "tool_calls": calls}
    return message


def _total(value: Any) -> float | None:
    """Return a number, or the sum of those in lists of lists: one for each turn and step."""
    if isinstance(value, list):
        found = [number for each in value if (number := _total(each)) is not None]
        return sum(found) if found else None
    return float(value) if isinstance(value, int | float) else None


@lru_cache(maxsize=64)
def _scores(score: str, result: str, stamp: tuple[int, ...]) -> Mapping[str, Logged] | None:
    """Return the failures by their ids; None if not all results were scored.

    Raises
    ------
    LineError
        If the scores cannot be read now.
    """
    try:
        header, *failures = [_line(line) for line in _lines(path_of(score))]
        count = len(_lines(path_of(result)))
    except (OSError, LineError, ValueError) as error:
        raise LineError(f"BFCL: the scores cannot be read: {str(error)[:120]}") from error
    return {str(each.get("id")): each for each in failures} if header.get("total_count") == count else None


def _lines(path: AnyPath) -> list[bytes]:
    return [line for line in read_small(path, _MAX_BYTES).data.split(b"\n") if line.strip()]


def _line(line: bytes) -> dict[str, Any]:
    kept = ("id", "total_count", "possible_answer", "error", "error_type", "prompt")
    return {key: to_python(value) for key, value in parse(line).items() if key in kept}
