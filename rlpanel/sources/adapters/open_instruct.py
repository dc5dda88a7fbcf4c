"""Reads open-instruct's ``{run}_rollouts_{shard}.jsonl`` (``--save_traces``), one line per sample, appended.

The lines hold token ids without text; ``logprobs`` are those of the inference engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.record_types import Record

_KEYS = ("step", "prompt_tokens", "response_tokens")
_NAMES = {"prompt_idx": "group", "logprobs": "rollout_logprobs", "response_tokens": "response_token_ids"}
#: Keys that are not passed on unchanged: the ground truth holds token ids, and tool data gets own columns.
_SEPARATE = frozenset({"step", "ground_truth", "request_info"})


class OpenInstruct:
    """Adapter for open-instruct's saved traces."""

    name = "open-instruct"
    looks = "{run}_rollouts_{shard}.jsonl with 'prompt_tokens' and 'response_tokens' (open-instruct)"

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the line has a step and the token ids of a prompt and a response."""
        return all(key in document for key in _KEYS)

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the line's only sample."""
        for key in _KEYS:
            if key not in document:
                raise LineError(f"no {key!r}")
        return [build_record(document["step"], _fields(document), path, full=full)]


def _fields(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in document.items():
        if key not in _SEPARATE:
            yield _NAMES.get(key, key), value
    tools = to_python(document.get("request_info"))
    if isinstance(tools, dict):
        for key, value in tools.items():
            yield f"tools/{key}", value
    if document.get("ground_truth") is not None:
        yield "ground_truth_token_ids", document["ground_truth"]
