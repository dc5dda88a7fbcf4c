"""One sample as a line to take away: texts, tokens, numbers; a line that rlpanel reads again."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from rlpanel import schema
from rlpanel.schema import Sample
from rlpanel.store.query.notes import Note


def sample_line(sample: Sample, note: Note) -> bytes:
    """The sample as a line of JSON in rlpanel's own dialect.

    Beside what was logged stand ``columns`` (all its numbers, metrics too), ``extra`` (keys without a
    name here), ``from`` (file, line, uid) and ``tag`` and ``note``. NaN and infinities become null.
    """
    names = [field.name for field in schema.FIELDS]
    logged = {name: getattr(sample, name, None) for name in names}
    whole: dict[str, Any] = {name: value for name, value in logged.items() if not _absent(value)}
    whole |= {"columns": sample.columns, "extra": sample.extra, "notes": sample.notes}
    whole["from"] = {"file": sample.file, "line": sample.line, "uid": sample.uid}
    whole |= {"tag": note.tag, "note": note.note}
    return json.dumps(plain(whole), ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _absent(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))


def plain(value: Any) -> Any:
    """A value in JSON's own kinds; NaN and infinities are null there."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value if value is None or isinstance(value, (str, int)) else str(value)
