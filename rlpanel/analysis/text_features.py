"""Features of response texts: words, sequences of two and three words, openings and scripts.

A word is a run of letters and digits in lower case, a single Chinese, Japanese or Korean character, a single
punctuation mark, or a special token such as ``<|im_start|>``.
"""

from __future__ import annotations

import itertools
import re
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rlpanel.metrics.scripts import SCRIPTS, script_counts

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
    """Collects the words of texts, one text after the other."""

    def __init__(self) -> None:
        #: Code of each word; a new word has the next number.
        self._codes: defaultdict[str, int] = defaultdict(itertools.count().__next__)
        #: Codes of the words of all texts, and the number of words of each text.
        self._words, self._sizes = array("q"), array("q")
        self._beginnings: list[str] = []

    def __len__(self) -> int:
        return len(self._sizes)

    def add(self, text: str) -> None:
        """Add a text."""
        words = words_of(text)
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


def place_of(text: str, key: Sequence[str]) -> tuple[int, int] | None:
    """Return start and end of the first place of consecutive words in a text; None if there is none."""
    places = [
        (match.group().lower(), match.start(), match.end()) for match in _WORD.finditer(text[:MAX_CHARS])
    ]
    words, size = [word for word, *_ in places], len(key)
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
