"""Effects of many yes-or-no features on the reward within groups, beyond a held-out score.

For a feature f, a reward r and a held-out score h, all minus their group's mean, the effect is b in ::

    r = b * f + s * h + error

It is the reward that samples with the feature get more than others of their group with the same held-out
score. Its variance is the larger one of that of equal errors and of the cluster-robust one, where samples of
one prompt are a cluster. ``K / (K - 1)`` corrects the latter for the K clusters that have samples with and
without the feature, and the test has K - 1 degrees of freedom.

References
----------
Frisch, Waugh 1933, Econometrica 1 (partial regression). Liang, Zeger 1986, Biometrika 73 (clusters). Cameron,
Miller 2015, Journal of Human Resources 50 (few clusters).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: Share of a feature's variance that the held-out score may explain: beyond it, the two are the same.
_SAME = 0.99


@dataclass(frozen=True)
class WithinSamples:
    """Samples in groups, with their reward and a held-out score.

    Attributes
    ----------
    group, cluster : ndarray of int, shape (N,)
        Index of each sample's group, and of its cluster; a group lies in one cluster.
    reward : ndarray of float, shape (N,)
        Minus the group's mean.
    held : ndarray of float, shape (N,), optional
        The same of the held-out score.
    """

    group: np.ndarray
    cluster: np.ndarray
    reward: np.ndarray
    held: np.ndarray | None = None


@dataclass(frozen=True)
class WithinEffects:
    """Effects of F features; each attribute has shape (F,).

    Attributes
    ----------
    samples : ndarray of int
        Samples with the feature.
    clusters : ndarray of int
        Clusters with a group that has samples with and without it.
    reward_gap, held_gap : ndarray of float
        Difference within groups between samples with and without it; NaN without a held-out score.
    excess, error : ndarray of float
        The effect beyond the held-out score, and its standard error; NaN if the feature is the score.
    share : ndarray of float
        Share of the reward's variance within groups that the effect explains.
    """

    samples: np.ndarray
    clusters: np.ndarray
    reward_gap: np.ndarray
    held_gap: np.ndarray
    excess: np.ndarray
    error: np.ndarray
    share: np.ndarray


def within_effects(
    feature: np.ndarray, sample: np.ndarray, count: int, known: WithinSamples
) -> WithinEffects:
    """Return the effects of features.

    Parameters
    ----------
    feature, sample : ndarray of int, shape (P,)
        Pairs of a feature and a sample that has it, each once.
    count : int
        Number F of features.
    known : WithinSamples
    """
    held = known.held if known.held is not None else np.zeros(len(known.reward))
    sizes = np.bincount(known.group)
    groups, clusters = len(sizes), int(known.cluster.max(initial=-1)) + 1
    cluster_of = np.zeros(groups, np.int64)
    cluster_of[known.group] = known.cluster
    # Sums by feature and group, of the pairs that exist.
    keys, at = np.unique(feature * groups + known.group[sample], return_inverse=True)
    of_feature, of_group = keys // max(groups, 1), keys % max(groups, 1)
    with_it = np.bincount(at, minlength=len(keys)).astype(float)
    spread = with_it - with_it**2 / sizes[of_group]
    sums = [np.bincount(at, values[sample], len(keys)) for values in (known.reward, held)]
    # The same by cluster.
    pairs, to_pair = np.unique(of_feature * max(clusters, 1) + cluster_of[of_group], return_inverse=True)
    pair_feature, pair_cluster = pairs // max(clusters, 1), pairs % max(clusters, 1)
    spread, with_reward, with_held = (np.bincount(to_pair, each, len(pairs)) for each in (spread, *sums))
    total = np.bincount(pair_feature, spread, count)
    on_reward, on_held = (np.bincount(pair_feature, each, count) for each in (with_reward, with_held))
    held_reward, held_held, reward_reward = (
        float((a * b).sum()) for a, b in ((held, known.reward), (held, held), (known.reward, known.reward))
    )
    with np.errstate(all="ignore"):
        slope = on_held / held_held if held_held > 0 else np.zeros(count)
        rest = total - slope * on_held
        excess = (on_reward - slope * held_reward) / rest
        score = (held_reward - excess * on_held) / held_held if held_held > 0 else np.zeros(count)
        errors = reward_reward - excess * on_reward - score * held_reward
        free = max(len(known.reward) - groups - (2 if held_held > 0 else 1), 1)
        equal = np.maximum(errors, 0.0) / free / rest
        robust = _robust(
            (pair_feature, pair_cluster, spread, with_reward, with_held),
            (excess, score, slope),
            tuple(np.bincount(known.cluster, held * each, clusters) for each in (known.reward, held)),
        )
        informative = np.bincount(pair_feature, spread > 1e-9, count)
        robust *= informative / (informative - 1) / rest**2
        error = np.sqrt(np.maximum(equal, robust))
        unknown = (rest <= (1 - _SAME) * total) | (informative < 2)
        return WithinEffects(
            samples=np.bincount(feature, minlength=count),
            clusters=informative.astype(np.int64),
            reward_gap=on_reward / total,
            held_gap=on_held / total if known.held is not None else np.full(count, np.nan),
            excess=np.where(unknown, np.nan, excess),
            error=np.where(unknown, np.nan, error),
            share=np.where(unknown, np.nan, excess**2 * rest / max(reward_reward, 1e-300)),
        )


def _robust(
    pairs: tuple[np.ndarray, ...],
    fit: tuple[np.ndarray, np.ndarray, np.ndarray],
    of_cluster: tuple[np.ndarray, ...],
) -> np.ndarray:
    """Return the sum over clusters of the squared sums of residual times feature, shape (F,).

    The feature is taken without what the held-out score explains of it, so that clusters without a sample
    that has the feature count, too: their sum follows from those of the score.
    """
    feature, cluster, spread, reward, held = pairs
    excess, score, slope = fit
    held_reward, held_held = of_cluster
    absent = held_reward[cluster] - score[feature] * held_held[cluster]
    mine = reward - score[feature] * held - excess[feature] * spread
    # The residual of a cluster's samples times the score.
    of_score = absent - excess[feature] * held
    present = mine - slope[feature] * of_score
    squares = np.bincount(feature, present**2 - (slope[feature] * absent) ** 2, len(excess))
    everywhere = (
        (held_reward**2).sum() - 2 * score * (held_reward * held_held).sum() + score**2 * (held_held**2).sum()
    )
    return np.maximum(squares + slope**2 * everywhere, 0.0)


def effect_beyond(columns: np.ndarray, known: WithinSamples) -> tuple[float, float, int]:
    """Return the effect of the first column beyond the others, its error, and the number of its clusters.

    Parameters
    ----------
    columns : ndarray of float, shape (C, N)
        Minus their groups' means: a feature, then what it is compared beyond.
    known : WithinSamples
        Its held-out score is not used: it may be one of the columns.

    Returns
    -------
    effect, error : float
        NaN if the other columns explain nearly all of the feature.
    clusters : int
        Clusters in which the feature varies.
    """
    feature, others = columns[0], columns[1:]
    products = np.array([[(a * b).sum() for b in others] for a in others])
    weights = np.linalg.lstsq(products, (others * feature).sum(axis=1), rcond=None)[0] if len(others) else []
    alone = feature - sum(weight * each for weight, each in zip(weights, others, strict=True))
    rest = float((alone**2).sum())
    clusters = int(np.count_nonzero(np.bincount(known.cluster, feature**2) > 1e-9))
    if rest <= (1 - _SAME) * float((feature**2).sum()) or clusters < 2:
        return float("nan"), float("nan"), clusters
    effect = float((alone * known.reward).sum()) / rest
    onto = (others * (known.reward - effect * feature)).sum(axis=1)
    fitted = np.linalg.lstsq(products, onto, rcond=None)[0] if len(others) else []
    errors = known.reward - effect * feature - sum(w * each for w, each in zip(fitted, others, strict=True))
    groups = int(known.group.max()) + 1
    equal = float((errors**2).sum()) / max(len(errors) - groups - len(columns), 1) / rest
    sums = np.bincount(known.cluster, alone * errors)
    robust = float((sums**2).sum()) * clusters / (clusters - 1) / rest**2
    return effect, float(np.sqrt(max(equal, robust))), clusters
