"""Differences between two sets of samples: numbers, labels, scripts, words, sequences and openings.

The sets may be of one run or of two. Numbers and labels use all samples; texts are read, so of a larger set
only a fixed choice of `MOST_TEXTS` responses is used, fewer if they are long. A difference is named if its z
reaches the threshold for the number of things tried (`rlpanel.analysis.clustered_tests`), and if it is at
least `LEAST_EFFECT` standard deviations. Columns and texts are two families of tests, each with a chance of
`CHANCE` to name anything where there is no difference.

Of columns that are nearly the same, and of words in nearly the same responses, one is named. Columns that
follow from others of the group, and those that only count steps or time, are left out.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rlpanel.analysis.clustered_tests import (
    LEAST_EFFECT,
    TestedDifference,
    TwoSets,
    likelihood_root,
    share_spread,
    threshold,
)
from rlpanel.analysis.contrast_side import MOST_TEXT_CHARS, MOST_TEXTS, ContrastSide
from rlpanel.analysis.text_features import MOST_CHARS, FeatureFamily, TextFeatures, place_of
from rlpanel.errors import RLPanelError, SettingError
from rlpanel.metrics.engine.column_info import describe
from rlpanel.store.columns.hash_set import mix
from rlpanel.store.columns.splits import SPLIT_COLUMN
from rlpanel.store.query.fetch_sample import fetch_texts
from rlpanel.store.query.filter_columns import label_name
from rlpanel.store.query.filter_syntax import quote
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.step_metric_cache import group_keys

#: Labels with more values are identifiers.
MOST_VALUES = 50
#: Maximum number of named features of texts, and of uids of a difference.
MOST_FEATURES, MOST_UIDS = 40, 200
#: Features whose texts have this correlation are named once, and columns whose values have it.
SAME_TEXTS, SAME_VALUES = 0.8, 0.99
#: Over this many steps, a column counts steps or time if its ranges at the steps are in order and disjoint.
FEWEST_STEPS = 5
#: Seconds between two progress results.
PULSE = 0.25
#: Labels that are not compared.
_NO_LABEL = frozenset({"group", SPLIT_COLUMN})


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
        Such samples of each set, at most `MOST_UIDS`.
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
    a: ContrastSide, b: ContrastSide, *, exclude: Collection[str] = (), texts: int = MOST_TEXTS
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
    columns = _Columns(a, b, exclude)
    candidates = list(columns.candidates())
    chosen = [_text_rows(side, texts) for side in (a, b)]
    partial = Contrast(
        a,
        b,
        _ranked(columns.distinct(_passing(candidates))),
        texts_total=sum(map(len, chosen)),
        columns_tried=len(candidates),
    )
    yield partial
    corpus = _Corpus(a, b, chosen)
    for read in corpus.read():
        yield replace(partial, texts_read=read)
    candidates += corpus.scripts()
    features, tried = corpus.features()
    yield replace(
        partial,
        differences=_ranked([*columns.distinct(_passing(candidates)), *features]),
        texts_read=partial.texts_total,
        columns_tried=len(candidates),
        features_tried=tried,
        complete=True,
    )


def _passing(candidates: Sequence[Difference]) -> list[Difference]:
    """Return the differences that are large enough, for this number of candidates."""
    least = threshold(len(candidates))
    return [
        found
        for found in candidates
        if abs(found.tested.z) >= least and abs(found.tested.effect) >= LEAST_EFFECT
    ]


def _ranked(differences: Sequence[Difference]) -> tuple[Difference, ...]:
    return tuple(sorted(differences, key=lambda found: -round(abs(found.tested.effect), 6)))


def _groups(a: ContrastSide, b: ContrastSide, rows: Sequence[np.ndarray]) -> np.ndarray:
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
            key = snapshot.metadata("prompt_hash")[part].astype(np.uint64)
        own = mix(part.astype(np.uint64) ^ np.uint64(number << 62))
        keys.append(np.where(group < 0, own, key))
    return np.concatenate(keys)


class _Columns:
    """Tests of all numbers and labels that both sets have."""

    def __init__(self, a: ContrastSide, b: ContrastSide, exclude: Collection[str]) -> None:
        self._sides = (a, b)
        self._exclude = frozenset(exclude)
        rows = [a.rows, b.rows]
        in_a = np.repeat([True, False], [len(part) for part in rows])
        self._sets = TwoSets(in_a, _groups(a, b, rows))

    def candidates(self) -> Iterator[Difference]:
        """Yield every tested difference, whether it is large or not."""
        a, b = self._sides
        others = set(_numbers(b.view)) - self._exclude
        for name in _numbers(a.view):
            if name in others and not self._counts_steps(name):
                yield from self._number(name, self._values(name))
        for name, codes, texts in self._labels():
            yield from self._label(name, codes, texts)

    def distinct(self, differences: Sequence[Difference]) -> list[Difference]:
        """Return the differences without columns that are nearly the same as one with a larger effect."""
        kept: list[Difference] = []
        columns: list[np.ndarray] = []
        for found in _ranked(differences):
            if found.kind == "number":
                values = self._values(found.name)
                if any(abs(_correlation(values, other)) >= SAME_VALUES for other in columns):
                    continue
                columns.append(values)
            kept.append(found)
        return kept

    def _values(self, name: str) -> np.ndarray:
        return np.concatenate([side.view.values(name, side.rows) for side in self._sides])

    def _counts_steps(self, name: str) -> bool:
        """Return True if a column rises or falls with the step alone, like a time or a learning rate."""
        for side in self._sides:
            steps = side.view.snapshot.steps
            if len(steps.values) < FEWEST_STEPS or not steps.is_ordered(name):
                return False
            if np.ptp(steps.mean(name)) == 0:
                return False
        return True

    def _number(self, name: str, values: np.ndarray) -> Iterator[Difference]:
        finite = np.isfinite(values)
        if not finite.all() and finite.any():
            missing = self._sets.test_share(~finite)
            if missing is not None:
                yield self._difference("missing", name, missing, ~finite, f"missing(`{name}`)")
        tested = self._sets.test_mean(values)
        if tested is None:
            return
        middle = (tested.a + tested.b) / 2
        sign = ">" if tested.a > tested.b else "<"
        distance = np.where(finite, values - middle, -np.inf) * (1 if sign == ">" else -1)
        found = self._difference(
            "number", name, tested, finite & (distance > 0), f"`{name}` {sign} {middle:.6g}", distance
        )
        counts = (int(np.count_nonzero(finite & side)) for side in (self._sets.in_a, ~self._sets.in_a))
        yield replace(found, count_a=next(counts), count_b=next(counts))

    def _labels(self) -> Iterator[tuple[str, np.ndarray, list[str]]]:
        """Yield name, codes and values of each label, with the codes of both sets made the same."""
        ranks = np.concatenate([side.view.snapshot.metadata("rank")[side.rows] for side in self._sides])
        values, codes = np.unique(ranks, return_inverse=True)
        if 1 < len(values) <= MOST_VALUES and "rank" not in self._exclude:
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
            if len(seen) > MOST_VALUES:
                return None
            shared = [numbers.setdefault(texts[at], len(numbers)) if at >= 0 else -1 for at in seen.tolist()]
            parts.append(np.array(shared, np.int64)[codes])
        codes = np.concatenate(parts)
        several = len(numbers) + int((codes < 0).any()) > 1
        return (codes, list(numbers)) if several and len(numbers) <= MOST_VALUES else None

    def _label(self, name: str, codes: np.ndarray, texts: list[str]) -> Iterator[Difference]:
        for code, text in enumerate(texts):
            tested = self._sets.test_share(codes == code)
            if tested is not None:
                where = f"rank == {text}" if name == "rank" else f"`{name}` == {quote(text)}"
                yield self._difference("label", f"{name} = {text}", tested, codes == code, where)
        if (codes < 0).any() and (tested := self._sets.test_share(codes < 0)) is not None:
            yield self._difference("missing", name, tested, codes < 0, f"missing(`{name}`)")

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
            _uids(side, _first(np.flatnonzero(mask), part))
            for side, mask, part in zip(self._sides, sides, orders, strict=True)
        ]
        counts = [int(np.count_nonzero(mask)) for mask in sides]
        size_a, size_b = self._sets.sizes
        return Difference(kind, name, tested, counts[0], counts[1], size_a, size_b, where, uids[0], uids[1])


def _first(positions: np.ndarray, order: np.ndarray | None) -> np.ndarray:
    """Return the first positions, or those with the largest values."""
    if order is None or len(positions) <= 1:
        return positions[:MOST_UIDS]
    if len(positions) > MOST_UIDS:  # most are left out before the rest is sorted, also of equal values
        values = order[positions]
        positions = positions[values >= np.partition(values, -MOST_UIDS)[-MOST_UIDS]]
    return positions[np.argsort(-order[positions], kind="stable")[:MOST_UIDS]]


def _uids(side: ContrastSide, positions: np.ndarray) -> tuple[str, ...]:
    return tuple(side.view.snapshot.uids(side.rows[positions]))


def _numbers(view: RunView) -> list[str]:
    """Return the number columns to compare."""
    return [name for name in view.snapshot.numbers if view.snapshot.has_number(name)]


def _text_rows(side: ContrastSide, most: int) -> np.ndarray:
    """Return the rows whose responses are read, in the order of the files."""
    snapshot = side.view.snapshot
    if not snapshot.has_number("response_chars") or not most:
        return np.empty(0, np.int64)
    lengths = snapshot.number("response_chars")[side.rows]
    lengths = np.minimum(lengths[np.isfinite(lengths)], MOST_CHARS)
    within = int(MOST_TEXT_CHARS / max(float(lengths.mean()), 1.0)) if len(lengths) else most
    rows = snapshot.sample_rows(np.sort(side.rows), min(most, within))
    return rows[np.lexsort([snapshot.metadata(name)[rows] for name in ("part", "offset", "file")])]


class _Corpus:
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
            for row in rows.tolist():
                done += 1
                response = _response(side, row)
                if response is not None:
                    self._words.add(response)
                    read.append(row)
                if time.monotonic() - last_yield > PULSE:
                    last_yield = time.monotonic()
                    yield done
        parts = [np.array(read, np.int64) for read in self._read]
        in_a = np.repeat([True, False], [len(part) for part in parts])
        self._sets = TwoSets(in_a, _groups(*self._sides, parts))

    def scripts(self) -> list[Difference]:
        """Return the tested differences of the scripts' shares in the letters of a response."""
        found = []
        for name, shares in self._words.script_shares().items():
            tested = self._sets.test_mean(shares)
            if tested is not None:
                found.append(self._difference("script", name, tested, np.flatnonzero(shares > 0.5)))
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
        large = np.flatnonzero((np.abs(roots) >= least) & (np.abs(effects) >= LEAST_EFFECT))
        return list(zip(large.tolist(), roots[large].tolist(), strict=True))

    def _distinct(self, found: Sequence[tuple[FeatureFamily, int]], least: float) -> list[Difference]:
        """Return the features that differ with groups, too, and that are not the same texts as another."""
        kept: list[Difference] = []
        masks = np.zeros((MOST_FEATURES, len(self._sets)), bool)
        for family, feature in found:
            if len(kept) == MOST_FEATURES:
                break
            texts = family.texts_of(feature)
            if (_phi(masks[: len(kept)], texts) >= SAME_TEXTS).any():
                continue
            mask = masks[len(kept)]
            mask[texts] = True
            tested = self._sets.test_share(mask)
            if tested is not None and abs(tested.z) >= least and abs(tested.effect) >= LEAST_EFFECT:
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
            tuple(side.view.snapshot.uids(part[:MOST_UIDS]))
            for side, part in zip(self._sides, rows, strict=True)
        ]
        counts, (size_a, size_b) = [len(part) for part in rows], self._sets.sizes
        return Difference(kind, name, tested, counts[0], counts[1], size_a, size_b, where, uids[0], uids[1])

    def _shown(self, kind: str, key: tuple[str, ...], rows: Sequence[np.ndarray]) -> tuple[str, str]:
        """Return a feature as a response has it, and the filter for it; words joined by spaces otherwise."""
        which = 0 if len(rows[0]) else 1
        text = _response(self._sides[which], int(rows[which][0]))
        place = place_of(text, key) if text is not None else None
        if text is None or place is None:
            return " ".join(key), ""
        start, end = place
        if kind == "opening":
            return text[start:end], f"response startswith {quote(text[:end])}"
        return text[start:end], f"response contains {quote(text[start:end])}"


def _response(side: ContrastSide, row: int) -> str | None:
    """Return the response of a row; None if it has none or cannot be read."""
    try:
        return fetch_texts(side.index, side.view.snapshot, row).get("response")
    except (RLPanelError, IndexError):  # the file was rewritten
        return None


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


def _phi(masks: np.ndarray, texts: np.ndarray) -> np.ndarray:
    """Return the correlation of masks, shape (K, N), with the mask of these indices, shape (K,)."""
    count, size = masks.shape[1], len(texts)
    sizes = masks.sum(axis=1)
    both = masks[:, texts].sum(axis=1)
    scale = np.sqrt(float(size) * (count - size) * sizes * (count - sizes))
    return (count * both - size * sizes) / np.maximum(scale, 1e-12)


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
