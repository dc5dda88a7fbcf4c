"""Reads what miles writes with ``--dump-details DIR`` besides its pickles, one file per rollout, in one go.

``trajectory/{id}.jsonl`` holds the conversations of samples with several turns.
``dashboard_columns/rollout_{id}.parquet`` holds the tokens of all samples, without texts and rewards; it is
read where there are no conversations. Names of evaluations begin with ``eval_``. The pickles
(``rollout_data/{id}.pt``) hold both and more; `rlpanel.sources.slime_convert` converts them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.records.field_values import whole_numbers
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.record_types import Record

_CONVERSATIONS = re.compile(r"(?:^|/)(eval_)?(\d{1,15})\.jsonl$")
_COLUMNS = re.compile(r"(?:^|/)rollout_(eval_)?(\d{1,15})\.parquet$")
_NAMES = {"group_index": "group", "status": "finish_reason"}
_STATUS = {"completed": "ok", "truncated": "truncated", "failed": "tool_error", "aborted": "discarded"}

Fields = Iterator[tuple[str, Any]]


class MilesTrajectories:
    """Adapter for miles' conversations."""

    name = "miles trajectories"
    looks = "trajectory/{id}.jsonl with 'sample_index', 'group_index' and 'messages' (miles)"
    path_in_run = re.compile(r"(?<![^/])trajectory/[^/]+\.jsonl$")

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the line is a sample's conversation in a file named by its rollout."""
        keys = {"sample_index", "group_index", "status", "prompt", "messages"}
        return keys <= document.keys() and _CONVERSATIONS.search(path) is not None

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the line's only sample."""
        if "messages" not in document:
            raise LineError("no 'messages'")
        step, split = _rollout(_CONVERSATIONS, path)
        return [build_record(step, [split, *_conversation_fields(document)], path, full=full)]


class MilesColumns:
    """Adapter for miles' tokens."""

    name = "miles columns"
    looks = "dashboard_columns/rollout_{id}.parquet with 'tokens' and 'response_length' (miles)"
    path_in_run = re.compile(r"(?<![^/])dashboard_columns/[^/]+\.parquet$")

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the row is a sample's tokens in a file named by its rollout."""
        keys = {"sample_index", "response_length", "total_length", "tokens"}
        return keys <= document.keys() and _COLUMNS.search(path) is not None

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the row's only sample."""
        for key in ("tokens", "response_length"):
            if key not in document:
                raise LineError(f"no {key!r}")
        step, split = _rollout(_COLUMNS, path)
        return [build_record(step, [split, *_token_fields(document)], path, full=full)]


def repeated_columns(names: set[str]) -> set[str]:
    """Return the files of tokens for whose rollouts there are conversations as well."""
    matches = ((name, _COLUMNS.search(name)) for name in names if "dashboard_columns/" in f"/{name}")
    return {
        name for name, match in matches if match and f"trajectory/{match[1] or ''}{match[2]}.jsonl" in names
    }


def _rollout(pattern: re.Pattern[str], path: str) -> tuple[int, tuple[str, str]]:
    """Return the rollout's number and the split, from the file's name."""
    match = pattern.search(path)
    if match is None:
        raise LineError("the file's name contains no rollout id")
    return int(match[2]), ("split", "eval" if match[1] else "train")


def _conversation_fields(document: Mapping[str, Any]) -> Fields:
    messages, prompt = to_python(document["messages"]), to_python(document.get("prompt"))
    yield "messages", messages
    if isinstance(prompt, list) and prompt == messages[: len(prompt)]:
        yield "prompt_messages", len(prompt)
    for key, value in document.items():
        if key not in ("messages", "prompt"):
            yield _NAMES.get(key, key), value
    status = str(document.get("status"))
    yield "truncated", int(status == "truncated")
    if status in _STATUS:
        yield "status", _STATUS[status]


def _token_fields(document: Mapping[str, Any]) -> Fields:
    tokens = whole_numbers(document["tokens"])
    length = int(document["response_length"])
    border = len(tokens) - length
    yield "sample_index", document.get("sample_index")
    yield "prompt_token_ids", tokens[:border]
    yield "response_token_ids", tokens[border:]
    for key, name in (("loss_mask", "loss_mask"), ("rollout_log_probs", "rollout_logprobs")):
        if document.get(key) is not None:
            yield name, document[key]
