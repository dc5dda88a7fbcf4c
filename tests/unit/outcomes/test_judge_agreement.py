"""Agreement of judges against contingency tables, sums over all pairs, and a published example."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from rlpanel.outcomes.judge_study import equal_share, krippendorff_alpha, weighted_kappa

NAN = np.nan
#: Four observers, twelve units: Krippendorff (2011), section C; interval alpha of section E is 0.849.
OBSERVERS = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
).T


def table_kappa(one: np.ndarray, other: np.ndarray) -> float:
    """Cohen's unweighted kappa from the contingency table of two categories."""
    both = [(a, b) for a, b in zip(one.tolist(), other.tolist(), strict=True) if a == a and b == b]
    n, first, second = len(both), Counter(a for a, _ in both), Counter(b for _, b in both)
    observed = sum(a == b for a, b in both) / n
    chance = sum(first[each] * second[each] for each in {*first, *second}) / n**2
    return (observed - chance) / (1 - chance)


def pairs_alpha(scores: np.ndarray) -> float:
    """Krippendorff's alpha with squared differences, pair by pair."""
    units = [[x for x in unit if x == x] for unit in scores.tolist()]
    units = [unit for unit in units if len(unit) > 1]
    values = [x for unit in units for x in unit]
    n = len(values)
    observed = sum(
        sum((a - b) ** 2 for a, b in itertools.permutations(unit, 2)) / (len(unit) - 1) for unit in units
    )
    expected = sum((a - b) ** 2 for a, b in itertools.permutations(values, 2)) / (n - 1)
    return 1 - observed / expected


def random_scores(seed: int, categories: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    truth = random.integers(0, categories, 60)
    noise = random.integers(0, categories, (60, 4))
    scores = np.where(random.random((60, 4)) < 0.6, truth[:, None], noise).astype(float)
    scores[random.random((60, 4)) < 0.2] = NAN
    return scores


@pytest.mark.parametrize("seed", range(5))
def test_kappa_of_verdicts_is_cohens(seed: int) -> None:
    scores = random_scores(seed, 2)
    for a, b in itertools.combinations(range(4), 2):
        assert weighted_kappa(scores[:, a], scores[:, b]) == pytest.approx(
            table_kappa(scores[:, a], scores[:, b])
        )


def test_kappa_of_numbers_weighs_by_the_square() -> None:
    one, other = np.array([0.0, 1.0, 2.0, 2.0]), np.array([0.0, 2.0, 2.0, 1.0])
    chance = np.mean([(a - b) ** 2 for a in one for b in other])
    assert weighted_kappa(one, other) == pytest.approx(1 - 0.5 / chance)


@pytest.mark.parametrize(("seed", "categories"), [(0, 2), (1, 3), (2, 7)])
def test_alpha_equals_the_sum_over_pairs(seed: int, categories: int) -> None:
    scores = random_scores(seed, categories)
    assert krippendorff_alpha(scores) == pytest.approx(pairs_alpha(scores))


def test_alpha_of_krippendorffs_own_example() -> None:
    assert krippendorff_alpha(OBSERVERS) == pytest.approx(0.849, abs=5e-4)


def test_nothing_is_said_where_nothing_can_be() -> None:
    empty, same = np.full(3, NAN), np.ones(3)
    assert np.isnan(weighted_kappa(empty, same))
    assert np.isnan(weighted_kappa(same, same))
    assert np.isnan(krippendorff_alpha(np.column_stack([same, empty])))
    assert np.isnan(krippendorff_alpha(np.column_stack([same, same])))
    assert np.isnan(equal_share(empty, same))
    assert equal_share(np.array([1.0, 0.0, NAN]), same) == 0.5
