"""Reads rlpanel's own format, also written by its predecessor: one object per sample, one file per rank.

The keys are the names in `rlpanel.schema` and their aliases; see `rlpanel.sources.records.fields`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.record_types import FlatFormat, Record

#: Keys of which each line has one; ids may be decoded with a tokenizer.
_TEXT_KEYS = frozenset({"prompt", "response", "messages", "response_token_ids"})


class Native:
    """Adapter for the native format."""

    name = "native"
    looks = "*.jsonl with 'step' and 'prompt' or 'response' in each line (native)"
    flat_format = FlatFormat()

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the line has a step and a prompt or response, or the ids of one."""
        return "step" in document and not _TEXT_KEYS.isdisjoint(document)

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the line's only sample; see `rlpanel.sources.records.record_types.Adapter.read`."""
        if "step" not in document:
            raise LineError("no 'step'")
        if _TEXT_KEYS.isdisjoint(document):
            raise LineError("neither 'prompt' nor 'response'")
        return [build_record(document["step"], document.items(), path, full=full)]
