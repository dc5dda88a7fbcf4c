"""rlpanel's own line, which is also the predecessor's: one sample an object, one file a rank.

Its keys are the names of `rlpanel.schema` with their aliases; see `rlpanel.sources.records.fields`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.records.fields import record_of
from rlpanel.sources.records.record_types import Record

_TEXT_KEYS = frozenset({"prompt", "response", "messages"})


class Native:
    """The native dialect."""

    name = "native"
    looks = "*.jsonl with 'step' and 'prompt' or 'response' in each line (native)"

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Whether the line has a step and a prompt or a response."""
        return "step" in document and not _TEXT_KEYS.isdisjoint(document)

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """The line's one sample; see `rlpanel.sources.records.record_types.Adapter.read`."""
        if "step" not in document:
            raise LineError("no 'step'")
        if _TEXT_KEYS.isdisjoint(document):
            raise LineError("neither 'prompt' nor 'response'")
        return [record_of(document["step"], document.items(), path, full=full)]
