"""Reads the judge calls of a run's samples, and compares the judges with each other and with a reward.

Scores are numbers, so a disagreement counts by the square of its size. For verdicts of 0 and 1 the
coefficients of agreement are the usual, unweighted ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from rlpanel.errors import RLPanelError
from rlpanel.schema import JudgeCall
from rlpanel.sources.records.judge_calls import score_by_judge
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_record, file_order
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.sample_places import spread_rows
from rlpanel.store.snapshot.snapshot import Snapshot


def weighted_kappa(one: np.ndarray, other: np.ndarray) -> float:
    r"""Return Cohen's kappa with quadratic weights of two judges' scores.

    .. math:: \kappa = 1 - \frac{\sum_i (a_i - b_i)^2 / n}{\sum_{i,j} (a_i - b_j)^2 / n^2}

    1 is perfect agreement, 0 that of judges who score independently with the same shares.

    Parameters
    ----------
    one, other : ndarray of float64, shape (N,)
        Scores of the same samples; those that either judge lacks (NaN) are left out.

    Returns
    -------
    float
        NaN without a common sample, or if both judges always give the same score.

    References
    ----------
    Cohen, "Weighted kappa", Psychological Bulletin 70 (1968). For numbers it equals the concordance
    coefficient of Lin, Biometrics 45 (1989), with variances divided by n.
    """
    both = np.isfinite(one) & np.isfinite(other)
    a, b = one[both], other[both]
    if not len(a):
        return float("nan")
    chance = a.var() + b.var() + (a.mean() - b.mean()) ** 2
    return round(float(1 - np.mean((a - b) ** 2) / chance), 12) if chance > 0 else float("nan")


def krippendorff_alpha(scores: np.ndarray) -> float:
    r"""Return Krippendorff's alpha with the interval metric, for any number of judges and missing scores.

    .. math:: \alpha = 1 - \frac{D_o}{D_e}, \quad
        D_o = \frac{1}{n} \sum_u \frac{\sum_{i \ne j} (x_{ui} - x_{uj})^2}{m_u - 1}, \quad
        D_e = \frac{\sum_{k \ne l} (x_k - x_l)^2}{n (n - 1)}

    Parameters
    ----------
    scores : ndarray of float64, shape (N, J)
        One row per sample, one column per judge, NaN without a score. Rows with fewer than two scores are
        left out; n is the number of the other scores.

    Returns
    -------
    float
        NaN if no sample has two scores, or if all scores are equal.

    References
    ----------
    Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), section E.
    """
    found = np.isfinite(scores)
    rows = found.sum(axis=1) >= 2
    values, known = scores[rows], found[rows]
    count = int(known.sum())
    if not count:
        return float("nan")
    filled = np.where(known, values - np.nanmean(values), 0.0)
    size = known.sum(axis=1)
    # Σ_{i≠j} (x_i - x_j)² = 2 (m Σ x² - (Σ x)²)
    inside = 2 * (size * (filled**2).sum(axis=1) - filled.sum(axis=1) ** 2)
    observed = (inside / (size - 1)).sum() / count
    expected = 2 * (count * (filled**2).sum() - filled.sum() ** 2) / (count * (count - 1))
    return float(1 - observed / expected) if expected > 1e-12 else float("nan")


def equal_share(one: np.ndarray, other: np.ndarray) -> float:
    """Return the share of the common samples at which two judges give the same score; NaN without any."""
    both = np.isfinite(one) & np.isfinite(other)
    return float(np.isclose(one[both], other[both], rtol=0, atol=1e-9).mean()) if both.any() else float("nan")


#: Column that counts a sample's calls; samples between two reports of progress; most judges with a row.
CALLS, _PULSE, MAX_JUDGES = "judge_calls", 64, 100
#: Samples at which judges disagree most, that are named.
DISAGREEMENTS = 20


@dataclass
class JudgeRow:
    """Calls, scores and agreement of one judge, over the samples that were read.

    Attributes
    ----------
    name : str
    models : list of str
    calls, missing, failed : int
        Calls; those without a verdict, or that failed; those of them that failed.
    other_verdicts : int
        Calls whose verdict is not a number and stands for none.
    samples : int
        Samples with a score.
    mean, kappa, equal, alpha_without, kappa_reward : float
        Mean score; weighted kappa with, and share of equal scores of, the other judges: means over their
        common samples; alpha of the other judges alone; kappa with the reward. NaN where nothing is known.
    seconds, prompt_tokens, answer_tokens, cost : float
        Sums over the calls that log them; NaN if none does.
    timed : int
        Calls that log their seconds.
    """

    name: str
    models: list[str] = field(default_factory=list)
    calls: int = 0
    missing: int = 0
    failed: int = 0
    other_verdicts: int = 0
    samples: int = 0
    mean: float = np.nan
    kappa: float = np.nan
    equal: float = np.nan
    alpha_without: float = np.nan
    kappa_reward: float = np.nan
    seconds: float = np.nan
    timed: int = 0
    prompt_tokens: float = np.nan
    answer_tokens: float = np.nan
    cost: float = np.nan

    def add(self, call: JudgeCall) -> None:
        """Count a call."""
        self.calls += 1
        self.missing += call.is_missing
        self.failed += bool(call.error)
        self.other_verdicts += bool(call.verdict) and not call.is_missing and not np.isfinite(call.score)
        self.timed += bool(np.isfinite(call.seconds))
        if call.model and call.model not in self.models:
            self.models.append(call.model)
        for name in ("seconds", "prompt_tokens", "answer_tokens", "cost"):
            value, before = getattr(call, name), getattr(self, name)
            if np.isfinite(value):
                setattr(self, name, value + (before if np.isfinite(before) else 0.0))


@dataclass(frozen=True)
class Disagreement:
    """A sample at which judges disagree: the largest minus the smallest score, and all scores."""

    uid: str
    step: int
    spread: float
    scores: dict[str, float]


@dataclass(frozen=True)
class JudgeStudy:
    """Results so far; ``judges`` is empty while samples are read.

    Attributes
    ----------
    read, total, unread : int
        Samples that were read, samples with judge calls, and those whose line cannot be read any more.
    left_out : int
        Samples with judge calls beyond the limit, which were not read.
    judges : tuple of JudgeRow
        Those with most calls first.
    alpha : float
    other_judges : int
        Judges beyond `MAX_JUDGES`, which have no row.
    disagreements : tuple of Disagreement
        The largest first.
    is_done : bool
        False while samples are read.
    """

    read: int
    total: int
    unread: int = 0
    left_out: int = 0
    judges: tuple[JudgeRow, ...] = ()
    alpha: float = np.nan
    other_judges: int = 0
    disagreements: tuple[Disagreement, ...] = ()
    is_done: bool = False


def has_judges(snapshot: Snapshot) -> bool:
    """Return whether samples of the run log calls of judges."""
    return bool(snapshot.has_number(CALLS))


def study_judges(
    index: RunIndex, view: RunView, against: str = "valid_reward", most: int | None = None
) -> Iterator[JudgeStudy]:
    """Yield progress, and last the comparison of the judges.

    Several rows of one episode that share their outcome count once, by its last row.

    Parameters
    ----------
    index : RunIndex
    view : RunView
    against : str
        Column that the judges are compared with.
    most : int, optional
        Largest number of samples that are read, spread over the run; all by default.
    """
    snapshot = view.snapshot
    rows = snapshot.alive_rows
    rows = rows[np.nan_to_num(snapshot.number(CALLS)[rows]) > 0] if has_judges(snapshot) else rows[:0]
    rows = snapshot.with_outcome(rows)
    total = len(rows)
    if most is not None:
        rows = spread_rows(rows, most)
    found: dict[str, JudgeRow] = {}
    scores: list[dict[str, float]] = []
    read: list[int] = []
    for row in rows[file_order(snapshot, rows)].tolist():
        try:
            agent = fetch_record(index, snapshot, row).agent
        except (RLPanelError, IndexError):  # the file changed meanwhile; the index updates shortly
            continue
        calls = agent.judge_calls if agent is not None else ()
        for call in calls:
            found.setdefault(call.name, JudgeRow(call.name)).add(call)
        scores.append(score_by_judge(calls))
        read.append(row)
        if len(read) % _PULSE == 0:
            yield JudgeStudy(len(read), len(rows))
    names = [name for name, _ in Counter({each.name: each.calls for each in found.values()}).most_common()]
    known = np.array(read, np.int64)
    reward = view.values(against, known) if view.has(against) else np.full(len(known), np.nan)
    matrix = np.array([[each.get(name, np.nan) for name in names[:MAX_JUDGES]] for each in scores])
    matrix = matrix.reshape(len(scores), min(len(names), MAX_JUDGES))
    judges = [found[name] for name in names[:MAX_JUDGES]]
    _compare(judges, matrix, reward)
    yield JudgeStudy(
        len(read),
        total,
        len(rows) - len(read),
        total - len(rows),
        tuple(judges),
        krippendorff_alpha(matrix),
        len(names) - len(judges),
        tuple(_disagreements(snapshot, known, scores)),
        is_done=True,
    )


def _compare(judges: Sequence[JudgeRow], scores: np.ndarray, reward: np.ndarray) -> None:
    """Set what follows from the scores, shape (samples, judges)."""
    for at, judge in enumerate(judges):
        own = scores[:, at]
        judge.samples = int(np.isfinite(own).sum())
        judge.mean = float(np.nanmean(own)) if judge.samples else np.nan
        judge.kappa_reward = weighted_kappa(own, reward)
        others = np.delete(scores, at, axis=1)
        common = (np.isfinite(own)[:, None] & np.isfinite(others)).sum(axis=0)
        for name, compare in (("kappa", weighted_kappa), ("equal", equal_share)):
            values = np.array([compare(own, others[:, other]) for other in range(others.shape[1])])
            known = np.isfinite(values)
            if known.any():
                setattr(judge, name, float(np.average(values[known], weights=common[known])))
        judge.alpha_without = krippendorff_alpha(others) if others.shape[1] > 1 else np.nan


def _disagreements(
    snapshot: Snapshot, rows: np.ndarray, scores: Sequence[dict[str, float]]
) -> Iterator[Disagreement]:
    spread = np.array([max(each.values()) - min(each.values()) if len(each) > 1 else 0.0 for each in scores])
    order = np.argsort(-spread, kind="stable")[:DISAGREEMENTS]
    steps, uids = snapshot.metadata("step")[rows], snapshot.uids(rows)
    for at in order[spread[order] > 0].tolist():
        yield Disagreement(uids[at], int(steps[at]), float(spread[at]), scores[at])
