"""Reads verl's ``{step}.jsonl`` in ``trainer.rollout_data_dir`` or ``trainer.validation_data_dir``.

One line per sample; the file is written in one go, and again by a resumed run. The V1 trainer's ``uid`` is
``{prompt}_{session}_{turn}``. The older trainer writes no uid, but every reward-extra key. There are no token
arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.record_types import Record, number_from_name

_NAMES = {"input": "prompt", "output": "response", "gts": "ground_truth", "score": "reward"}


class Verl:
    """Adapter for verl's rollout and validation dumps."""

    name = "verl"
    looks = "{step}.jsonl with 'input', 'output' and 'score' (verl)"

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the line has verl's three keys, and the line or the file's name has a step."""
        has_step = "step" in document or number_from_name(path) is not None
        return has_step and {"input", "output", "score"} <= document.keys()

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the line's only sample."""
        if "input" not in document and "output" not in document:
            raise LineError("neither 'input' nor 'output'")
        step = document["step"] if "step" in document else number_from_name(path)
        if step is None:
            raise LineError("no 'step', and the file's name is not a number")
        return [build_record(step, _fields(document), path, full=full)]


def _fields(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in document.items():
        yield _NAMES.get(key, key), value
    uid = document.get("uid")
    # Samples without a uid are grouped by their prompt.
    if isinstance(uid, str) and uid.count("_") >= 2 and "group" not in document:
        yield "group", uid.rsplit("_", 2)[0]
