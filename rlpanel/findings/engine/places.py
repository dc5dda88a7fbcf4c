"""Places in which a problem may hold: the whole run, each rank, and each category of each label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlpanel.findings.engine.row_batch import RowBatch
from rlpanel.store.query.filter_syntax import quote

#: A label with more values than this is an identifier, not a category.
_MAX_VALUES = 20
#: Most labels whose values are tried.
_MAX_LABELS = 6
#: Labels that are a result or describe the logging, and do not say where a sample comes from.
_NO_CATEGORY = frozenset({"group", "finish_reason", "split", "status", "stop_reason", "answer", "response"})
#: Dimension of the whole run, and of the ranks.
WHOLE, RANK = "", "rank"


@dataclass(frozen=True)
class Place:
    """A part of the samples.

    Attributes
    ----------
    dimension : str
        Empty for the whole run, ``rank``, or the name of a label.
    value : str
        The rank or the label's value; empty for the whole run.
    """

    dimension: str = WHOLE
    value: str = ""

    def __bool__(self) -> bool:
        return self.dimension != WHOLE

    @property
    def rank(self) -> int | None:
        """The rank; None if the place is none."""
        return int(self.value) if self.dimension == RANK else None

    @property
    def category(self) -> str:
        """The category, such as ``lang = zh``; empty if the place is none."""
        return f"{self.dimension} = {self.value}" if self.dimension not in {WHOLE, RANK} else ""

    @property
    def text(self) -> str:
        """The place in words: ``rank 1`` or ``lang = zh``; empty for the whole run."""
        return f"rank {self.value}" if self.dimension == RANK else self.category

    @property
    def where(self) -> str:
        """Filter expression for its samples; empty for the whole run, or if the name has no expression."""
        if self.dimension == RANK:
            return f"rank == {self.value}"
        if not self.dimension or "`" in self.dimension:
            return ""
        name = self.dimension if self.dimension.isidentifier() else f"`{self.dimension}`"
        return f"{name} == {quote(self.value)}"


#: The place that has all samples.
WHOLE_RUN = Place()


def places_of(rows: RowBatch) -> tuple[Place, ...]:
    """Return the whole run, its ranks if there are several, and its categories, from all rows of a run."""
    found = [WHOLE_RUN]
    ranks = np.unique(rows.metadata("rank"))
    if len(ranks) > 1:
        found += [Place(RANK, str(rank)) for rank in ranks.tolist()]
    snapshot = rows.view.snapshot
    labels = 0
    for name in snapshot.labels:
        if name in _NO_CATEGORY or labels == _MAX_LABELS:
            continue
        codes, names = snapshot.label_codes(name)
        counts = np.bincount(codes[rows.rows] + 1, minlength=len(names) + 1)[1:]
        used = np.flatnonzero(counts)
        if 2 <= len(used) <= _MAX_VALUES:
            found += [Place(name, names[code]) for code in used.tolist()]
            labels += 1
    return tuple(found)


def rows_by_dimension(places: Sequence[Place]) -> dict[str, np.ndarray]:
    """Return the positions of the places of each dimension."""
    names = np.array([place.dimension for place in places])
    return {name: np.flatnonzero(names == name) for name in dict.fromkeys(names.tolist())}


def codes_of(rows: RowBatch, places: Sequence[Place]) -> np.ndarray:
    """Return the position in ``places`` of each row's place, shape (N,); -1 for another one or none.

    The places belong to one dimension.
    """
    dimension = places[0].dimension
    if dimension == WHOLE:
        return np.zeros(len(rows), np.int64)
    if dimension == RANK:
        ranks = np.array([int(place.value) for place in places])
        codes = np.searchsorted(ranks, rows.metadata("rank")).clip(max=len(ranks) - 1)
        return np.where(ranks[codes] == rows.metadata("rank"), codes, -1)
    logged, names = rows.view.snapshot.label_codes(dimension)
    position = {place.value: code for code, place in enumerate(places)}
    table = np.array([*(position.get(name, -1) for name in names), -1])
    return table[logged[rows.rows]]
