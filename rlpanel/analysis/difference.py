"""Difference between two sets of samples, tested with samples of one group being alike.

Samples of one prompt are not independent observations: sixteen answers to one prompt say little more about a
run than one does. So each variance is multiplied by a design effect. A group may have samples in both sets:
what its samples have in common then cancels in the difference.

References
----------
Kish 1965, Survey Sampling (design effect). Donner, Birkett, Buck 1981, Randomization by Cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np

from rlpanel.metrics.engine.column_info import describe
from rlpanel.store.columns.related_rows import mix
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.step_metric_cache import group_keys

#: Chance of naming any difference in a family of tests if there is none.
CHANCE = 0.01
#: A difference is named from this many standard errors on, and from this many standard deviations on.
MIN_Z, MIN_EFFECT = 3.0, 0.2
#: Minimum number of samples of a set with a value.
MIN_SAMPLES = 5


def threshold(tried: int) -> float:
    """Return the least z of a difference, for this many tests in its family.

    Bonferroni's correction: each of the two-sided tests gets an equal part of `CHANCE`.
    """
    return max(MIN_Z, NormalDist().inv_cdf(1 - CHANCE / (2 * max(tried, 1))))


@dataclass(frozen=True)
class TestedDifference:
    """Difference between the means of two sets.

    Attributes
    ----------
    a, b : float
        Means of the sets; shares for yes-or-no features.
    effect, error : float
        ``a - b`` in standard deviations of a sample, and its standard error. The variance of a sample is the
        average of those of the two sets.
    z : float
        Signed test statistic, whose distribution without a difference is the standard normal one.
    """

    a: float
    b: float
    effect: float
    error: float
    z: float


class TwoSets:
    """Two sets of samples with their groups.

    Parameters
    ----------
    in_a : ndarray of bool, shape (N,)
        Mask of the first set; the other samples are the second.
    groups : ndarray of int, shape (N,)
        Code of each sample's group.
    """

    def __init__(self, in_a: np.ndarray, groups: np.ndarray) -> None:
        self.in_a = in_a
        self.groups = np.unique(groups, return_inverse=True)[1]

    def __len__(self) -> int:
        return len(self.in_a)

    def some(self, mask: np.ndarray) -> TwoSets:
        """Return the samples in a mask."""
        return self if mask.all() else TwoSets(self.in_a[mask], self.groups[mask])

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of samples of the sets."""
        count = int(np.count_nonzero(self.in_a))
        return count, len(self) - count

    def test_mean(self, values: np.ndarray) -> TestedDifference | None:
        """Test the difference of the means of a number; None if a set has fewer than `MIN_SAMPLES` values.

        The variance of the difference is the larger one of Welch's and that of two random subsets of all
        samples, times the design effect. So neither one outlier in a small set nor a small set without any
        spread makes a difference significant. The quotient is turned from Student's t distribution into a
        normal one.

        Parameters
        ----------
        values : ndarray of float, shape (N,)
            Samples without a finite value are left out.
        """
        finite = np.isfinite(values)
        if not finite.all():
            return self.some(finite).test_mean(values[finite])
        count_a, count_b = self.sizes
        if min(count_a, count_b) < MIN_SAMPLES:
            return None
        a, b = values[self.in_a], values[~self.in_a]
        mean_a, mean_b, var_a, var_b = a.mean(), b.mean(), a.var(ddof=1), b.var(ddof=1)
        spread = float(np.sqrt((var_a + var_b) / 2))
        total = values.var(ddof=1)
        difference = float(mean_a - mean_b)
        if not total > 1e-24 * (1 + values.mean() ** 2) or not np.isfinite(spread):
            return None  # all values are equal, but for rounding
        variance = max(var_a / count_a + var_b / count_b, total * (1 / count_a + 1 / count_b))
        common = self.common_part(values)
        error = float(np.sqrt(variance * (1 + common)))
        df = self._degrees(min(count_a, count_b) - 1, common)
        scale = spread if spread > 0 else float(np.sqrt(total))
        z = normal_of_t(difference / error, df)
        return TestedDifference(float(mean_a), float(mean_b), difference / scale, error / scale, z)

    def test_share(self, feature: np.ndarray) -> TestedDifference | None:
        """Test the difference of the shares of samples with a feature; None if a set is too small.

        The statistic is the signed root of the likelihood ratio, which is reliable for rare features as well,
        divided by the root of the design effect.

        Parameters
        ----------
        feature : ndarray of bool, shape (N,)
        """
        count_a, count_b = self.sizes
        if min(count_a, count_b) < MIN_SAMPLES:
            return None
        with_a = int(np.count_nonzero(feature & self.in_a))
        with_b = int(np.count_nonzero(feature)) - with_a
        if with_a + with_b in (0, len(self)):
            return None
        common = self.common_part(feature.astype(float))
        root = float(likelihood_root(np.array([with_a]), count_a, np.array([with_b]), count_b)[0])
        z = normal_of_t(root / np.sqrt(1 + common), self._degrees(len(self) - 2, common))
        share_a, share_b = with_a / count_a, with_b / count_b
        spread = share_spread(np.array([share_a]), np.array([share_b]))[0]
        # Half a sample is added to each, so that the error of a share of 0 or 1 is not 0.
        safe_a, safe_b = (with_a + 0.5) / (count_a + 1), (with_b + 0.5) / (count_b + 1)
        variance = safe_a * (1 - safe_a) / count_a + safe_b * (1 - safe_b) / count_b
        error = float(np.sqrt(variance * (1 + common)) / spread)
        return TestedDifference(share_a, share_b, float((share_a - share_b) / spread), error, z)

    def common_part(self, values: np.ndarray) -> float:
        """Return the design effect minus 1: what samples of one group have in common adds to the variance.

        ``rho * (d - 1)``, not below 0. ``rho`` is the intraclass correlation of the deviations from the set's
        mean (ANOVA estimate). ``d`` is the design effect if all samples of a group were equal: the sum over
        groups of ``(a_g / A - b_g / B) ** 2``, divided by ``1 / A + 1 / B``, with a_g of A and b_g of B
        samples in group g.
        """
        count_a, count_b = self.sizes
        worst = float(
            ((self._in_a / count_a - self._in_b / count_b) ** 2).sum() / (1 / count_a + 1 / count_b)
        )
        return max(worst - 1.0, 0.0) * self._intraclass(values)

    def _intraclass(self, values: np.ndarray) -> float:
        """Return the intraclass correlation of the deviations from each set's mean, between 0 and 1."""
        means = np.where(self.in_a, values[self.in_a].mean(), values[~self.in_a].mean())
        deviations = values - means
        sizes, count, number = self._in_a + self._in_b, len(self), len(self._in_a)
        if number in (1, count):  # one group, or none of several samples
            return 1.0 if number == 1 else 0.0
        total = float((deviations**2).sum())
        if not total > 1e-24 * float((values**2).sum()):  # equal within each set
            return 1.0
        between = float((np.bincount(self.groups, deviations) ** 2 / sizes).sum())
        mean_between, mean_within = between / (number - 1), (total - between) / (count - number)
        usual = (count - float((sizes**2).sum()) / count) / (number - 1)
        rho = (mean_between - mean_within) / (mean_between + (usual - 1) * mean_within)
        return float(np.clip(rho, 0.0, 1.0))

    def _degrees(self, df: int, common: float) -> float:
        """Return Satterthwaite's degrees of freedom of a variance that was multiplied by ``1 + common``."""
        groups = max(len(self._in_a) - 2, 1)
        return (1 + common) ** 2 / (1 / df + common**2 / groups)

    @cached_property
    def _in_a(self) -> np.ndarray:
        """Number of samples of the first set in each group."""
        return np.bincount(self.groups[self.in_a], minlength=int(self.groups.max(initial=-1)) + 1)

    @cached_property
    def _in_b(self) -> np.ndarray:
        """Number of samples of the second set in each group."""
        return np.bincount(self.groups[~self.in_a], minlength=int(self.groups.max(initial=-1)) + 1)


