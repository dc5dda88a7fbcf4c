"""Differences between two sets of samples: numbers, labels, scripts, words, sequences and openings.

The sets may be of one run or of two. Numbers and labels use all samples; texts are read (`text_features`). A
difference is named if its z reaches the threshold for the number of things tried (`difference`), and if it is
at least `MIN_EFFECT` standard deviations. Columns and texts are two families of tests, each with a chance of
`CHANCE` to name anything where there is no difference.

Columns that follow from others of the group, and those that only count steps or time, are left out. Of
columns that are nearly the same, one is named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from rlpanel.analysis.difference import (
    MAX_TEXTS,
    MAX_UIDS,
    MIN_EFFECT,
    Candidate,
    ContrastSide,
    Difference,
    TestedDifference,
    TwoSets,
    group_codes,
    ranked,
    threshold,
)
from rlpanel.analysis.text_features import read_tests, rows_to_read
from rlpanel.errors import SettingError
from rlpanel.store.columns.splits import SPLIT_COLUMN
from rlpanel.store.query.filter_columns import label_name
from rlpanel.store.query.filter_syntax import quote
from rlpanel.store.snapshot.run_view import RunView

#: Labels with more values are identifiers.
MAX_VALUES = 50
#: Columns whose values have this correlation are named once.
SAME_VALUES = 0.99
#: Over this many steps, a column counts steps or time if its ranges at the steps are in order and disjoint.
MIN_STEPS = 5
#: Labels that are not compared.
_NO_LABEL = frozenset({"group", SPLIT_COLUMN})


class ColumnTests:
    """Tests of all numbers and labels that both sets have."""

    def __init__(self, a: ContrastSide, b: ContrastSide, exclude: Collection[str]) -> None:
        self._sides = (a, b)
        self._exclude = frozenset(exclude)
        rows = [a.rows, b.rows]
        in_a = np.repeat([True, False], [len(part) for part in rows])
        self._sets = TwoSets(in_a, group_codes(a, b, rows))

    def candidates(self) -> Iterator[Candidate]:
        """Yield every tested difference, whether it is large or not."""
        a, b = self._sides
        others = set(_numbers(b.view)) - self._exclude
        for name in _numbers(a.view):
            if name not in others:
                continue
            values = self._values(name)
            # The first test is quick, and without any difference there is nothing to name.
            if values.min() != values.max() and not self._counts_steps(name):
                yield from self._number(name, values)
        for name, codes, texts in self._labels():
            yield from self._label(name, codes, texts)

    def distinct(self, differences: Sequence[Difference]) -> list[Difference]:
        """Return the differences without columns that are nearly the same as one with a larger effect."""
        kept: list[Difference] = []
        columns: list[np.ndarray] = []
        for found in ranked(differences):
            if found.kind == "number":
                values = self._values(found.name)
                if any(abs(_correlation(values, other)) >= SAME_VALUES for other in columns):
                    continue
                columns.append(values)
            kept.append(found)
        return kept

    def _values(self, name: str) -> np.ndarray:
        return np.concatenate([side.view.counted(name, side.rows) for side in self._sides])

    def _counts_steps(self, name: str) -> bool:
        """Return True if a column rises or falls with the step alone, like a time or a learning rate."""
        for side in self._sides:
            steps = side.view.snapshot.steps
            if len(steps.values) < MIN_STEPS or not steps.is_ordered(name):
                return False
            if np.ptp(steps.mean(name)) == 0:
                return False
        return True

    def _number(self, name: str, values: np.ndarray) -> Iterator[Candidate]:
        finite = np.isfinite(values)
        if not finite.all() and finite.any():
            missing = self._sets.test_share(~finite)
            if missing is not None:
                yield self._share("missing", name, missing, ~finite, f"missing(`{name}`)")
        tested = self._sets.test_mean(values)
        if tested is not None:
            yield Candidate(tested, partial(self._mean, name, tested))

    def _mean(self, name: str, tested: TestedDifference) -> Difference:
        """Return the difference of a number, whose values are looked up again rather than kept."""
        values = self._values(name)
        finite = np.isfinite(values)
        middle = (tested.a + tested.b) / 2
        sign = ">" if tested.a > tested.b else "<"
        distance = np.where(finite, values - middle, -np.inf) * (1 if sign == ">" else -1)
        found = self._difference(
            "number", name, tested, finite & (distance > 0), f"`{name}` {sign} {middle:.6g}", distance
        )
        counts = (int(np.count_nonzero(finite & side)) for side in (self._sets.in_a, ~self._sets.in_a))
        return replace(found, count_a=next(counts), count_b=next(counts))

    def _labels(self) -> Iterator[tuple[str, np.ndarray, list[str]]]:
        """Yield name, codes and values of each label, with the codes of both sets made the same."""
        ranks = np.concatenate([side.view.snapshot.metadata("rank")[side.rows] for side in self._sides])
        values, codes = np.unique(ranks, return_inverse=True)
        if 1 < len(values) <= MAX_VALUES and "rank" not in self._exclude:
            yield "rank", codes, [str(value) for value in values.tolist()]
        first, second = (side.view.snapshot for side in self._sides)
        for name in first.labels:
            column = label_name(first, name)
            if name in second.labels and name not in _NO_LABEL and column not in self._exclude:
                found = self._shared_codes(name)
                if found is not None:
                    yield column, *found

    def _shared_codes(self, name: str) -> tuple[np.ndarray, list[str]] | None:
        """Return the codes of both sets and the values; None if there is one value, or too many."""
        numbers: dict[str, int] = {}
        parts = []
        for side in self._sides:
            codes, texts = side.view.snapshot.label_codes(name)
            seen, codes = np.unique(codes[side.rows], return_inverse=True)
            if len(seen) > MAX_VALUES:
                return None
            shared = [numbers.setdefault(texts[at], len(numbers)) if at >= 0 else -1 for at in seen.tolist()]
            parts.append(np.array(shared, np.int64)[codes])
        codes = np.concatenate(parts)
        several = len(numbers) + int((codes < 0).any()) > 1
        return (codes, list(numbers)) if several and len(numbers) <= MAX_VALUES else None

    def _label(self, name: str, codes: np.ndarray, texts: list[str]) -> Iterator[Candidate]:
        for code, text in enumerate(texts):
            tested = self._sets.test_share(codes == code)
            if tested is not None:
                where = f"rank == {text}" if name == "rank" else f"`{name}` == {quote(text)}"
                yield self._share("label", f"{name} = {text}", tested, codes == code, where)
        if (codes < 0).any() and (tested := self._sets.test_share(codes < 0)) is not None:
            yield self._share("missing", name, tested, codes < 0, f"missing(`{name}`)")

    def _share(
        self, kind: str, name: str, tested: TestedDifference, feature: np.ndarray, where: str
    ) -> Candidate:
        return Candidate(tested, partial(self._difference, kind, name, tested, feature, where))

    def _difference(
        self,
        kind: str,
        name: str,
        tested: TestedDifference,
        feature: np.ndarray,
        where: str,
        order: np.ndarray | None = None,
    ) -> Difference:
        """Return the difference with samples that have the feature, by descending ``order``."""
        sides = np.split(feature, [len(self._sides[0].rows)])
        orders = np.split(order, [len(self._sides[0].rows)]) if order is not None else (None, None)
        uids = [
            _uids(side, largest_first(np.flatnonzero(mask), part))
            for side, mask, part in zip(self._sides, sides, orders, strict=True)
        ]
        counts = [int(np.count_nonzero(mask)) for mask in sides]
        size_a, size_b = self._sets.sizes
        return Difference(kind, name, tested, counts[0], counts[1], size_a, size_b, where, uids[0], uids[1])


def largest_first(positions: np.ndarray, order: np.ndarray | None) -> np.ndarray:
    """Return the first positions, or those with the largest values."""
    if order is None or len(positions) <= 1:
        return positions[:MAX_UIDS]
    if len(positions) > MAX_UIDS:  # most are left out before the rest is sorted, also of equal values
        values = order[positions]
        positions = positions[values >= np.partition(values, -MAX_UIDS)[-MAX_UIDS]]
    return positions[np.argsort(-order[positions], kind="stable")[:MAX_UIDS]]


def _uids(side: ContrastSide, positions: np.ndarray) -> tuple[str, ...]:
    return tuple(side.view.snapshot.uids(side.rows[positions]))


def _numbers(view: RunView) -> list[str]:
    """Return the number columns to compare."""
    return [name for name in view.snapshot.numbers if view.snapshot.has_number(name)]


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Return the correlation of two columns where both are finite; 0 if one of them is constant there."""
    a, b = a.astype(float), b.astype(float)
    both = np.isfinite(a) & np.isfinite(b)
    a, b = a[both], b[both]
    if len(a) < 2:
        return 0.0
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a * a).sum() * (b * b).sum()))  # a @ b would wake a thread per core
    return float((a * b).sum()) / scale if scale > 0 else 0.0


