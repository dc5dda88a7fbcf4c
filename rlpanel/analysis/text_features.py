"""Features of response texts, and their differences between two sets of samples.

A feature is a word, a sequence of two or three words, an opening or a script. A word is a run of letters and
digits in lower case, a single Chinese, Japanese or Korean character, a single punctuation mark, or a special
token such as ``<|im_start|>``.

Texts are read, so of a larger set only a fixed choice of responses is used (`difference.MAX_TEXTS`), fewer if
they are long. Of words in nearly the same responses, one is named.
"""

from __future__ import annotations

import itertools
import re
import time
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from rlpanel.analysis.difference import (
    MAX_TEXT_CHARS,
    MAX_UIDS,
    MIN_EFFECT,
    Candidate,
    ContrastSide,
    Difference,
    TestedDifference,
    TwoSets,
    group_codes,
    likelihood_root,
    share_spread,
    threshold,
)
from rlpanel.metrics.scripts import SCRIPTS, script_counts
from rlpanel.store.query.fetch_sample import fetch_many_texts, file_order
from rlpanel.store.query.filter_syntax import quote

#: Only the first characters of a text are used.
MAX_CHARS = 2000
#: Features of fewer texts are not tested.
MIN_TEXTS = 5
#: Most words of an opening.
OPENING = 4

_WORD = re.compile(
    r"<\|[^|<>\s]{1,40}\|>|</?[A-Za-z_]{1,20}>"
    r"|[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff]"
    r"|[^\W_]+(?:['’][^\W_]+)*|[^\w\s]|_"
)


@dataclass(frozen=True)
class FeatureFamily:
    """Features of one kind, and the texts that have them.

    Attributes
    ----------
    kind : str
        ``word``, ``words`` (a sequence) or ``opening``.
    sequences : ndarray of int, shape (F, W)
        Codes of the words of each feature; -1 after the last one.
    names : list of str
        Words by code.
    feature, text : ndarray of int, shape (P,)
        Pairs of a feature's index and a text's index, each once, sorted by feature.
    """

    kind: str
    sequences: np.ndarray
    names: list[str]
    feature: np.ndarray
    text: np.ndarray

    def __len__(self) -> int:
        return len(self.sequences)

    def size_of(self, feature: int) -> int:
        """Return the number of words of a feature."""
        return int(np.count_nonzero(self.sequences[feature] >= 0))

    def key(self, feature: int) -> tuple[str, ...]:
        """Return the words of a feature."""
        return tuple(self.names[code] for code in self.sequences[feature].tolist() if code >= 0)

    def texts_of(self, feature: int) -> np.ndarray:
        """Return the indices of the texts that have a feature."""
        first, last = np.searchsorted(self.feature, [feature, feature + 1])
        return self.text[first:last]