def likelihood_root(with_a: np.ndarray, count_a: int, with_b: np.ndarray, count_b: int) -> np.ndarray:
    """Return the signed roots of the likelihood ratios of two shares, continuity-corrected, shape (F,).

    Parameters
    ----------
    with_a, with_b : ndarray of int, shape (F,)
        Number of samples with each feature.
    count_a, count_b : int
        Number of samples of the sets.
    """
    total, count = with_a + with_b, count_a + count_b
    expected = total * (count_a / count)
    excess = with_a - expected
    near = expected + np.sign(excess) * np.maximum(np.abs(excess) - 0.5, 0.0)
    ratio = np.zeros(len(near))
    for seen, awaited in (
        (near, expected),
        (count_a - near, count_a - expected),
        (total - near, total - expected),
        (count_b - (total - near), count_b - (total - expected)),
    ):
        with np.errstate(all="ignore"):
            ratio += np.where(seen > 0, seen * np.log(seen / awaited), 0.0)
    return np.sign(excess) * np.sqrt(np.maximum(2 * ratio, 0.0))


def share_spread(share_a: np.ndarray, share_b: np.ndarray) -> np.ndarray:
    """Return the standard deviation of a yes-or-no feature whose share is the average of two, shape (F,)."""
    share = (share_a + share_b) / 2
    return np.sqrt(np.maximum(share * (1 - share), 1e-12))


def normal_of_t(t: float, df: float) -> float:
    """Return the normal deviate that is about as improbable as a value of Student's t.

    References
    ----------
    Wallace 1959, Bounds on normal approximations to Student's and the chi-square distributions.
    """
    size = (8 * df + 1) / (8 * df + 3) * np.sqrt(df * np.log1p(t * t / df))
    return float(np.sign(t) * size)


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
        ``opening``; the last three of prompts and ground truths as ``prompt word`` and ``truth word``.
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
    verb = "begins with" if difference.kind.endswith("opening") else "contains"
    field = {"prompt": "prompt ", "truth": "ground truth "}.get(difference.kind.split(" ")[0], "")
    return f"{field}{verb} “{difference.name}”"


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
