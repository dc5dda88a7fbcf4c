"""Columns with a value for each of several samples: ``gen_0``, ``gen_1``, or ``base_answer``, ``new_answer``.

A key with ``*`` inside of a name stands for all of them: ``gen_*`` for numbers, ``*_answer`` for names. Names
that share no part are joined: ``chosen+rejected``. The value of such a key is the list of theirs, so that a
record with such columns reads like a line with one group.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

#: Joins the names of columns.
PLUS = "+"
#: Words of a key that compares answers.
_BETTER = frozenset(
    {"winner", "preference", "preferred", "better", "best", "verdict", "choice", "vote", "decision", "pick"}
    | {"judgment", "judgement", "judge", "win"}
)
#: Verdicts on two answers that are equally good.
_TIE = re.compile(r"(?:tie|draw|both|equal|neither|none)(?![a-z])")
#: Longest verdict.
_VERDICT_CHARS = 40
_WORD = re.compile(r"[a-z]+|\d+")


def stands_for_columns(key: str) -> bool:
    """Return True for ``gen_*`` and ``chosen+rejected``, but not for a key that enters a list."""
    if PLUS in key and "*" not in key:
        return all(key.split(PLUS)) and len(set(key.split(PLUS))) == key.count(PLUS) + 1
    return "*" in key and "." not in key and len(key) > 1 and key.count("*") == 1


def columns_of(key: str, names: Iterable[str]) -> list[str]:
    """Return the names for which a key stands, in the order of their numbers, or of the record."""
    if "*" not in key:
        return key.split(PLUS)
    before, _, after = key.partition("*")
    if not after:
        numbers = {name: name[len(before) :] for name in names if name.startswith(before)}
        numbered = {name: int(number) for name, number in numbers.items() if _is_number(number)}
        return sorted(numbered, key=lambda name: numbered[name])
    least = len(before) + len(after)
    return [name for name in names if name.startswith(before) and name.endswith(after) and len(name) > least]


def values_of(key: str, record: Mapping[str, Any], default: Any = None) -> Any:
    """Return the list of the values for which a key stands; the default if the record has none of them."""
    values = [record.get(name) for name in columns_of(key, record)]
    return values if any(value is not None for value in values) else default


def says_better(key: str) -> bool:
    """Return True for a key whose value may say which of several answers is the best."""
    return not _BETTER.isdisjoint(_WORD.findall(key.lower()))


def wins_of(verdict: Any, columns: Sequence[str], record: Mapping[str, Any]) -> list[float] | None:
    """Return 1 for the column that a verdict names, and 0 for the others; a tie is 0.5.

    The verdict may have the part of the column's name that others lack, such as ``A`` or 2, or a value that
    the record has under another key with this part: ``model_a``. None if it names none of them.
    """
    if isinstance(verdict, bool) or not isinstance(verdict, (str, int, float)) or len(columns) < 2:
        return None
    number = int(verdict) if isinstance(verdict, float) and verdict.is_integer() else verdict
    text = str(number).strip().lower()
    words = _WORD.findall(text)
    if not 0 < len(text) <= _VERDICT_CHARS or not words:
        return None
    if _TIE.match(text):
        return [0.5] * len(columns)
    labels = _labels(columns)
    said = [label for label in labels if words[-1] == label or " ".join(words) == label]
    if not said:
        others = {key: each for key, each in record.items() if each == verdict and key not in columns}
        said = [
            label for label in labels if any(_WORD.findall(key.lower())[-1:] == [label] for key in others)
        ]
    return [float(label == said[0]) for label in labels] if len(said) == 1 else None


def _labels(columns: Sequence[str]) -> list[str]:
    """Return the parts of names that the others lack."""
    words = [_WORD.findall(name.lower()) for name in columns]
    shared = set(words[0]).intersection(*words[1:])
    return [" ".join(word for word in each if word not in shared) for each in words]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 4
