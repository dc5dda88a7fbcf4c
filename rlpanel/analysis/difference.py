"""A difference between two sets of samples, and what is the same for differences of columns and of texts.

A set of samples that is compared with another one, and how many of its texts are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rlpanel.analysis.clustered_tests import TestedDifference
from rlpanel.metrics.engine.column_info import describe
from rlpanel.store.columns.related_rows import mix
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.step_metric_cache import group_keys

#: Maximum number of texts to read of a set, and of their characters together.
MAX_TEXTS, MAX_TEXT_CHARS = 4000, 3_000_000


@dataclass(frozen=True)
class ContrastSide:
    """One set of samples.

    Attributes
    ----------
    name : str
        Its name on screen, such as ``step 5``.
    index : RunIndex
    view : RunView
    rows : ndarray of int, shape (N,)
    """

    name: str
    index: RunIndex
    view: RunView
    rows: np.ndarray


#: Maximum number of uids of a difference.
MAX_UIDS = 200


@dataclass(frozen=True)
class Difference:
    """A difference between two sets of samples.

    Attributes
    ----------
    kind : str
        ``number``, ``label``, ``missing`` (values that were not logged), ``script``, ``word``, ``words`` or
        ``opening``.
    name : str
        Column, ``label = value``, script, or text.
    tested : TestedDifference
        Means or shares, effect and z.
    count_a, count_b : int
        Number of samples with the feature; of samples with a value for numbers.
    size_a, size_b : int
        Number of samples that were compared.
    where : str
        Filter expression for samples with the feature; empty if there is none.
    uids_a, uids_b : tuple of str
        Such samples of each set, at most `MAX_UIDS`.
    """

    kind: str
    name: str
    tested: TestedDifference
    count_a: int
    count_b: int
    size_a: int
    size_b: int
    where: str
    uids_a: tuple[str, ...]
    uids_b: tuple[str, ...]


@dataclass(frozen=True)
class Candidate:
    """A tested difference that may be too small to be named; ``describe`` returns it with its samples."""

    tested: TestedDifference
    describe: Callable[[], Difference]


def label_of(difference: Difference) -> str:
    """Return a difference's feature in the words of the screen."""
    if difference.kind == "number":
        return describe(difference.name).axis
    if difference.kind == "missing":
        return f"{difference.name} is missing"
    if difference.kind == "script":
        return f"share of {difference.name} letters"
    if difference.kind == "label":
        return difference.name
    verb = "begins with" if difference.kind == "opening" else "contains"
    return f"{verb} “{difference.name}”"


def ranked(differences: Sequence[Difference]) -> tuple[Difference, ...]:
    """Return differences in descending order of the size of the effect."""
    return tuple(sorted(differences, key=lambda found: -round(abs(found.tested.effect), 6)))


def group_codes(a: ContrastSide, b: ContrastSide, rows: Sequence[np.ndarray]) -> np.ndarray:
    """Return a key of each sample's group, first those of ``a``; a sample without a group is its own.

    Groups with the same prompt are one group, at whatever step and in whatever run, if prompts are logged.
    """
    keys = []
    for number, (side, part) in enumerate(zip((a, b), rows, strict=True)):
        snapshot = side.view.snapshot
        group, prompts = group_keys(snapshot, part), snapshot.has_number("prompt_chars")
        step = snapshot.metadata("step")[part].astype(np.uint64)
        key = mix(group.astype(np.uint64) ^ mix(step))
        if prompts:
            key = snapshot.prompts(part).astype(np.uint64)
        own = mix(part.astype(np.uint64) ^ np.uint64(number << 62))
        keys.append(np.where(group < 0, own, key))
    return np.concatenate(keys)
