"""Differences between two sets of samples: numbers, labels, scripts, words, sequences and openings.

The sets may be of one run or of two. Numbers and labels use all samples (`column_contrast`); texts are read
(`text_contrast`). A difference is named if its z reaches the threshold for the number of things tried
(`rlpanel.analysis.clustered_tests`), and if it is at least `MIN_EFFECT` standard deviations. Columns and
texts are two families of tests, each with a chance of `CHANCE` to name anything where there is no difference.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rlpanel.analysis.clustered_tests import MIN_EFFECT, threshold
from rlpanel.analysis.column_contrast import ColumnTests
from rlpanel.analysis.difference import MAX_TEXTS, Candidate, ContrastSide, Difference, ranked
from rlpanel.analysis.text_contrast import TextTests, rows_to_read
from rlpanel.errors import SettingError


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
    corpus = TextTests(a, b, chosen)
    for read in corpus.read():
        yield replace(started, texts_read=read)
    candidates += corpus.scripts()
    features, tried = corpus.features()
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