class TextFeatures:
    """Collects the words of texts, one text after the other; with ``masked``, numbers are equal."""

    def __init__(self, *, masked: bool = False) -> None:
        self._masked = masked
        #: Code of each word; a new word has the next number.
        self._codes: defaultdict[str, int] = defaultdict(itertools.count().__next__)
        #: Codes of the words of all texts, and the number of words of each text.
        self._words, self._sizes = array("q"), array("q")
        self._beginnings: list[str] = []

    def __len__(self) -> int:
        return len(self._sizes)

    def add(self, text: str) -> None:
        """Add a text."""
        words = mask_digits(words_of(text)) if self._masked else words_of(text)
        self._words.extend(map(self._codes.__getitem__, words))
        self._sizes.append(len(words))
        self._beginnings.append(text[:MAX_CHARS])

    def script_shares(self) -> dict[str, np.ndarray]:
        """Return the share of each script that occurs in the letters of each text; NaN without letters."""
        counts = script_counts(self._beginnings)
        with np.errstate(all="ignore"):
            shares = counts / counts.sum(axis=1, keepdims=True)
        return {name: shares[:, at] for at, name in enumerate(SCRIPTS) if counts[:, at].any()}

    def families(self) -> Iterator[FeatureFamily]:
        """Yield the features that at least `MIN_TEXTS` texts have, and not all."""
        if not self._sizes:
            return
        names = list(self._codes)
        words = np.array(self._words)
        text = np.repeat(np.arange(len(self)), self._sizes)
        feature, of_text = _distinct(words, text, len(self))
        frequent = np.bincount(feature, minlength=len(names)) >= MIN_TEXTS
        yield self._family("word", np.arange(len(names))[:, None], names, feature, of_text)
        for size in (2, 3):
            yield self._sequences(words, text, frequent, names, size)
        yield self._openings(words, names)

    def _sequences(
        self, words: np.ndarray, text: np.ndarray, frequent: np.ndarray, names: list[str], size: int
    ) -> FeatureFamily:
        """Return the sequences of ``size`` words, all of them frequent."""
        count = max(len(words) - size + 1, 0)
        inside = text[:count] == text[len(text) - count :]
        for shift in range(size):
            inside &= frequent[words[shift : shift + count]]
        starts = np.flatnonzero(inside)
        packed = words[starts]
        first = np.empty(0, np.int64)
        for shift in range(1, size):  # two codes are packed into one number, which is then made small again
            packed, first = _numbered(packed * len(names) + words[starts + shift])
        sequences = words[starts[first][:, None] + np.arange(size)]
        return self._family("words", sequences, names, *_distinct(packed, text[starts], len(self)))

    def _openings(self, words: np.ndarray, names: list[str]) -> FeatureFamily:
        """Return the first words of the texts, up to `OPENING` of them."""
        sizes = np.array(self._sizes)
        starts = np.cumsum(sizes) - sizes
        features, texts, sequences = [], [], []
        packed, count = np.zeros(len(self), np.int64), 0
        for size in range(1, OPENING + 1):
            inside = np.flatnonzero(sizes >= size)
            packed[inside], first = _numbered(packed[inside] * len(names) + words[starts[inside] + size - 1])
            features.append(count + packed[inside])
            texts.append(inside)
            sequence = np.full((len(first), OPENING), -1, np.int64)
            sequence[:, :size] = words[starts[inside[first]][:, None] + np.arange(size)]
            sequences.append(sequence)
            count += len(first)
        pairs = _distinct(np.concatenate(features), np.concatenate(texts), len(self))
        return self._family("opening", np.concatenate(sequences), names, *pairs)

    def _family(
        self, kind: str, sequences: np.ndarray, names: list[str], feature: np.ndarray, text: np.ndarray
    ) -> FeatureFamily:
        """Return the features that enough texts have."""
        counts = np.bincount(feature, minlength=len(sequences))
        kept = (counts >= MIN_TEXTS) & (counts < len(self))
        number = np.cumsum(kept) - 1
        inside = kept[feature]
        return FeatureFamily(kind, sequences[kept], names, number[feature[inside]], text[inside])


def words_of(text: str) -> list[str]:
    """Return the words of the first `MAX_CHARS` characters of a text, in lower case."""
    return _WORD.findall(text[:MAX_CHARS].lower())


_DIGITS = re.compile(r"\d+")


def mask_digits(words: Sequence[str]) -> list[str]:
    """Return words in which each run of digits is one 0."""
    return [_DIGITS.sub("0", word) for word in words]


def place_of(text: str, key: Sequence[str], *, masked: bool = False) -> tuple[int, int] | None:
    """Return start and end of the first place of consecutive words in a text; None if there is none.

    With ``masked``, the digits of the text are masked as those of the key are.
    """
    places = [
        (match.group().lower(), match.start(), match.end()) for match in _WORD.finditer(text[:MAX_CHARS])
    ]
    words, size = [word for word, *_ in places], len(key)
    words = mask_digits(words) if masked else words
    for at in range(len(words) - size + 1):
        if words[at : at + size] == list(key):
            return places[at][1], places[at + size - 1][2]
    return None


