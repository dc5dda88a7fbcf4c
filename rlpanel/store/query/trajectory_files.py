"""Writes samples as trajectories that other tools open: ATIF documents, and the Hub's session traces.

What a format has no field for, such as rewards and the step, stands under ``rlpanel`` in its place for other
data, from where the readers of both formats take it again. Images, audio and video are left out and counted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rlpanel import schema
from rlpanel.errors import RLPanelError
from rlpanel.safe_files import SafeFolder
from rlpanel.schema import Sample
from rlpanel.store.query.samples_export import to_json_types

ATIF_VERSION = "ATIF-v1.7"
_SOURCES = {"system": "system", "developer": "system", "user": "user", "assistant": "agent"}
#: Fields of a sample that stand under ``rlpanel``, if they were logged.
_LABELS = ("group", "episode", "trajectory", "split", "status", "status_reason", "finish_reason")


def atif_document(sample: Sample) -> bytes:
    """Return a sample as an ATIF document; tokens belong to the turn that the loss mask gives them to."""
    steps: list[dict[str, Any]] = []
    for message in conversation(sample):
        role = message["role"]
        if role in ("tool", "environment") and steps and steps[-1]["source"] == "agent":
            results = steps[-1].setdefault("observation", {"results": []})["results"]
            call = message.get("tool_call_id")
            results.append(({"source_call_id": call} if call else {}) | {"content": message["content"]})
            continue
        step: dict[str, Any] = {"source": _SOURCES.get(role, "user"), "message": message["content"]}
        if message.get("reasoning_content"):
            step["reasoning_content"] = message["reasoning_content"]
        if calls := message.get("tool_calls"):
            step["tool_calls"] = [
                {
                    "tool_call_id": call.get("id") or f"call_{number}",
                    "function_name": call["name"],
                    "arguments": _arguments(call["arguments"]),
                }
                for number, call in enumerate(calls)
            ]
        steps.append(step)
    _add_tokens(steps, sample)
    document = {
        "schema_version": ATIF_VERSION,
        "session_id": sample.episode or sample.uid,
        "agent": {"name": sample.agent or "policy", "version": "unknown"},
        "steps": [{"step_id": number} | step for number, step in enumerate(steps, 1)],
        "extra": {"rlpanel": _outcome(sample)},
    }
    return _json(document)


def session_trace(sample: Sample) -> bytes:
    """Return a sample as a session trace: a line that describes it, then one line per message."""
    lines: list[dict[str, Any]] = [
        {
            "type": "session",
            "harness": "rlpanel",
            "id": sample.uid,
            "name": f"step {sample.step}",
            "rlpanel": _outcome(sample),
        }
    ]
    parent = None
    for number, message in enumerate(conversation(sample)):
        parts: list[dict[str, Any]] = []
        if message.get("reasoning_content"):
            parts.append({"type": "thinking", "thinking": message["reasoning_content"]})
        if message["content"]:
            parts.append({"type": "text", "text": message["content"]})
        parts += [
            {
                "type": "toolCall",
                "id": call.get("id") or f"call_{number}_{at}",
                "name": call["name"],
                "arguments": _arguments(call["arguments"]),
            }
            for at, call in enumerate(message.get("tool_calls", ()))
        ]
        role = {"tool": "toolResult", "environment": "user"}.get(message["role"], message["role"])
        own: dict[str, Any] = {"role": role, "content": parts}
        if role == "toolResult":
            own |= {"toolCallId": message.get("tool_call_id", ""), "toolName": message.get("name", "")}
        lines.append({"type": "message", "id": str(number), "parentId": parent, "message": own})
        parent = str(number)
    return b"".join(_json(line) + b"\n" for line in lines)


def conversation(sample: Sample) -> list[Mapping[str, Any]]:
    """Return a sample's messages; its prompt and response as two messages if only texts were logged."""
    if sample.messages:
        return list(sample.messages)
    texts = (("user", sample.prompt), ("assistant", sample.response))
    return [{"role": role, "content": text} for role, text in texts if text]


