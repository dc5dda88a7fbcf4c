"""Effects within groups, against regressions with clustered errors that are written out in numpy."""

from __future__ import annotations

import numpy as np
import pytest

from rlpanel.analysis.within_effects import WithinSamples, within_effects

GROUPS, SIZE = 40, 8


def data(seed: int) -> tuple[np.ndarray, ...]:
    """Groups of two steps with the same prompts, features of different shares, a score, and a reward."""
    draw = np.random.default_rng(seed)
    group = np.repeat(np.arange(GROUPS), SIZE)
    features = draw.random((4, len(group))) < np.array([0.5, 0.3, 0.05, 0.02])[:, None]
    held = (draw.random(len(group)) < 0.3 + 0.3 * features[1]).astype(float)
    shared = draw.normal(0, 0.5, GROUPS // 2)[group // 2] * features[0]
    reward = held + 0.4 * features[0] + shared + draw.normal(0, 0.3, len(group))
    return group, group // 2, features, held, reward


def centred(values: np.ndarray) -> np.ndarray:
    groups = values.reshape(GROUPS, SIZE).astype(float)
    return (groups - groups.mean(axis=1, keepdims=True)).ravel()


def regression(
    columns: np.ndarray, reward: np.ndarray, cluster: np.ndarray, clusters: int
) -> tuple[float, float]:
    """Return the first coefficient and its error, the larger one of both kinds."""
    inverse = np.linalg.inv(columns.T @ columns)
    weights = inverse @ columns.T @ reward
    rest = reward - columns @ weights
    meat = np.zeros_like(inverse)
    for each in np.unique(cluster):
        score = columns[cluster == each].T @ rest[cluster == each]
        meat += np.outer(score, score)
    robust = (inverse @ meat @ inverse)[0, 0] * clusters / (clusters - 1)
    equal = rest @ rest / (len(reward) - GROUPS - columns.shape[1]) * inverse[0, 0]
    return float(weights[0]), float(np.sqrt(max(robust, equal)))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("with_score", [True, False])
def test_effects_and_errors_equal_those_of_a_regression(seed: int, with_score: bool) -> None:
    group, cluster, features, held, reward = data(seed)
    pairs = np.nonzero(features)
    known = WithinSamples(group, cluster, centred(reward), centred(held) if with_score else None)
    found = within_effects(*pairs, len(features), known)
    for at, feature in enumerate(features):
        columns = np.stack([centred(feature), *([centred(held)] if with_score else [])], axis=1)
        varies = np.ptp(feature.reshape(GROUPS, SIZE).astype(int), axis=1) > 0
        clusters = len(np.unique((np.arange(GROUPS) // 2)[varies]))
        effect, error = regression(columns, centred(reward), cluster, clusters)
        assert found.clusters[at] == clusters
        assert found.excess[at] == pytest.approx(effect, abs=1e-10)
        assert found.error[at] == pytest.approx(error, rel=1e-9)
        gap = centred(feature) @ centred(reward) / (centred(feature) @ centred(feature))
        assert found.reward_gap[at] == pytest.approx(gap)
    assert np.isnan(found.held_gap).all() != with_score


def test_a_feature_that_is_the_held_out_score_has_no_effect_beyond_it() -> None:
    group, cluster, _, held, reward = data(0)
    pairs = np.nonzero(held[None] > 0)
    found = within_effects(*pairs, 1, WithinSamples(group, cluster, centred(reward), centred(held)))
    assert np.isnan(found.excess[0])
    assert found.held_gap[0] == pytest.approx(1)


def test_noise_rarely_looks_like_an_effect() -> None:
    draw = np.random.default_rng(3)
    group = np.repeat(np.arange(GROUPS), SIZE)
    beyond = 0
    for _ in range(40):
        features = draw.random((100, len(group))) < 0.3
        known = WithinSamples(
            group, group, centred(draw.normal(0, 1, len(group))), centred(draw.random(len(group)))
        )
        found = within_effects(*np.nonzero(features), 100, known)
        beyond += int((np.abs(found.excess / found.error) > 2.7).sum())
    assert beyond / 4000 < 0.012  # 0.7% of a normal distribution, 1.0% of Student's t with 39 degrees
