"""Recognises the share of solved tasks so far, which some programs write into each record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from rlpanel.sources.inference.aliases import fields_of

#: Fewest records, and fewest of them with a verdict of their own.
_MIN_RECORDS, _MIN_VERDICTS = 5, 3
#: Largest error of a rounded mean, times the number of records: more would hide a single verdict.
_MAX_ERROR = 0.25
#: Most decimals of a mean.
_DECIMALS = 12


def running_means(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the keys that hold a mean so far, each with the key of the verdicts whose mean it is.

    The records are the first ones of a file, in their order. Some may lack the verdict.
    """
    means: dict[str, str] = {}
    if len(records) < _MIN_RECORDS:
        return means
    rewards = [key for key in records[0] if "reward" in fields_of(key)]
    verdicts = dict.fromkeys(key for record in records for key in record if "reward" in fields_of(key))
    for key in rewards:
        added = _added([record.get(key) for record in records])
        for other in verdicts if added else ():
            pairs = [
                (record[other], each)
                for record, each in zip(records, added, strict=True)
                if isinstance(record.get(other), (bool, int)) and other != key
            ]
            if len(pairs) >= _MIN_VERDICTS and all(verdict == each for verdict, each in pairs):
                means[key] = other
    return means


def _added(values: Sequence[Any]) -> list[int]:
    """Return what each record adds to the sum of 0 and 1 whose mean the values are; none for others."""
    if not all(isinstance(value, float) and 0.0 <= value <= 1.0 for value in values):
        return []
    if all(value in (0.0, 1.0) for value in values):
        return []
    decimals = max(len(repr(value).partition(".")[2]) for value in values)
    error = 0.5 * 10.0 ** -min(decimals, _DECIMALS)
    if error * len(values) > _MAX_ERROR:
        return []
    sums = [value * count for count, value in enumerate(values, 1)]
    whole = [round(each) for each in sums]
    if any(abs(each - number) > error * len(values) for each, number in zip(sums, whole, strict=True)):
        return []
    added = [after - before for before, after in pairwise([0, *whole])]
    return added if set(added) <= {0, 1} else []
