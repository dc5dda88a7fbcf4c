"""Export one sample as a JSON line with texts, tokens and numbers, which rlpanel can read again."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from rlpanel import schema
from rlpanel.schema import Sample
from rlpanel.sources.records.embedded_media import PLAYED
from rlpanel.store.query.sample_notes import Note


def sample_line(sample: Sample, note: Note) -> bytes:
    """Return the sample as a line of JSON in rlpanel's own format.

    Besides the logged fields it has ``columns`` (all numbers, including metrics), ``extra`` (unknown keys),
    ``from`` (file, line, uid), ``tag`` and ``note``. NaN and infinities become null.
    """
    names = [field.name for field in schema.FIELDS]
    logged = {name: getattr(sample, name, None) for name in names}
    content: dict[str, Any] = {name: value for name, value in logged.items() if not _is_missing(value)}
    if sample.messages:
        content["prompt_messages"] = sample.prompt_messages
    for kind in PLAYED:
        content[f"{kind}s"] = [medium for medium in sample.media if medium["kind"] == kind]
    content |= {"policy_version": sample.policy_versions, "timing": {**sample.timing, "spans": sample.spans}}
    content = {key: value for key, value in content.items() if key not in _OPTIONAL or _holds(value)}
    content |= {"columns": sample.columns, "extra": sample.extra, "notes": sample.notes}
    content["from"] = {"file": sample.file, "line": sample.line, "uid": sample.uid}
    content |= {"tag": note.tag, "note": note.note}
    return json.dumps(to_json_types(content), ensure_ascii=False).encode("utf-8", "replace") + b"\n"


#: Fields that are left out if they are empty.
_OPTIONAL = frozenset({"messages", "policy_version", "timing", "judge", *schema.MEDIA})


def _holds(value: Any) -> bool:
    return any(value.values()) if isinstance(value, dict) else bool(value)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))


def to_json_types(value: Any) -> Any:
    """Convert a value to JSON types; NaN and infinities become None."""
    if isinstance(value, np.ndarray):
        return to_json_types(value.tolist())
    if isinstance(value, dict):
        return {str(key): to_json_types(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json_types(item) for item in value]
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value if value is None or isinstance(value, (str, int)) else str(value)