def _outcome(sample: Sample) -> dict[str, Any]:
    """Return what neither format has a field for; numbers that were not logged are left out."""
    numbers = {name: getattr(sample, name) for name in schema.NUMBERS if hasattr(sample, name)}
    numbers |= {name: value for name, value in sample.columns.items() if name.startswith("rewards/")}
    logged = {name: value for name, value in numbers.items() if np.isfinite(value)}
    labels = {name: getattr(sample, name) for name in (*_LABELS, "ground_truth")}
    labels = {name: value for name, value in labels.items() if value is not None}
    labels["split"] = sample.split or "train"  # a reader takes a trajectory for an evaluation's
    return {"step": sample.step, "uid": sample.uid, "rank": sample.rank} | logged | labels


def _add_tokens(steps: list[dict[str, Any]], sample: Sample) -> None:
    """Add the sampled token ids and logprobs to the agent's steps, if it is known which are whose."""
    ids = sample.response_token_ids
    own = [step for step in steps if step["source"] == "agent"]
    if ids is None or not own:
        return
    mask = sample.loss_mask
    written = np.ones(len(ids), bool) if mask is None or len(mask) != len(ids) else np.asarray(mask) > 0
    edges = np.flatnonzero(np.diff(np.concatenate(([0], written.astype(np.int8), [0]))))
    turns = edges.reshape(-1, 2).tolist()
    if len(turns) != len(own):
        return
    scored = sample.rollout_logprobs if sample.rollout_logprobs is not None else sample.logprobs
    for step, (start, end) in zip(own, turns, strict=True):
        step["metrics"] = {
            "completion_token_ids": [int(each) for each in ids[start:end]],
            "completion_tokens": end - start,
        }
        if scored is not None and len(scored) == len(ids):
            step["metrics"]["logprobs"] = to_json_types(scored[start:end])


def _arguments(text: str) -> Any:
    """Return a call's arguments as an object, as both formats want them; another text under ``raw``."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"raw": text}


def _json(value: Any) -> bytes:
    return json.dumps(to_json_types(value), ensure_ascii=False).encode("utf-8", "replace")


class TrajectoryFormat(NamedTuple):
    """A format of one file per sample: its name, the end of its files' names, and what writes one."""

    name: str
    ending: str
    write: Callable[[Sample], bytes]


TRAJECTORIES = {
    "atif": TrajectoryFormat("ATIF", "json", atif_document),
    "sessions": TrajectoryFormat("session traces", "jsonl", session_trace),
}


@dataclass
class Written:
    """Result of an export: files, bytes, media left out, and samples that could not be read."""

    files: int = 0
    bytes: int = 0
    media: int = 0
    unread: int = 0
    reason: str = ""


def write_trajectories(
    folder: SafeFolder, count: int, samples: Iterable[Sample | RLPanelError], kind: TrajectoryFormat
) -> Written:
    """Write each sample to ``step_<step>/trajectory-<number>`` below a folder.

    Parameters
    ----------
    folder : SafeFolder
    count : int
        Number of samples, which gives the width of the numbers.
    samples : iterable of Sample or RLPanelError
        An error stands for a sample that cannot be read; it is counted.
    kind : TrajectoryFormat
    """
    written, width = Written(), len(str(count))
    for number, sample in enumerate(samples, 1):
        if isinstance(sample, RLPanelError):
            written.unread += 1
            written.reason = written.reason or str(sample)
            continue
        name = f"trajectory-{number:0{width}}.{kind.ending}"
        with folder.subfolder(f"step_{sample.step}", create=True) as place:
            written.bytes += place.replace(name, kind.write(sample))
        written.files += 1
        written.media += sum(1 for _ in _media(sample))
    return written


def _media(sample: Sample) -> Iterator[Any]:
    yield from (*sample.images, *sample.media)
    for message in sample.messages:
        yield from (*message.get("images", ()), *message.get("media", ()))
