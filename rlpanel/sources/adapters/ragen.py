"""Reads RAGEN's evaluations: ``val_rollouts*.jsonl``, one trajectory a line, written in one go.

The messages alternate between the environment's states and the policy's answers, and end with a state. An
evaluation has no step. Its time may be in the file's name; then it is part of the group, because each
evaluation counts its groups from 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.record_types import Record

_NAMES = {"total_reward": "reward", "entropy": "logged_entropy"}
_TIME = re.compile(r"(?:^|/)val_rollouts_([^/.]+)\.[^/]+$")


class Ragen:
    """Adapter for RAGEN's evaluations."""

    name = "RAGEN"
    looks = "val_rollouts*.jsonl with 'custom_id', 'messages' and 'metadata' with 'total_reward' (RAGEN)"

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the line is a trajectory."""
        metadata = to_python(document.get("metadata"))
        keys = {"custom_id", "messages", "metadata"}
        return keys <= document.keys() and isinstance(metadata, dict) and "total_reward" in metadata

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the line's only sample."""
        metadata, messages = (to_python(document.get(key)) for key in ("metadata", "messages"))
        if not isinstance(metadata, dict):
            raise LineError("'metadata' is not an object")
        if not isinstance(messages, list):
            raise LineError("'messages' is not a list")
        time = _TIME.search(path)
        fields = [*_fields(metadata, time[1] if time else ""), ("messages", list(_states(messages)))]
        return [build_record(0, [("custom_id", document.get("custom_id")), *fields], path, full=full)]


def _fields(metadata: Mapping[str, Any], time: str) -> Iterator[tuple[str, Any]]:
    yield "split", "eval"
    for key, value in metadata.items():
        if key == "group_id":
            yield "group", f"{time}:{value}" if time else str(value)
        else:
            yield _NAMES.get(key, key), value


def _states(messages: list[Any]) -> Iterator[Any]:
    """Yield the messages; the user's after the policy's first one are states of the environment."""
    answered = False
    for message in messages:
        role = message.get("role") if isinstance(message, dict) else None
        answered = answered or role == "assistant"
        yield {**message, "role": "environment"} if answered and role == "user" else message
