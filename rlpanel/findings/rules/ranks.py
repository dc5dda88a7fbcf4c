"""Rules on ranks that repeat samples of another rank or of earlier steps, and on ranks that differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rlpanel.findings.engine.change import number, percent, span, standard_errors
from rlpanel.findings.engine.change_finding import severity_of
from rlpanel.findings.engine.change_statistic import fit_step
from rlpanel.findings.engine.evaluation_run import is_evaluation
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.label_mix import has_other_data
from rlpanel.findings.engine.places import MEAN, SAMPLES, VARIANCE
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.share_rule import ShareRule, share_findings
from rlpanel.findings.engine.signal import RowBatch, Signal, column_signal, long_stretches, mark, signal
from rlpanel.store.columns.related_rows import has_key, mix
from rlpanel.store.snapshot.snapshot import Snapshot

#: Shorter responses repeat by chance.
_MIN_CHARS = 16
#: Share of a rank's samples that repeats others.
_REPEATED = 0.5
#: The same of an evaluation, whose greedy responses change with the policy only.
_FROZEN = 0.99
#: Steps in a row.
_STEPS = 2
#: Earlier steps that are searched for equal samples, and rise of the share of such samples.
_BACK, _AGAIN = 10, 0.15


def _keys(snapshot: Snapshot, rows: np.ndarray) -> np.ndarray:
    """Return a hash of prompt and response of each row, shape (N,)."""
    prompt, response = (snapshot.metadata(name)[rows] for name in ("prompt_hash", "response_hash"))
    return prompt ^ (response * np.uint64(3))


def _known(rows: RowBatch) -> np.ndarray:
    """Return the mask of rows whose response is long enough to be compared, shape (N,)."""
    return rows.number("response_chars") >= _MIN_CHARS


@signal("equals_lower_rank", "response_chars")
def _equals_lower_rank(rows: RowBatch) -> np.ndarray:
    """Mark samples that a lower rank has in the same step."""
    key, rank = _keys(rows.view.snapshot, rows.rows), rows.metadata("rank")
    order = np.lexsort((rank, key, rows.position))
    sorted_key, sorted_step = key[order], rows.position[order]
    first = np.append(True, (np.diff(sorted_step) != 0) | (sorted_key[1:] != sorted_key[:-1]))[: len(order)]
    lowest = np.empty_like(rank)
    lowest[order] = rank[order][np.flatnonzero(first)][np.cumsum(first) - 1]
    # Where a rank repeats its own samples, too, all responses are alike and no rank copies another.
    own = np.append(False, (np.diff(rank[order]) == 0) & ~first[1:])[: len(order)]
    repeated = np.empty(len(order), bool)
    repeated[order] = own | np.append(own[1:], False)[: len(order)]
    return mark((lowest < rank) & ~repeated, _known(rows))


@signal("equals_step_before", "response_chars")
def equals_step_before(rows: RowBatch) -> np.ndarray:
    """Mark samples that the same rank has in the step before."""
    snapshot, around = rows.view.snapshot, rows.with_step_before()
    every = snapshot.steps.values
    step, rank = (snapshot.metadata(name) for name in ("step", "rank"))
    known = _triples(_keys(snapshot, around), rank[around], np.searchsorted(every, step[around]))
    wanted = _triples(
        _keys(snapshot, rows.rows), rank[rows.rows], np.searchsorted(every, step[rows.rows]) - 1
    )
    return mark(has_key(wanted, known), _known(rows))


def _triples(key: np.ndarray, rank: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return a hash of key, rank and step, shape (N,)."""
    mixed = (rank.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= (step.astype(np.int64) + 1).astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
    return key.astype(np.uint64) ^ mixed


@rule("Rank repeats another rank")
def rank_repeats(context: RuleContext) -> Iterator[Finding]:
    """Half of a rank's samples equal samples of a lower rank in the same step, two steps in a row.

    Prompt and response must be equal, and the response must have at least 16 characters. Lines that are equal
    in all fields count here, although they count once elsewhere.
    """
    names, ranks = context.ranks()
    if not names or not context.available(_equals_lower_rank):
        return
    table = context.table(_equals_lower_rank)[:, ranks]
    copies = _copied_lines(context, names)
    with np.errstate(all="ignore"):
        total = np.nan_to_num(table[SAMPLES]) + copies
        share = np.nan_to_num((np.nan_to_num(table[MEAN] * table[SAMPLES]) + copies) / total)
    for rank, name in enumerate(names):
        mask = long_stretches(share[rank] >= _REPEATED, min(_STEPS, share.shape[1]))
        if mask.any():
            source = _source(context, int(name), mask)
            yield _finding(
                context,
                mask,
                share[rank],
                f"Rank {name} repeats the samples of {source} in {span(context.steps, mask)}.",
                "Check the seed and the data shard of each rank.",
                name,
            )


@rule("Rank repeats itself")
def rank_stale(context: RuleContext) -> Iterator[Finding]:
    """Half of a rank's samples equal its own samples of the step before, two steps in a row.

    Prompt and response must be equal, and the response must have at least 16 characters. Of an evaluation,
    99% must be equal: with greedy sampling many are.
    """
    if not context.available(equals_step_before):
        return
    means = np.nan_to_num(context.table(equals_step_before)[MEAN])
    names, ranks = context.ranks()
    whole, shares = means[0], means[ranks]
    least, enough = min(_STEPS, len(whole)), _FROZEN if is_evaluation(context) else _REPEATED
    stale = [long_stretches(share >= enough, least) for share in shares]
    found = [rank for rank, mask in enumerate(stale) if mask.any()]
    advice = "Check whether the engine still generates, and with new weights."
    if found and len(found) < len(names):
        for rank in found:
            where = span(context.steps, stale[rank])
            sentence = f"Rank {names[rank]} repeats its samples of the step before in {where}."
            yield _finding(context, stale[rank], shares[rank], sentence, advice, names[rank])
        return
    mask = long_stretches(whole >= enough, least)
    if mask.any():
        sentence = f"The samples of {span(context.steps, mask)} repeat those of the step before."
        yield _finding(context, mask, whole, sentence, advice, "")


@signal("exactly_before", "response_chars", "surprisal_mean")
def _exactly_before(rows: RowBatch) -> np.ndarray:
    """Mark samples that an earlier one of some steps equals in prompt, response and surprisal."""
    snapshot, every = rows.view.snapshot, rows.view.snapshot.steps.values
    if not len(rows):
        return np.empty(0)
    first, last = np.searchsorted(every, [rows.steps[0], rows.steps[-1]])
    near = snapshot.rows_of_steps(every[max(0, int(first) - _BACK) : int(last) + 1])
    step = snapshot.metadata("step")[near]
    # A policy that has learnt since gives the same text another probability.
    surprisal = snapshot.number("surprisal_mean")[near]
    key = _keys(snapshot, near) ^ mix(surprisal.astype(np.float64).view(np.uint64))
    at = np.searchsorted(every, step)
    order = np.lexsort((at, key))
    gap = np.diff(at[order])
    again = np.zeros(len(near), bool)
    # Of equal samples of one step, the first decides: the others follow with a gap of 0.
    again[order[1:]] = (np.diff(key[order]) == 0) & (gap > 0) & (gap <= _BACK)
    found = has_key(_triples(key, at, at), _triples(key[again], at[again], at[again]))
    repeated = found & np.isfinite(surprisal)
    return mark(repeated[np.searchsorted(near, rows.rows)], _known(rows))


@rule("Samples of earlier steps again", "change_z")
def samples_again(context: RuleContext) -> Iterator[Finding]:
    """The share of samples that equal one of the ten steps before rises by 15 points, from at most 5%.

    Prompt, response and surprisal must be equal: a policy that has learnt gives a text another one. A rise
    is tested by two windows of steps. Evaluations, which repeat their prompts, are left out.
    """
    if is_evaluation(context):
        return
    yield from share_findings(
        context,
        ShareRule(
            signal=_exactly_before,
            verb="equal one of an earlier step in prompt, response and logprobs",
            noun="samples of earlier steps",
            of="of the samples",
            rise=_AGAIN,
            at_most_before=0.05,
            harmful=2.0,
            tab="prompt",
            advice="A replay buffer or a cache gives old rollouts again: check how it is filled, and whether "
            "their age is meant to be this large.",
        ),
    )


def _finding(
    context: RuleContext, mask: np.ndarray, share: np.ndarray, sentence: str, advice: str, rank: str
) -> Finding:
    return Finding(
        severity=severity_of(context, mask, harmful=not is_evaluation(context)),
        sentence=sentence,
        evidence=(
            f"{percent(float(share[mask].mean()))} of {'its' if rank else 'the'} samples in these steps are "
            "equal in prompt and response.",
        ),
        advice=advice,
        steps=tuple(context.steps[mask].tolist()),
        ongoing=bool(mask[-1]),
        worst=int(context.steps[int(np.argmax(np.where(mask, share, -1)))]),
        rank=int(rank) if rank else None,
        where=f"rank == {rank}" if rank else "",
        subject=rank,
    )


def _copied_lines(context: RuleContext, names: list[str]) -> np.ndarray:
    """Return how many lines of each rank and step equal an earlier line in all fields, shape (R, S).

    Where a rank repeats its own lines, too, all responses are alike and no rank copies another.
    """
    snapshot = context.snapshot
    rows = _without_own_copies(context, snapshot.duplicate_rows)
    rank, step = (snapshot.metadata(name)[rows] for name in ("rank", "step"))
    ranks = np.array([int(name) for name in names])
    inside = np.isin(rank, ranks) & np.isin(step, context.steps)
    cell = np.searchsorted(ranks, rank[inside]) * len(context.steps)
    cell += np.searchsorted(context.steps, step[inside])
    counts = np.bincount(cell, minlength=len(ranks) * len(context.steps))
    return counts.reshape(len(ranks), len(context.steps)).astype(float)


def _without_own_copies(context: RuleContext, copies: np.ndarray) -> np.ndarray:
    """Return the copied rows whose prompt and response no rank has twice in that step."""
    if not len(copies):
        return copies
    snapshot = context.snapshot
    rank, step = (snapshot.metadata(name) for name in ("rank", "step"))
    rows = np.concatenate([context.rows[np.isin(step[context.rows], step[copies])], copies])
    own = _triples(_keys(snapshot, rows), rank[rows], step[rows])
    anywhere = _triples(_keys(snapshot, rows), np.zeros_like(rows), step[rows])
    _, index, count = np.unique(own, return_inverse=True, return_counts=True)
    return copies[~has_key(anywhere[-len(copies) :], anywhere[count[index] > 1])]


def _source(context: RuleContext, rank: int, mask: np.ndarray) -> str:
    """Return which lower rank has most of a rank's samples in the marked steps, in words."""
    snapshot = context.snapshot
    rows = np.sort(np.concatenate([context.rows, snapshot.duplicate_rows]))
    rows = rows[np.isin(snapshot.metadata("step")[rows], context.steps[mask])]
    ranks, key = snapshot.metadata("rank")[rows], _keys(snapshot, rows)
    others = [
        (int(has_key(key[ranks == rank], key[ranks == other]).sum()), -int(other))
        for other in np.unique(ranks[ranks < rank]).tolist()
    ]
    return f"rank {-max(others)[1]}" if others else "another rank"


#: Lengths of the windows over which a rank is compared, and its distance in standard errors.
_WINDOWS, _Z = (4, 10), 6.5
#: Sums in another order may move a number by less than this.
_ROUNDED = 1 - 1e-9


@dataclass(frozen=True)
class _Compared:
    """A number by which ranks are compared, and the smallest difference of interest."""

    signal: Signal
    noun: str
    column: str
    #: In standard deviations of the samples, or as a logarithm of a factor.
    least: float


def _compared(context: RuleContext) -> list[_Compared]:
    length = "response_tokens" if context.snapshot.has_number("response_tokens") else "response_chars"
    return [
        _Compared(column_signal("reward"), "a mean reward", "reward", 0.5),
        _Compared(column_signal(length, "positive"), "a mean response length", length, np.log(1.5)),
        _Compared(column_signal("surprisal_mean"), "a mean surprisal", "surprisal_mean", 0.75),
        _Compared(column_signal("log_ratio_mean"), "a mean log-ratio", "log_ratio_mean", 1.0),
    ]


@rule("Rank differs")
def rank_differs(context: RuleContext) -> Iterator[Finding]:
    """The mean reward, length, surprisal or log-ratio of one rank leaves that of the other ranks.

    The difference must exceed half a standard deviation of the samples (length: a factor of 1.5) and 6.5
    standard errors, clustered by group, in windows of four or ten steps. It is an info if the mix of a label
    explains it.
    """
    for compared in _compared(context):
        if context.available(compared.signal) and len(context.ranks()[0]):
            yield from _differing_rank(context, compared)


def _differing_rank(context: RuleContext, compared: _Compared) -> Iterator[Finding]:
    names, rows = context.ranks()
    table = context.table(compared.signal)[:, rows]
    is_positive, least = compared.signal.kind == "positive", compared.least
    if not is_positive:
        spread = context.spread(compared.column)
        if not np.isfinite(spread):  # nothing to compare a difference with
            return
        least *= spread
    if not _may_differ(context, compared.signal, table, least):
        return
    gap, rest = _gaps(table, positive=is_positive)
    widths = [min(width, gap.shape[1]) for width in _WINDOWS]
    error = _gap_errors(table, rest, positive=is_positive)
    both = np.concatenate([gap, error**2])
    found = [
        _clearest(mean[: len(gap)], mean[len(gap) :], least, width)
        for mean, width in zip(_trailing(both, *widths), widths, strict=True)
    ]
    scores, far, width = max(found, key=lambda each: float(each[0].max()))
    if not scores.any():
        return
    row = int(scores.argmax())
    if len(scores) == 2:
        row = _moved(context.table(compared.signal)[:, rows], far, width)
    mask = differing_stretch(far[row], gap[row], width)
    level, others = _levels(table, row, mask)
    sign = "above" if level > others else "below"
    label = has_other_data(context, compared.column, int(names[row]), mask, level - others)
    other_data = f" Its data is other: the mix of {label} explains it." if label else ""
    yield Finding(
        severity="info" if label else severity_of(context, mask, harmful=True),
        sentence=(
            f"Rank {names[row]} has {compared.noun} of {number(level)} in {span(context.steps, mask)}, "
            f"{sign} the other ranks' {number(others)}.{other_data}"
        ),
        evidence=(
            f"Difference: {standard_errors(float(scores[row]))}, clustered by group, in the clearest "
            f"{width} steps.",
        ),
        advice="Compare this rank's data shard, seed, weights and hardware with those of the other ranks.",
        steps=tuple(context.steps[mask].tolist()),
        ongoing=bool(mask[-1]),
        worst=int(context.steps[np.argmax(np.where(mask, np.nan_to_num(np.abs(gap[row])), -1))]),
        rank=int(names[row]),
        column=compared.column,
        where=f"rank == {names[row]}",
        sort=compared.column,
        subject=f"{names[row]} {compared.column}",
    )


def _may_differ(context: RuleContext, signal: Signal, table: np.ndarray, least: float) -> bool:
    """Return False if no window of a rank differs enough, with its own error alone.

    The usual error of all steps, which counts too, need not be known then. Of a new step, the windows that
    end at it are looked at.
    """
    if table.shape[-1] < max(_WINDOWS):
        return True
    is_positive = signal.kind == "positive"

    def windows(first: int) -> np.ndarray:
        start = max(0, first - max(_WINDOWS) + 1)
        part = table[..., start:]
        gap, rest = _gaps(part, positive=is_positive)
        both = np.concatenate([gap, _gap_variance(part, rest, positive=is_positive)])
        found = []
        for width, mean in zip(_WINDOWS, _trailing(both, *_WINDOWS), strict=True):
            size = np.abs(mean[: len(gap)])
            with np.errstate(all="ignore"):
                found.append([size, size / np.sqrt(mean[len(gap) :] / width)])
        return np.array(found)[..., first - start :]

    size, score = context.place_series.grown(
        ("ranks", signal.name, tuple(context.ranks()[0])), windows
    ).swapaxes(0, 1)
    return bool(((size > least * _ROUNDED) & ~(score < _Z * _ROUNDED)).any())


def _clearest(
    mean: np.ndarray, variance: np.ndarray, least: float, width: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return each rank's largest difference in standard errors, and which windows differ, (P,) and (P, S).

    Parameters
    ----------
    mean, variance : ndarray of float, shape (P, S)
        Means of the difference and of its variance over the ``width`` steps that end at each step.
    """
    mean_error = np.sqrt(variance / width)
    with np.errstate(all="ignore"):
        far = (np.abs(mean) > least) & (np.abs(mean) > _Z * mean_error)
        return np.where(far, np.abs(mean) / mean_error, 0.0).max(axis=1), far, width


def _moved(table: np.ndarray, far: np.ndarray, width: int) -> int:
    """Return which of two ranks moved away from its level before; the second if there was none."""
    first = int(far.any(axis=0).argmax())
    onset = first - width + 1
    early, late = table[MEAN][:, max(0, onset - width) : onset], table[MEAN][:, onset : first + 1]
    if not (np.isfinite(early).any(axis=1).all() and np.isfinite(late).any(axis=1).all()):
        return 1
    return int(np.abs(np.nanmean(late, axis=1) - np.nanmean(early, axis=1)).argmax())


def _gaps(table: np.ndarray, *, positive: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return each rank's mean less that of all others, and the mean of the others, shape (P, S)."""
    with np.errstate(all="ignore"):
        weight = table[SAMPLES]
        total = np.nan_to_num(table[MEAN]) * weight
        rest_weight = weight.sum(axis=0) - weight
        rest = (total.sum(axis=0) - total) / rest_weight
        return (np.log(table[MEAN]) - np.log(rest) if positive else table[MEAN] - rest), rest


def _gap_errors(table: np.ndarray, rest: np.ndarray, *, positive: bool) -> np.ndarray:
    """Return the error of each rank's mean less that of all others, shape (P, S)."""
    variance = _gap_variance(table, rest, positive=positive)
    usual = np.nanmedian(np.sqrt(variance)) if np.isfinite(variance).any() else np.nan
    return np.fmax(np.sqrt(variance), usual / 2)


def _gap_variance(table: np.ndarray, rest: np.ndarray, *, positive: bool) -> np.ndarray:
    """Return the variance of each rank's mean less that of all others, of its own step, shape (P, S)."""
    with np.errstate(all="ignore"):
        weight = table[SAMPLES]
        rest_weight = weight.sum(axis=0) - weight
        spread = np.nan_to_num(table[VARIANCE]) * weight**2
        rest_variance = (spread.sum(axis=0) - spread) / rest_weight**2
        if positive:
            found: np.ndarray = table[VARIANCE] / table[MEAN] ** 2 + rest_variance / rest**2
        else:
            found = table[VARIANCE] + rest_variance
    return found


def _trailing(values: np.ndarray, *widths: int) -> list[np.ndarray]:
    """Return the mean of the last values at each step, for each width; NaN for the first ones, (P, S)."""
    known = np.isfinite(values)
    sums = np.zeros((2, len(values), values.shape[1] + 1))
    np.cumsum(np.stack([known, np.where(known, values, 0.0)]), axis=2, out=sums[:, :, 1:])
    found = []
    for width in widths:
        count, total = sums[:, :, width:] - sums[:, :, :-width]
        means = np.full(values.shape, np.nan)
        means[:, width - 1 :] = np.where(count == width, total / width, np.nan)
        found.append(means)
    return found


def differing_stretch(far: np.ndarray, gap: np.ndarray, width: int) -> np.ndarray:
    """Return the steps from where the rank begins to differ to where half of the difference is gone, (S,).

    The last windows that still differ by half may be too noisy to show it alone.
    """
    first, last = _longest(np.flatnonzero(far), 2 * width)
    start = max(0, first - 2 * width + 1)
    if first >= width:  # else all windows differ, from the first step on
        part = np.nan_to_num(gap[start : first + 1])
        start += fit_step(part)[1]
    half = np.nanmean(gap[start : last + 1]) / 2
    ended = _trailing(gap[None], min(width, _WINDOWS[0]))[0][0, last + 1 :] * np.sign(half) < abs(half)
    mask = np.zeros(len(far), bool)
    mask[start : last + 1 + (int(ended.argmax()) if ended.any() else len(ended))] = True
    return mask


def _longest(positions: np.ndarray, most: int) -> tuple[int, int]:
    """Return the first and last position of the longest part whose gaps are at most ``most``."""
    parts = np.split(positions, np.flatnonzero(np.diff(positions) > most) + 1)
    longest = max(parts, key=len)
    return int(longest[0]), int(longest[-1])


def _levels(table: np.ndarray, row: int, mask: np.ndarray) -> tuple[float, float]:
    """Return the mean of a rank and of all others in the marked steps."""
    weight, total = table[SAMPLES][:, mask], (np.nan_to_num(table[MEAN]) * table[SAMPLES])[:, mask]
    others = np.arange(len(table[MEAN])) != row
    return float(total[row].sum() / weight[row].sum()), float(total[others].sum() / weight[others].sum())