@dataclass(frozen=True)
class Contrast:
    """The differences between two sets so far.

    Attributes
    ----------
    a, b : ContrastSide
    differences : tuple of Difference
        In descending order of the size of the effect.
    texts_read, texts_total : int
        Number of texts that were read, and to read.
    columns_tried, features_tried : int
        Number of tests of numbers, labels and scripts, and of words, sequences and openings.
    complete : bool
    """

    a: ContrastSide
    b: ContrastSide
    differences: tuple[Difference, ...]
    texts_read: int = 0
    texts_total: int = 0
    columns_tried: int = 0
    features_tried: int = 0
    complete: bool = False

    @property
    def is_sampled(self) -> bool:
        """True if the texts of only some samples are used."""
        return self.texts_total < len(self.a.rows) + len(self.b.rows)


def contrast(
    a: ContrastSide, b: ContrastSide, *, exclude: Collection[str] = (), texts: int = MAX_TEXTS
) -> Iterator[Contrast]:
    """Compare two sets of samples; yield the columns first, then progress, and last everything.

    Parameters
    ----------
    a, b : ContrastSide
        Samples of both sets count as samples of ``a`` only.
    exclude : collection of str
        Columns not to compare, such as those by which ``a`` was chosen.
    texts : int
        Maximum number of texts to read of each set; 0 for none.

    Raises
    ------
    SettingError
        If one of the sets is empty.
    """
    if a.index is b.index:
        b = replace(b, rows=np.setdiff1d(b.rows, a.rows))
    for side in (a, b):
        if not len(side.rows):
            raise SettingError(f"{side.name} has no samples to compare")
    columns = ColumnTests(a, b, exclude)
    candidates = list(columns.candidates())
    chosen = [rows_to_read(side, texts) for side in (a, b)]
    started = Contrast(
        a,
        b,
        ranked(columns.distinct(_passing(candidates))),
        texts_total=sum(map(len, chosen)),
        columns_tried=len(candidates),
    )
    yield started
    corpus = read_tests(a, b, chosen)
    for read in corpus.read():
        yield replace(started, texts_read=read)
    candidates += corpus.of["response"].scripts()
    features: list[Difference] = []
    tried = 0
    for tests in corpus.of.values():
        found, count = tests.features()
        features, tried = [*features, *found], tried + count
    yield replace(
        started,
        differences=ranked([*columns.distinct(_passing(candidates)), *features]),
        texts_read=started.texts_total,
        columns_tried=len(candidates),
        features_tried=tried,
        complete=True,
    )


def _passing(candidates: Sequence[Candidate]) -> list[Difference]:
    """Return the differences that are large enough, for this number of candidates."""
    least = threshold(len(candidates))
    return [
        found.describe()
        for found in candidates
        if abs(found.tested.z) >= least and abs(found.tested.effect) >= MIN_EFFECT
    ]
