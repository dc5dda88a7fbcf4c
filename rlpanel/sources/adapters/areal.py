"""Reads AReaL's dumped trajectories: ``{version}/{task_id}.jsonl``, one file per task, appended.

A response may be sampled by several versions of the policy; its step is the newest of them, and its group is
the task. There are no token arrays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.record_types import Record

_NAMES = {"completion": "response", "task_id": "group"}


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
        if "tail_version" not in document:
            raise LineError("no 'tail_version'")
        if "prompt" not in document and "completion" not in document:
            raise LineError("neither 'prompt' nor 'completion'")
        return [build_record(document["tail_version"], _fields(document), path, full=full)]


def _fields(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in document.items():
        yield _NAMES.get(key, key), value
