"""A text that is logged in pieces, as a stream gave it: ``["We", " can", " add", ...]``.

A list of answers is not: its items are longer, and all or none of them begin with a space.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: Fewest pieces of a text, most pieces that are looked at, and most characters of a piece in the mean.
_MIN_PIECES, _MAX_SEEN, _MEAN_CHARS = 30, 400, 8.0
#: Least and greatest share of the pieces that begin with a space.
_MIN_SPACED, _MAX_SPACED = 0.2, 0.95


def are_pieces(values: Sequence[Any]) -> bool:
    """Return True for a list of the pieces of one text."""
    if len(values) < _MIN_PIECES:
        return False
    seen = list(values[:_MAX_SEEN])
    if not all(isinstance(piece, str) for piece in seen):
        return False
    spaced = sum(piece[:1].isspace() for piece in seen) / len(seen)
    has_marks = any(piece.strip() and not any(map(str.isalnum, piece)) for piece in seen)
    is_short = sum(map(len, seen)) <= _MEAN_CHARS * len(seen)
    return is_short and has_marks and _MIN_SPACED <= spaced <= _MAX_SPACED
