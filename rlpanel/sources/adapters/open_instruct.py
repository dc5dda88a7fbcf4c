"""open-instruct: ``{run}_rollouts_{shard}.jsonl`` (``--save_traces``), one line a sample, appended.

Token ids without text; ``logprobs`` are those of the engine that generated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.records.fields import record_of
from rlpanel.sources.records.json_parser import plain
from rlpanel.sources.records.record_types import Record

_KEYS = ("step", "prompt_tokens", "response_tokens")
_NAMES = {"prompt_idx": "group", "logprobs": "rollout_logprobs", "response_tokens": "response_token_ids"}
#: Ids of tokens, which have no text here, and what is told of tools, which has columns of its own.
_APART = frozenset({"step", "ground_truth", "request_info"})


class OpenInstruct:
    """open-instruct's saved traces."""

    name = "open-instruct"
    looks = "{run}_rollouts_{shard}.jsonl with 'prompt_tokens' and 'response_tokens' (open-instruct)"

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Whether the line has a step and the ids of a prompt and of a response."""
        return all(key in document for key in _KEYS)

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """The line's one sample."""
        for key in _KEYS:
            if key not in document:
                raise LineError(f"no {key!r}")
        return [record_of(document["step"], _fields(document), path, full=full)]


def _fields(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in document.items():
        if key not in _APART:
            yield _NAMES.get(key, key), value
    tools = plain(document.get("request_info"))
    if isinstance(tools, dict):
        for key, value in tools.items():
            yield f"tools/{key}", value
    if document.get("ground_truth") is not None:
        yield "ground_truth_token_ids", document["ground_truth"]
