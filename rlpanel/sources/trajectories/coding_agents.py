"""Reads trajectories of SWE-agent (``.traj``) and mini-swe-agent (``.traj.json``): one file per task.

What the agent's commands returned is logged as messages of the user; it is the environment's. The agents log
no reward: whether an instance was resolved is in the report of the evaluation, ``report.json`` or
``results.json`` of SWE-bench or sb-cli, beside the trajectory or in the folder above.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.files.file_access import AnyPath, path_of, read_small
from rlpanel.sources.records.adapter_calls import WrappedAdapter
from rlpanel.sources.records.chat_shapes import chat_messages
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import parse, parse_value, to_python
from rlpanel.sources.records.record_types import Adapter, Record

Fields = Iterator[tuple[str, Any]]

#: Ends of names, in the order in which they are taken off.
_SUFFIX = re.compile(r"(?:\.traj)?(?:\.json)?(?:\.gz|\.zst)?$")
#: Keys of a message that are read; others repeat parts of its text.
_MESSAGE = ("role", "content", "tool_calls", "tool_call_id", "name", "reasoning_content", "thinking_blocks")
_STATS = {"instance_cost": "cost_usd", "tokens_sent": "prompt_tokens", "api_calls": "api_calls"}
#: How a run ended, by what its exit status says.
_STATUS = {
    "ok": re.compile(r"submitted", re.IGNORECASE),
    "timeout": re.compile(r"time", re.IGNORECASE),
    "truncated": re.compile(r"context|limit|cost", re.IGNORECASE),
    "environment_error": re.compile(r"(?<!format)error|exception", re.IGNORECASE),
}
#: Reports of an evaluation, and lists in them of instances that were evaluated.
_REPORTS = ("report.json", "results.json")
_PREDICTIONS = re.compile(r"(?<![^/])(?:all_)?preds\.jsonl?$")
_EVALUATED = ("unresolved", "unresolved_ids", "completed_ids", "empty_patch_ids", "generated", "applied")
_MAX_BYTES = 16 << 20


class SweAgent:
    """Adapter for SWE-agent's trajectories."""

    name = "SWE-agent"
    lacks_steps = True
    looks = "{instance}.traj with 'history' (SWE-agent)"
    document_name = re.compile(r".+\.traj")
    path_in_run = re.compile(r"(?<![^/])([^/]+)/\1\.traj$|[^/]+$")

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the document is a trajectory; one to be imitated has only the history."""
        return "history" in document and (".traj" in path or {"trajectory", "info"} <= document.keys())

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the trajectory, with several attempts the one that was chosen."""
        run = {key: to_python(document[key]) for key in document.keys() - {"attempts"}}
        history = [each for each in run.get("history") or () if isinstance(each, Mapping)]
        steps = [step for step in run.get("trajectory") or () if isinstance(step, Mapping)]
        spent = sum(step.get("execution_time") or 0.0 for step in steps)
        fields = [("env", run.get("environment")), ("model", _model(run.get("replay_config")))]
        fields += [("timing", {"environment": spent})] if spent else []
        return [_sample(history, run.get("info"), fields, path, full=full)]


class MiniSweAgent:
    """Adapter for mini-swe-agent's trajectories."""

    name = "mini-swe-agent"
    lacks_steps = True
    looks = "{instance}.traj.json with 'messages' and 'info' (mini-swe-agent)"
    document_name = re.compile(r".+\.traj\.json")
    path_in_run = re.compile(r"(?<![^/])([^/]+)/\1\.traj\.json$|[^/]+$")

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the document is a trajectory."""
        named = str(document.get("trajectory_format")).startswith("mini-swe-agent")
        return "messages" in document and (named or (".traj.json" in path and "info" in document))

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the trajectory."""
        info = to_python(document.get("info"))
        config = info.get("config") if isinstance(info, Mapping) else None
        model = config.get("model") if isinstance(config, Mapping) else None
        fields = [("model", model.get("model_name") if isinstance(model, Mapping) else None)]
        fields += [("instance", document.get("instance_id"))]
        return [_sample(to_python(document.get("messages")), info, fields, path, full=full)]


class MiniSweMessages:
    """Adapter for mini-swe-agent's first trajectories: the file is the list of messages."""

    name = "mini-swe-agent, messages"
    lacks_steps = True
    looks = "{instance}.traj.json with a list of messages (mini-swe-agent)"
    document_name = MiniSweAgent.document_name
    path_in_run = MiniSweAgent.path_in_run
    whole_session = True

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the list begins with a message."""
        events = to_python(document.get("events"))
        first = events[0] if isinstance(events, list) and events else None
        return ".traj.json" in path and isinstance(first, Mapping) and {"role", "content"} <= first.keys()

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the trajectory."""
        return [_sample(to_python(document["events"]), {}, [], path, full=full)]


