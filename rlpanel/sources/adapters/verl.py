"""Reads verl's ``{step}.jsonl`` in ``trainer.rollout_data_dir`` or ``trainer.validation_data_dir``.

One line per sample; the file is written in one go, and again by a resumed run. The V1 trainer's ``uid`` is
``{prompt}_{session}_{turn}``; a session is an episode, whose outputs are the turns. The older trainer writes
no uid, but every reward-extra key. Token arrays are not logged.

The V1 trainer appends rows with reward 0 to fill a batch. They are not samples, and only their uid shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.path_numbers import number_from_name, step_from_path
from rlpanel.sources.records.record_types import FlatFormat, Record

_NAMES = {"input": "prompt", "output": "response", "gts": "ground_truth", "score": "reward"}
#: Most digits of a session's and a turn's number.
_MAX_DIGITS = 15
#: Uid of a row that fills a batch: "pad" and 32 hexadecimal digits in place of the prompt, and turn 0.
_PADDING = re.compile(r"pad[0-9a-f]{32}_\d+_0", re.ASCII)


def _sample_of(uid: Any) -> dict[str, Any]:
    """Return the fields in V1's uid; empty for another uid: the prompt is the group then."""
    # Split at underscores, since a regular expression takes longer. A prompt may contain some, too.
    parts = uid.rsplit("_", 2) if isinstance(uid, str) else ()
    if len(parts) != 3:
        return {}
    prompt, session, turn = parts
    if not (prompt and session.isdecimal() and turn.isdecimal() and (session + turn).isascii()):
        return {}
    if len(session) > _MAX_DIGITS or len(turn) > _MAX_DIGITS:
        return {}
    return {
        "group": prompt, "episode": f"{prompt}_{session}", "rollout_session": int(session), "turn": int(turn)
    }  # fmt: skip


def _is_padding(uid: Any) -> bool:
    """Return True for the uid of a row that fills a batch."""
    return isinstance(uid, str) and uid.startswith("pad") and _PADDING.fullmatch(uid) is not None


def _complete(document: dict[str, Any]) -> bool:
    """Add the fields in the uid; see `rlpanel.sources.records.record_types.FlatFormat`."""
    uid = document.get("uid")
    if _is_padding(uid):
        return False
    fields = _sample_of(uid)
    for name in fields:
        if name not in document:
            document[name] = fields[name]
    return True


def _step_of(path: str) -> int | None:
    """Return the step that a file is named after, or else a folder of a log that is like verl's."""
    named = number_from_name(path)
    return step_from_path(path) if named is None else named


class Verl:
    """Adapter for verl's rollout and validation dumps."""

    name = "verl"
    looks = "{step}.jsonl with 'input', 'output' and 'score' (verl)"
    flat_format = FlatFormat(_NAMES, _step_of, _complete, ("uid",))

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the line has verl's three keys, and the line or the file's name has a step."""
        has_step = "step" in document or _step_of(path) is not None
        return has_step and {"input", "output", "score"} <= document.keys()

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the line's only sample; a row that fills a batch has none."""
        if "input" not in document and "output" not in document:
            raise LineError("neither 'input' nor 'output'")
        step = document["step"] if "step" in document else _step_of(path)
        if step is None:
            raise LineError("no 'step', and the file's path names none")
        if _is_padding(document.get("uid")):
            return []
        return [build_record(step, _fields(document), path, full=full)]


def _fields(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in document.items():
        yield _NAMES.get(key, key), value
    for name, value in _sample_of(document.get("uid")).items():
        if name not in document:
            yield name, value
