"""A filter expression for given samples, which have nothing else in common, by their files and lines."""

from __future__ import annotations

import numpy as np

from rlpanel.store.query.filter_syntax import MAX_CHARS, quote
from rlpanel.store.snapshot.snapshot import Snapshot


def samples_filter(snapshot: Snapshot, rows: np.ndarray) -> str:
    """Return a filter for the samples at ``rows``; empty without rows, or if their lines are not known yet.

    A filter has at most `MAX_CHARS` characters, so of very many samples it passes the first ones. If a line
    holds several samples, it passes all of them.
    """
    lines, files = snapshot.lines(rows), snapshot.metadata("file")[rows]
    parts: list[str] = []
    left = MAX_CHARS
    for number in dict.fromkeys(files.tolist()):
        name = f"file == {quote(snapshot.files[number])} and " if len(snapshot.files) > 1 else ""
        left -= len(name) + len(" or (line in [])")
        listed: list[str] = []
        for line in dict.fromkeys(lines[files == number].tolist()):
            left -= len(str(line)) + 2
            if line == 0:
                return ""
            if left < 0:
                break
            listed.append(str(line))
        if listed:
            parts.append(f"{name}line in [{', '.join(listed)}]")
    return parts[0] if len(parts) == 1 else " or ".join(f"({part})" for part in parts)