def _sample(logged: Any, info: Any, fields: list[tuple[str, Any]], path: str, *, full: bool) -> Record:
    info = info if isinstance(info, Mapping) else {}
    stats = info.get("model_stats")
    stats = stats if isinstance(stats, Mapping) else {}
    messages, before = _conversation(logged)
    end = str(info.get("exit_status") or "")
    fields = [("split", "eval"), ("group", instance_of(path)), *fields]
    fields += [("messages", messages), ("prompt_messages", before), ("finish_reason", end or None)]
    fields += [("status", next((name for name, text in _STATUS.items() if text.search(end)), None))]
    fields += [(f"metrics/{name}", stats[key]) for key, name in _STATS.items() if key in stats]
    fields += [("submission", info["submission"])] if info.get("submission") else []
    record = build_record(0, fields, path, full=full)
    if isinstance(tokens := stats.get("tokens_received"), int | float) and tokens:
        record.numbers.setdefault("response_tokens", float(tokens))
    return record


def _conversation(logged: Any) -> tuple[list[dict[str, Any]], int]:
    """Return the messages, and how many come before the agent's first one; demonstrations do."""
    if not isinstance(logged, list) or not all(isinstance(each, Mapping) for each in logged):
        raise LineError("the trajectory has no list of messages")
    messages: list[dict[str, Any]] = []
    before = -1
    for item in logged:
        found = [*_messages(item)]
        own = any(each["role"] == "assistant" for each in found) and not item.get("is_demo")
        if own and before < 0:
            before = len(messages)
        elif before >= 0:
            found = [each | _environment(each) for each in found]
        messages += found
    return messages, len(messages) if before < 0 else before


def _messages(item: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a message; mini-swe-agent may log an answer of the Responses API and its items."""
    if isinstance(item.get("output"), list):
        yield from chat_messages(item["output"])
    elif "role" not in item:
        yield from chat_messages([dict(item)])
    else:
        ids = item.get("tool_call_ids")
        yield {key: item[key] for key in _MESSAGE if item.get(key) is not None} | (
            {"tool_call_id": ids[0]} if isinstance(ids, list) and ids else {}
        )


def _environment(message: Mapping[str, Any]) -> dict[str, str]:
    return {"role": "environment"} if message["role"] in ("user", "exit") else {}


def _model(replay_config: Any) -> Any:
    """Return the model's name from the configuration, which is JSON in a text."""
    try:
        value = parse_value(replay_config) if isinstance(replay_config, str) else replay_config
        return value["agent"]["model"]["name"]
    except (LineError, LookupError, TypeError):
        return None


def instance_of(path: str) -> str:
    """Return the instance that a trajectory is about: its file's name without the suffixes."""
    return _SUFFIX.sub("", PurePosixPath(path).name)


# -- reports -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged(WrappedAdapter):
    """Adapter of a trajectory that adds what a report says about its instance.

    Attributes
    ----------
    report : str
        Path of the report.
    stamp : int
        Its modification time, which identifies its version.
    """

    report: str
    stamp: int

    @property
    def name(self) -> str:
        """Name that is unique for this version of the report."""
        return f"{self.adapter.name} with {self.report} of {self.stamp}"

    def read(self, document: Any, path: str, *, full: bool) -> list[Record]:
        """Read the trajectory with its reward: 1 if the instance was resolved, 0 if it was evaluated."""
        records = self.adapter.read(document, path, full=full)
        resolved = _resolved(self.report, self.stamp).get(instance_of(path))
        for record in records if resolved is not None else ():
            record.numbers["reward"] = float(bool(resolved))
        return records


def judged(run_folder: AnyPath, found: Mapping[str, Adapter]) -> dict[str, Adapter]:
    """Return the adapters of trajectories that have a report, by their names below the run."""
    reports: dict[AnyPath, tuple[str, int] | None] = {}
    joined: dict[str, Adapter] = {}
    for name, adapter in found.items():
        if isinstance(adapter, SweAgent | MiniSweAgent | MiniSweMessages):
            folder = (run_folder / name).parent
            for place in (folder, folder.parent):
                if place not in reports:
                    reports[place] = _report_in(place)
                if report := reports[place]:
                    joined[name] = Judged(adapter, *report)
                    break
    return joined


def repeated_predictions(found: Mapping[str, Adapter]) -> set[str]:
    """Return files of predictions among a run's files: trajectories beside them hold the same patches."""
    agents = SweAgent | MiniSweAgent | MiniSweMessages
    if not any(isinstance(adapter, agents) for adapter in found.values()):
        return set()
    return {name for name in found if _PREDICTIONS.search(name)}


def _report_in(folder: AnyPath) -> tuple[str, int] | None:
    for name in _REPORTS:
        try:
            return str(folder / name), (folder / name).stat().st_mtime_ns
        except OSError:
            continue
    return None


@lru_cache(maxsize=256)
def _resolved(report: str, stamp: int) -> dict[str, bool]:
    """Return whether each evaluated instance was resolved; LineError if the report cannot be read now."""
    try:
        content = parse(read_small(path_of(report), _MAX_BYTES).data.strip())
    except (OSError, LineError) as error:
        name = PurePosixPath(report).name
        raise LineError(f"{name} of the evaluation cannot be read: {str(error)[:120]}") from error
    logged = {key: to_python(value) for key, value in content.items()}
    found = {
        key: bool(value["resolved"])
        for key, value in logged.items()
        if isinstance(value, Mapping) and isinstance(value.get("resolved"), bool)
    }
    for keys, verdict in ((_EVALUATED, False), (("resolved", "resolved_ids"), True)):
        lists = (logged[key] for key in keys if isinstance(logged.get(key), list))
        found |= {str(instance): verdict for each in lists for instance in each}
    return found
