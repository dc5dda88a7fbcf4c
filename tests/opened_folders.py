"""Opens a folder without an option, and gives what its samples hold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import rlpanel

_MAPPED = re.compile(r"--map (\S+)")


def samples(folder: Path, *columns: str) -> list[tuple[Any, ...]]:
    """Return some columns of all samples, by default prompt, response and reward; missing values are None."""
    with rlpanel.open_run(folder, follow=False) as run:
        shown = run.samples(text=True).reindex(columns=[*(columns or ("prompt", "response", "reward"))])
    return [tuple(row) for row in shown.astype(object).where(shown.notna(), None).values.tolist()]


def proposed(message: str) -> str:
    """Return the mapping of the command that a message prints."""
    found = _MAPPED.search(message)
    assert found is not None, message
    return found[1].strip("'")


def write_lines(folder: Path, records: Iterable[Mapping[str, Any]], name: str = "log.jsonl") -> Path:
    """Write records as lines; return the folder."""
    (folder / name).write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder
