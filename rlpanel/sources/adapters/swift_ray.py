"""Reads ``completions.jsonl`` of ms-swift on Ray, which holds one sample per line and is appended.

Other backends of ms-swift write columnar lines instead, see `columnar`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.adapters.columnar import is_list
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.record_types import Record

_NAMES = {"gen_step": "step", "completion": "response"}


class SwiftRay:
    """Adapter for ms-swift's samples on Ray."""

    name = "ms-swift on Ray"
    looks = "*.jsonl with 'gen_step', 'prompt' and 'completion' (ms-swift on Ray)"

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the line has ms-swift's keys, and one step rather than a list of steps."""
        has_keys = {"gen_step", "prompt", "completion"} <= document.keys()
        return has_keys and not is_list(document["gen_step"])

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the line's only sample."""
        if "gen_step" not in document:
            raise LineError("no 'gen_step'")
        if "prompt" not in document and "completion" not in document:
            raise LineError("neither 'prompt' nor 'completion'")
        fields = ((_NAMES.get(key, key), value) for key, value in document.items())
        return [build_record(document["gen_step"], fields, path, full=full)]