def _distinct(feature: np.ndarray, text: np.ndarray, texts: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct pairs of feature and text, sorted by feature."""
    pairs = np.sort(feature * texts + text)  # np.unique uses a hash table, which is slower
    pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])[: len(pairs)]]
    return pairs // max(texts, 1), pairs % max(texts, 1)


def _numbered(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rank of each key among the distinct keys, and the position of one of each."""
    order = np.argsort(keys, kind="stable")
    new = np.append(True, keys[order[1:]] != keys[order[:-1]])[: len(keys)]
    rank = np.empty(len(keys), np.int64)
    rank[order] = np.cumsum(new) - 1
    return rank, order[new]


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


#: Texts whose words are compared; the digits of all but the first are masked, since prompts differ in them.
FIELDS = ("response", "prompt", "ground_truth")


def read_tests(a: ContrastSide, b: ContrastSide, rows: Sequence[np.ndarray]) -> ReadTests:
    """Return the tests of all texts of some rows of two sets, which are still to be read."""
    return ReadTests({field: TextTests(a, b, field) for field in FIELDS}, (a, b), rows)


@dataclass(frozen=True)
class ReadTests:
    """The tests of all texts of two sets; each sample is read once.

    Attributes
    ----------
    of : dict of str to TextTests
        By field.
    sides : tuple of ContrastSide
    rows : sequence of ndarray of int
        Rows to read of each set.
    """

    of: dict[str, TextTests]
    sides: tuple[ContrastSide, ContrastSide]
    rows: Sequence[np.ndarray]

    def read(self) -> Iterator[int]:
        """Read the texts, and yield from time to time how many were read."""
        last_yield, done = time.monotonic(), 0
        for number, (side, rows) in enumerate(zip(self.sides, self.rows, strict=True)):
            found = fetch_many_texts(side.index, side.view.snapshot, rows)
            for row, texts in zip(rows.tolist(), found, strict=True):
                done += 1
                for field, tests in self.of.items():
                    tests.add(number, row, texts.get(field) if texts is not None else None)
                if time.monotonic() - last_yield > PULSE:
                    last_yield = time.monotonic()
                    yield done


#: Fields in plain English.
_SHORT = {"prompt": "prompt", "ground_truth": "truth"}


class TextTests:
    """The texts of one field of two sets, and the tests of their features."""

    def __init__(self, a: ContrastSide, b: ContrastSide, field: str = "response") -> None:
        self._sides, self._field, self._masked = (a, b), field, field != "response"
        self._words = TextFeatures(masked=self._masked)
        self._read: list[list[int]] = [[], []]

    def add(self, number: int, row: int, text: str | None) -> None:
        """Add the text of a row of the first (0) or the second set, which follows the first."""
        if text is not None:
            self._words.add(text)
            self._read[number].append(row)

    @cached_property
    def _sets(self) -> TwoSets:
        parts = [np.array(read, np.int64) for read in self._read]
        in_a = np.repeat([True, False], [len(part) for part in parts])
        return TwoSets(in_a, group_codes(*self._sides, parts))

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
        found.sort(key=lambda item: (-item[0], self._has_digit(item[1], item[2]), -item[1].size_of(item[2])))
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
                kept.append(self._difference(self._kind(family), "", tested, texts, family.key(feature)))
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

    def _has_digit(self, family: FeatureFamily, feature: int) -> bool:
        """Return True for a feature with a masked digit, which has no filter."""
        return self._masked and any("0" in word for word in family.key(feature))

    def _kind(self, family: FeatureFamily) -> str:
        """Return the kind of a difference, such as ``word`` or ``prompt words``."""
        return family.kind if self._field == "response" else f"{_SHORT[self._field]} {family.kind}"

    def _shown(self, kind: str, key: tuple[str, ...], rows: Sequence[np.ndarray]) -> tuple[str, str]:
        """Return a feature as a response has it, and the filter for it; words joined by spaces otherwise."""
        which = 0 if len(rows[0]) else 1
        side = self._sides[which]
        texts = next(iter(fetch_many_texts(side.index, side.view.snapshot, rows[which][:1])))
        text = texts.get(self._field) if texts is not None else None
        place = place_of(text, key, masked=self._masked) if text is not None else None
        if text is None or place is None:
            return " ".join(key), ""
        start, end = place
        if self._masked and any("0" in word for word in key):  # a filter would need the same digits
            return text[start:end], ""
        if kind.endswith("opening"):
            return text[start:end], f"{self._field} startswith {quote(text[:end])}"
        return text[start:end], f"{self._field} contains {quote(text[start:end])}"


def _phi(masks: np.ndarray, texts: np.ndarray) -> np.ndarray:
    """Return the correlation of masks, shape (K, N), with the mask of these indices, shape (K,)."""
    count, size = masks.shape[1], len(texts)
    sizes = masks.sum(axis=1)
    both = masks[:, texts].sum(axis=1)
    scale = np.sqrt(float(size) * (count - size) * sizes * (count - sizes))
    return (count * both - size * sizes) / np.maximum(scale, 1e-12)
