"""Reads rlpanel's own format, also written by its predecessor: one object per sample, one file per rank.

The keys are the names in `rlpanel.schema` and their aliases; see `rlpanel.sources.records.fields`. Lines
without a step have that of the file's path, as in ``step_3/samples.jsonl``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.path_numbers import step_from_path
from rlpanel.sources.records.record_types import FlatFormat, Record

#: Keys of which each line has one; ids may be decoded with a tokenizer.
_TEXT_KEYS = frozenset({"prompt", "response", "messages", "response_token_ids"})
_REWARD_KEYS = frozenset({"reward", "rewards"})


class Native:
    """Adapter for the native format."""

    name = "native"
    looks = "*.jsonl with 'step' and 'prompt' or 'response' in each line (native)"
    flat_format = FlatFormat(step_of=step_from_path)

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the line has a step and a prompt or response, or the ids of one.

        A step in the path alone is enough if the line has both texts and a reward, as no data set has.
        """
        if "step" in document:
            return not _TEXT_KEYS.isdisjoint(document)
        whole = {"prompt", "response"} <= document.keys() and not _REWARD_KEYS.isdisjoint(document)
        return whole and step_from_path(path) is not None

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the line's only sample; see `rlpanel.sources.records.record_types.Adapter.read`."""
        step = document["step"] if "step" in document else step_from_path(path)
        if step is None and "step" not in document:
            raise LineError("no 'step'")
        if _TEXT_KEYS.isdisjoint(document):
            raise LineError("neither 'prompt' nor 'response'")
        return [build_record(step, document.items(), path, full=full)]
