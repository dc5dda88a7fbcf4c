"""Samples that a document keeps by step: ``{"step_0": [samples], "step_10": [samples]}``.

The function `arrange_by_step` gives each sample its step, and puts all below the key ``by_step``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from rlpanel.sources.records.json_parser import to_python

#: Key of the samples, and the part of a mapped key that leads to them.
BY_STEP = "by_step"
PREFIX = f"{BY_STEP}.*."
_WORDS = "(?:global|train|training|policy)?_?(?:step|iter|iteration|update|checkpoint|ckpt|epoch)"
_NAMED = re.compile(rf"{_WORDS}[ _=-]?(\d{{1,12}})", re.IGNORECASE)
_BARE = re.compile(r"0|[1-9]\d{0,11}", re.ASCII)
#: Keys of an object whose keys are steps.
_OF_STEPS = re.compile(rf"(?:by_|per_)?{_WORDS}s?", re.IGNORECASE)
#: Least number that divides all steps where nothing but numbers says that they are steps.
_MIN_DISTANCE = 5


def arrange_by_step(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a document with one list of samples, each with its step; None if it keeps none by step.

    Numbers alone are steps if they rise in distances of 5 or more and the samples below them do not share a
    text: then they number questions.
    """
    for key, value in [("", document), *document.items()]:
        by_key = to_python(value) if key else dict(document)
        if not isinstance(by_key, dict) or len(by_key) <= 1:
            continue
        steps = _steps_of(list(by_key), key)
        lists = [_samples_of(to_python(each)) for each in by_key.values()] if steps else []
        if not steps or not all(lists) or max(map(len, lists)) <= 1:
            continue
        if any("step" in sample for samples in lists for sample in samples):
            continue
        if any(map(_BARE.fullmatch, by_key)) and _share_a_text(lists):
            continue
        others = {other: each for other, each in document.items() if key and other != key}
        samples = [
            {**sample, "step": step} for step, samples in zip(steps, lists, strict=True) for sample in samples
        ]
        return {**others, BY_STEP: samples}
    return None


def are_numbers_of_lists(values: Mapping[str, Any]) -> bool:
    """Return True for lists under 0, 1, 2 and so on: steps, attempts or questions."""
    return (
        len(values) > 1
        and list(values) in ([str(at + first) for at in range(len(values))] for first in (0, 1))
        and all(isinstance(value, list) for value in values.values())
    )


def _steps_of(keys: Sequence[str], around: str) -> list[int]:
    """Return the steps that all keys name, in rising order; none if they do not."""
    named = [_NAMED.fullmatch(key) for key in keys]
    if all(named):
        steps = [int(match[1]) for match in named if match is not None]
    elif all(map(_BARE.fullmatch, keys)):
        steps = [int(key) for key in keys]
        if math.gcd(*steps) < _MIN_DISTANCE and not _OF_STEPS.fullmatch(around):
            return []
    else:
        return []
    return steps if all(before < after for before, after in pairwise(steps)) else []


def _samples_of(value: Any) -> list[dict[str, Any]]:
    """Return a list of objects, or the only one in an object; empty for any other value."""
    if isinstance(value, dict):
        lists = [each for each in value.values() if isinstance(each, list)]
        value = lists[0] if len(lists) == 1 else []
    return value if isinstance(value, list) and all(isinstance(each, dict) for each in value) else []


def _share_a_text(lists: Sequence[Sequence[Mapping[str, Any]]]) -> bool:
    """Return True if a key has one text in each list, and different ones in different lists."""
    for key in lists[0][0]:
        texts = [{str(each.get(key)) for each in samples} for samples in lists]
        is_text = isinstance(lists[0][0][key], str)
        if is_text and all(len(each) == 1 for each in texts) and len(set().union(*texts)) == len(lists):
            return True
    return False
