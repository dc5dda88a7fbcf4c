"""Tests of the scripts, words, sequences and openings of the responses of two sets of samples.

Texts are read, so of a larger set only a fixed choice of responses is used (`contrast_side.MAX_TEXTS`),
fewer if they are long. Of words in nearly the same responses, one is named.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from rlpanel.analysis.clustered_tests import (
    MIN_EFFECT,
    TestedDifference,
    TwoSets,
    likelihood_root,
    share_spread,
    threshold,
)
from rlpanel.analysis.difference import (
    MAX_TEXT_CHARS,
    MAX_UIDS,
    Candidate,
    ContrastSide,
    Difference,
    group_codes,
)
from rlpanel.analysis.text_features import MAX_CHARS, FeatureFamily, TextFeatures, place_of
from rlpanel.store.query.fetch_sample import fetch_many_texts, file_order
from rlpanel.store.query.filter_syntax import quote

#: Maximum number of named features of texts.
MAX_FEATURES = 40
#: Features whose texts have this correlation are named once.
SAME_TEXTS = 0.8
#: Seconds between two progress results.
PULSE = 0.25


def rows_to_read(side: ContrastSide, most: int) -> np.ndarray:
    """Return the rows whose responses are read, in the order of the files."""
    snapshot = side.view.snapshot
    if not snapshot.has_number("response_chars") or not most:
        return np.empty(0, np.int64)
    lengths = snapshot.number("response_chars")[side.rows]
    lengths = np.minimum(lengths[np.isfinite(lengths)], MAX_CHARS)
    within = int(MAX_TEXT_CHARS / max(float(lengths.mean()), 1.0)) if len(lengths) else most
    rows = snapshot.sample_rows(np.sort(side.rows), min(most, within))
    return rows[file_order(snapshot, rows)]


class TextTests:
    """The responses of two sets, and the tests of their features."""

    def __init__(self, a: ContrastSide, b: ContrastSide, rows: Sequence[np.ndarray]) -> None:
        self._sides, self._rows = (a, b), rows
        self._words = TextFeatures()
        self._read: list[list[int]] = [[], []]
        self._sets = TwoSets(np.empty(0, bool), np.empty(0, np.int64))

    def read(self) -> Iterator[int]:
        """Read the texts, and yield from time to time how many were read."""
        last_yield, done = time.monotonic(), 0
        for side, rows, read in zip(self._sides, self._rows, self._read, strict=True):
            responses = _responses(side, rows)
            for row, response in zip(rows.tolist(), responses, strict=True):
                done += 1
                if response is not None:
                    self._words.add(response)
                    read.append(row)
                if time.monotonic() - last_yield > PULSE:
                    last_yield = time.monotonic()
                    yield done
        parts = [np.array(read, np.int64) for read in self._read]
        in_a = np.repeat([True, False], [len(part) for part in parts])
        self._sets = TwoSets(in_a, group_codes(*self._sides, parts))

    def scripts(self) -> list[Candidate]:
        """Return the tested differences of the scripts' shares in the letters of a response."""
        found = []
        for name, shares in self._words.script_shares().items():
            tested = self._sets.test_mean(shares)
            if tested is not None:
                mostly = np.flatnonzero(shares > 0.5)
                found.append(Candidate(tested, partial(self._difference, "script", name, tested, mostly)))
        return found

    def features(self) -> tuple[list[Difference], int]:
        """Return the named features of the texts, and how many were tried."""
        count_a, count_b = self._sets.sizes
        if min(count_a, count_b) == 0:
            return [], 0
        families = list(self._words.families())
        tried = sum(map(len, families))
        least = threshold(tried)
        found = [
            (abs(root), family, feature)
            for family in families
            for feature, root in self._large(family, least)
        ]
        found.sort(key=lambda item: (-item[0], -item[1].size_of(item[2])))
        return self._distinct([(family, feature) for _, family, feature in found], least), tried

    def _large(self, family: FeatureFamily, least: float) -> list[tuple[int, float]]:
        """Return the features whose difference is large if groups are ignored, with their roots."""
        count_a, count_b = self._sets.sizes
        with_a = np.bincount(family.feature, self._sets.in_a[family.text], len(family))
        with_b = np.bincount(family.feature, minlength=len(family)) - with_a
        roots = likelihood_root(with_a, count_a, with_b, count_b)
        shares = with_a / count_a, with_b / count_b
        effects = (shares[0] - shares[1]) / share_spread(*shares)
        large = np.flatnonzero((np.abs(roots) >= least) & (np.abs(effects) >= MIN_EFFECT))
        return list(zip(large.tolist(), roots[large].tolist(), strict=True))

    def _distinct(self, found: Sequence[tuple[FeatureFamily, int]], least: float) -> list[Difference]:
        """Return the features that differ with groups, too, and that are not the same texts as another."""
        kept: list[Difference] = []
        masks = np.zeros((MAX_FEATURES, len(self._sets)), bool)
        for family, feature in found:
            if len(kept) == MAX_FEATURES:
                break
            texts = family.texts_of(feature)
            if (_phi(masks[: len(kept)], texts) >= SAME_TEXTS).any():
                continue
            mask = masks[len(kept)]
            mask[texts] = True
            tested = self._sets.test_share(mask)
            if tested is not None and abs(tested.z) >= least and abs(tested.effect) >= MIN_EFFECT:
                kept.append(self._difference(family.kind, "", tested, texts, family.key(feature)))
            else:
                mask[:] = False
        return kept

    def _difference(
        self,
        kind: str,
        name: str,
        tested: TestedDifference,
        texts: np.ndarray,
        key: tuple[str, ...] = (),
    ) -> Difference:
        """Return a difference with the samples of these texts; its name is the text of the first one."""
        in_a = self._sets.in_a[texts]
        positions = texts[in_a], texts[~in_a] - self._sets.sizes[0]
        rows = [np.array(read, np.int64)[part] for read, part in zip(self._read, positions, strict=True)]
        where = ""
        if key:
            name, where = self._shown(kind, key, rows)
        uids = [
            tuple(side.view.snapshot.uids(part[:MAX_UIDS]))
            for side, part in zip(self._sides, rows, strict=True)
        ]
        counts, (size_a, size_b) = [len(part) for part in rows], self._sets.sizes
        return Difference(kind, name, tested, counts[0], counts[1], size_a, size_b, where, uids[0], uids[1])

    def _shown(self, kind: str, key: tuple[str, ...], rows: Sequence[np.ndarray]) -> tuple[str, str]:
        """Return a feature as a response has it, and the filter for it; words joined by spaces otherwise."""
        which = 0 if len(rows[0]) else 1
        text = next(_responses(self._sides[which], rows[which][:1]))
        place = place_of(text, key) if text is not None else None
        if text is None or place is None:
            return " ".join(key), ""
        start, end = place
        if kind == "opening":
            return text[start:end], f"response startswith {quote(text[:end])}"
        return text[start:end], f"response contains {quote(text[start:end])}"


def _responses(side: ContrastSide, rows: np.ndarray) -> Iterator[str | None]:
    """Yield the responses of rows; None if a row has none or cannot be read."""
    for texts in fetch_many_texts(side.index, side.view.snapshot, rows):
        yield None if texts is None else texts.get("response")


def _phi(masks: np.ndarray, texts: np.ndarray) -> np.ndarray:
    """Return the correlation of masks, shape (K, N), with the mask of these indices, shape (K,)."""
    count, size = masks.shape[1], len(texts)
    sizes = masks.sum(axis=1)
    both = masks[:, texts].sum(axis=1)
    scale = np.sqrt(float(size) * (count - size) * sizes * (count - sizes))
    return (count * both - size * sizes) / np.maximum(scale, 1e-12)
