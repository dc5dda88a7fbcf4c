"""Reads AReaL's dumped trajectories: ``{version}/{task_id}.jsonl``, one file per task, appended.

A response may be sampled by several versions of the policy. The folder is named after the newest version of
the whole group, so it is the step; ``tail_version``, the newest version of one response, is a column.
``segments`` are the turns of an agent, with their numbers of tokens: they give the loss mask. ``version_rle``
counts the policy's tokens only (``WorkflowExecutor._dump_trajectory``), and becomes the array
``token_version`` of the whole response. Other token arrays are not logged. The version that trained is not
logged, so no lag is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rlpanel.errors import LineError
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.record_types import Record

_NAMES = {"completion": "response", "task_id": "group", "version_rle": "policy_version"}
#: Roles of chat messages by those of segments.
_ROLES = {"gen": "assistant", "prompt": "user", "context": "environment"}
#: Tokens of a response; a larger number is a fault of the file.
_MAX_TOKENS = 4_000_000
_VERSION_FOLDER = re.compile(r"(?:^|/)(\d{1,15})/[^/]+$")


class Areal:
    """Adapter for AReaL's trajectories."""

    name = "AReaL"
    looks = "{version}/{task_id}.jsonl with 'task_id', 'completion' and 'tail_version' (AReaL)"
    path_in_run = re.compile(r"\d+/[^/]+\.jsonl$")

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the line has AReaL's keys."""
        return {"task_id", "prompt", "completion", "tail_version"} <= document.keys()

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the line's only sample."""
        folder = _VERSION_FOLDER.search(path)
        step = document.get("tail_version") if folder is None else int(folder[1])
        if step is None:
            raise LineError("no 'tail_version', and no folder that is named after a version")
        if "prompt" not in document and "completion" not in document:
            raise LineError("neither 'prompt' nor 'completion'")
        record = build_record(step, [*_fields(document), *_segment_fields(document)], path, full=full)
        _add_arrays(record, document)
        return [record]


def _segment_fields(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the conversation that the segments make up, and the number of tokens that others wrote."""
    segments = to_python(document.get("segments"))
    if not isinstance(segments, list) or not all(isinstance(each, dict) for each in segments):
        return
    roles = [_ROLES.get(str(each.get("role")), "environment") for each in segments]
    if "assistant" not in roles or any(not isinstance(each.get("text"), str) for each in segments):
        return
    yield (
        "messages",
        [{"role": role, "content": each["text"]} for role, each in zip(roles, segments, strict=True)],
    )
    first = roles.index("assistant")
    yield "prompt_messages", first
    lengths = [each.get("len") for each, role in zip(segments, roles, strict=True) if role != "assistant"]
    if all(isinstance(length, int) for length in lengths):
        yield "context_tokens", sum(lengths[first:])


def _add_arrays(record: Record, document: Mapping[str, Any]) -> None:
    """Add the loss mask of the response, and the version that sampled each of its tokens.

    Tokens of the environment have the version of the policy's next token. Nothing is added if the numbers of
    tokens do not add up.
    """
    segments, total = to_python(document.get("segments")), document.get("seqlen")
    before = document.get("prompt_len")
    if not isinstance(segments, list) or not isinstance(total, int) or not isinstance(before, int):
        return
    parts = [(each.get("len"), each.get("role")) for each in segments if isinstance(each, dict)]
    first = next((at for at, (_, role) in enumerate(parts) if role == "gen"), len(parts))
    lengths = [length for length, _ in parts[first:] if type(length) is int and 0 <= length <= _MAX_TOKENS]
    if len(lengths) != len(parts) - first:
        return
    if not 0 < sum(lengths) == total - before <= _MAX_TOKENS:
        return
    mask = np.repeat([role == "gen" for _, role in parts[first:]], lengths)
    written = float(mask.sum())
    record.arrays["loss_mask"] = mask.astype(float)
    record.numbers |= {"response_tokens": written, "trajectory_tokens": float(len(mask))}
    record.numbers["context_tokens"] = len(mask) - written
    versions = [] if record.agent is None else record.agent.policy_versions
    if versions and sum(count for _, count in versions) == written:
        each = np.repeat([version for version, _ in versions], [count for _, count in versions])
        at = np.minimum(np.cumsum(mask) - mask, len(each) - 1)
        record.arrays["token_version"] = each[at].astype(np.int64)


def _fields(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in document.items():
        yield _NAMES.get(key, key), value
