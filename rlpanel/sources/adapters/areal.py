"""Reads AReaL's dumped trajectories: ``{version}/{task_id}.jsonl``, one file per task, appended.

A response may be sampled by several versions of the policy. The folder is named after the newest version of
the whole group, so it is the step; ``tail_version``, the newest version of one response, is a column. Token
arrays are not logged. ``segments`` are the turns of an agent. The version that trained is not logged, so no
lag is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.record_types import Record

_NAMES = {"completion": "response", "task_id": "group", "version_rle": "policy_version"}
#: Roles of chat messages by those of segments.
_ROLES = {"gen": "assistant", "prompt": "user", "context": "environment"}
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
        return [build_record(step, [*_fields(document), *_segment_fields(document)], path, full=full)]


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


def _fields(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in document.items():
        yield _NAMES.get(key, key), value
