"""Tests which streams of two runs part and from which pair on, and finds samples that show it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rlpanel.divergence.paired_streams import PairedStream
from rlpanel.divergence.step_pairs import StepPairs
from rlpanel.errors import RLPanelError
from rlpanel.findings.engine.change_statistic import scored
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.two_windows import thresholds
from rlpanel.findings.engine.window_scan import MIN_STEPS, level_spread, row_median, step_noise
from rlpanel.number_text import DUST
from rlpanel.store.query.filter import Filter, FilterInput
from rlpanel.store.query.filter_columns import FilterScope
from rlpanel.store.snapshot.snapshot import Snapshot

# -- parting -------------------------------------------------------------------------------------------
# Tests which streams of two runs part, and from which pair of steps on; no stream is tested twice.
#
# The difference of a stream is scanned for windows that are higher or lower than earlier ones
# (`rlpanel.findings.engine.window_scan`), and its mean before that is compared with 0, since a difference
# that is there from the start does not change. The chance of naming any difference between equal runs is
# shared out over all streams and steps (Bonferroni), by the streams' weights.


#: Chance of naming any difference between two equal runs.
CHANCE = 0.05
#: Standard errors of a difference that is found in 80 of 100 cases, beyond the limit: the normal quantile.
_POWER = 0.84
#: A limit is at least this.
_MIN_Z = 3.5
#: Fewer steps show no noise of their own, and the largest correlation of neighbouring steps that is believed.
_MIN_KNOWN, _MAX_CORRELATION = 8, 0.7
#: Score of a difference without any noise.
_EXACT = 1e6
#: A difference is there from the start if the first quarter has at least this share of it, and is as clear.
_EARLY, _EARLY_Z = 0.5, 3.0
#: Fewer steps are an outlier, and do not part two runs.
_MIN_AFFECTED = 3
#: Rounds in which an earlier parting is looked for before the one that was found.
_ROUNDS = 3


@dataclass(frozen=True)
class Parting:
    """A stream in which two runs part.

    Attributes
    ----------
    stream : PairedStream
    onset, last : int
        First and last affected pair of steps.
    ongoing : bool
        True if the newest pairs are affected.
    from_start : bool
        True if the runs differ from their first pair on.
    z : float
        Difference in standard errors.
    here, there : float
        Means of both runs over the affected pairs, as displayed.
    error : float
        Standard error of their difference, in the displayed unit; NaN if it is not known.
    sudden : bool
        True if most of the difference appears within a few steps.
    """

    stream: PairedStream
    onset: int
    last: int
    ongoing: bool
    from_start: bool
    z: float
    here: float
    there: float
    error: float
    sudden: bool

    @property
    def difference(self) -> float:
        """Second run minus first run, as displayed."""
        return self.there - self.here


def limits_of(streams: Sequence[PairedStream], pairs: int) -> np.ndarray:
    """Return the least z of each stream, shape (K,), for `CHANCE` over all streams and pairs of steps."""
    weights = np.array([each.stream.weight for each in streams])
    # Streams with equal differences, such as those of missing columns, are one test.
    rows = np.nan_to_num(np.stack([each.difference for each in streams]), nan=np.inf)
    _, same, number = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    weights = weights / number[same.reshape(-1)]
    return np.maximum(thresholds(weights, max(pairs, 1) / CHANCE), _MIN_Z)


def find_partings(streams: Sequence[PairedStream], *, levels: bool) -> list[Parting]:
    """Return the streams in which two runs part, the earliest first.

    Parameters
    ----------
    streams : sequence of PairedStream
    levels : bool
        True if levels can be compared, so that a difference from the start counts: both runs have the same
        prompts. Numbers of the trainer are always compared.
    """
    pairs = len(streams[0].difference) if streams else 0
    if pairs < MIN_STEPS:
        return []
    limits = limits_of(streams, pairs)
    values = np.stack([each.difference / each.least for each in streams])
    variance = np.stack([each.variance / each.least**2 for each in streams])
    error = _pooled(values, variance)
    found: list[Parting] = []
    changes = _changes(values, error, limits)
    for row, stream in enumerate(streams):
        change = changes.get(row)
        end = change.onset if change else pairs
        may_start = levels or stream.is_exact or stream.stream.name.endswith("of the trainer")
        if may_start and (start := _start(values[row], error[row], end, limits[row])) is not None:
            found.append(_parting(stream, start, error[row] * stream.least))
        elif change:
            found.append(_parting(stream, change, error[row] * stream.least))
    return sorted(found, key=lambda each: (each.onset, -min(each.z, 1e6)))


@dataclass(frozen=True)
class _Change:
    """A change of a series: onset, last affected position, and whether it goes on."""

    onset: int
    last: int
    ongoing: bool
    z: float
    sudden: bool
    from_start: bool = False


def _pooled(values: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return the error of each difference, shape (K, S).

    A variance that few groups give varies itself, so that it is at least the median one; nor is it smaller
    than the noise between neighbouring steps of the whole comparison.
    """
    usual = row_median(variance)[:, None]
    return np.sqrt(np.fmax(np.fmax(variance, usual), step_noise(values)[:, None] ** 2))


def _changes(values: np.ndarray, error: np.ndarray, limits: np.ndarray) -> dict[int, _Change]:
    """Return onset, last pair, whether it goes on, z and suddenness of the first change of each stream."""
    found: dict[int, _Change] = {}
    rows, stop = np.arange(len(values)), np.full(len(values), values.shape[1])
    for _ in range(_ROUNDS):
        earlier = dict[int, _Change]()
        for size in np.unique(stop[rows]).tolist():
            members = rows[stop[rows] == size]
            if size >= MIN_STEPS:
                earlier |= _scan(values[members, :size], error[members, :size], limits[members], members)
        for row, change in earlier.items():
            known = found.get(row)
            found[row] = change if known is None else replace(known, onset=change.onset, sudden=change.sudden)
            stop[row] = change.onset
        rows = np.array(sorted(earlier), int)
        if not len(rows):
            break
    return found


def _scan(values: np.ndarray, error: np.ndarray, limits: np.ndarray, rows: np.ndarray) -> dict[int, _Change]:
    """Return the clearest rise or fall of each stream that exceeds its limit."""
    count = len(values)
    both = scored(np.concatenate([values, -values]), np.concatenate([error, error]), 1.0, float(limits.min()))
    found: dict[int, _Change] = {}
    for at in sorted(both.windows, key=lambda each: both.windows[each][0]):
        row = at % count
        if both.best is None or both.best.z[at] <= limits[row]:
            continue
        rise = both.rise(at)
        if rise.last - rise.onset + 1 < _MIN_AFFECTED:
            continue
        z = _confirmed(values[row], error[row], rise.onset, rise.last)
        if z > limits[row]:
            found[int(rows[row])] = _Change(rise.onset, rise.last, rise.ongoing, z, rise.sudden)
    return found


def _confirmed(values: np.ndarray, error: np.ndarray, onset: int, last: int) -> float:
    """Return the difference between the affected steps and those before in standard errors, as a normal one.

    The noise is that of the steps around both levels; neighbouring steps that are alike count as fewer
    (an autoregressive process of the first order). With few steps, Student's t is turned into a normal
    deviate (Wallace 1959).
    """
    if onset < 2 or last <= onset or not np.isfinite(values[:onset]).any():
        return 0.0
    levels = [_mean(values[:onset]), _mean(values[onset : last + 1])]
    rest = np.concatenate(
        [values[:onset] - levels[0], _less_ramp(values[onset : last + 1]), _less_ramp(values[last + 1 :])]
    )
    if abs(levels[1] - levels[0]) <= 1.0:
        return 0.0
    errors = [_error_of(rest, error, part) for part in (slice(0, onset), slice(onset, last + 1))]
    size = float(np.hypot(errors[0][0], errors[1][0]))
    if not np.isfinite(size):
        return 0.0
    t = abs(levels[1] - levels[0]) / size if size > 0 else _EXACT
    return min(t, _EXACT) if all(own for _, own in errors) else _normal(t, int(np.isfinite(rest).sum()) - 3)


def _less_ramp(values: np.ndarray) -> np.ndarray:
    """Return a series less the best fit of a ramp that ends in a level; less its mean if it is short."""
    known = np.flatnonzero(np.isfinite(values))
    if len(known) < _MIN_KNOWN:
        return values - _mean(values)
    best, least = values - _mean(values), np.inf
    for knot in np.unique(np.linspace(2, len(values), 12).astype(int)).tolist():
        ramp = np.minimum(np.arange(len(values)), knot).astype(float)
        slope, level = np.polyfit(ramp[known], values[known], 1)
        rest = values - slope * ramp - level
        size = float(rest[known] @ rest[known])
        if size < least:
            best, least = rest, size
    return best


def _normal(t: float, free: int) -> float:
    """Return the normal deviate that is as rare as Student's t (Wallace 1959)."""
    if free < 1:
        return 0.0
    return float((8 * free + 1) / (8 * free + 3) * np.sqrt(free * np.log1p(min(t, _EXACT) ** 2 / free)))


def _error_of(rest: np.ndarray, error: np.ndarray, part: slice) -> tuple[float, bool]:
    """Return the standard error of the mean of a part, and whether the samples' own errors are all of it.

    Parameters
    ----------
    rest : ndarray of float, shape (S,)
        Differences around their levels.
    error : ndarray of float, shape (S,)
    part : slice
    """
    known = rest[np.isfinite(rest)]
    count = int(np.isfinite(rest[part]).sum())
    if not count:
        return float("nan"), True
    measured = error[part][np.isfinite(rest[part]) & np.isfinite(error[part])]
    own = float(np.mean(measured**2)) / count if len(measured) else float("nan")
    if len(known) < _MIN_KNOWN:
        return float(np.sqrt(own)), True
    spread = float(known @ known) / max(len(known) - 2, 1)
    like = float(known[1:] @ known[:-1]) / float(known @ known) if known.any() else 0.0
    like = float(np.clip(like, 0.0, _MAX_CORRELATION))
    between = spread / count * (1 + like) / (1 - like)
    slow = float(level_spread(rest[None])[0]) ** 2
    noise = float(np.fmax(between, slow))
    return float(np.sqrt(np.fmax(own, noise))), bool(own >= noise)


def _start(values: np.ndarray, error: np.ndarray, end: int, limit: float) -> _Change | None:
    """Return the difference that is there from the first step on, before any change; None without one.

    Parameters
    ----------
    values, error : ndarray of float, shape (S,)
    end : int
        Position of the first change.
    limit : float
        Least z.
    """
    part = slice(0, end)
    known = np.flatnonzero(np.isfinite(values[part]))
    if len(known) < MIN_STEPS:
        return None
    level = _mean(values[part])
    size, own = _error_of(values[part] - level, error[part], part)
    if abs(level) <= 1.0 or not np.isfinite(size):
        return None
    t = abs(level) / size if size > 0 else _EXACT
    z = min(t, _EXACT) if own else _normal(t, len(known) - 2)
    first = slice(0, max(MIN_STEPS, end // 4))
    early = _mean(values[first])
    early_size, _ = _error_of(values[part] - level, error[part], first)
    if z <= limit or early / level < _EARLY or abs(early) <= _EARLY_Z * early_size:
        return None
    return _Change(int(known[0]), len(values) - 1, True, z, True, True)


def _parting(stream: PairedStream, change: _Change, error: np.ndarray) -> Parting:
    part = slice(change.onset, change.last + 1)
    here, there = (_mean(each[part]) for each in (stream.here, stream.there))
    scaled = _mean(stream.difference[part])
    size, _ = _error_of(stream.difference[part] - scaled, error[part], slice(None))
    unit = abs((there - here) / scaled) if scaled else float("nan")
    size = 0.0 if size <= DUST * abs(scaled) else size
    return Parting(
        stream, change.onset, change.last, change.ongoing, change.from_start, change.z, here, there,
        size * unit, change.sudden,
    )  # fmt: skip


def _mean(values: np.ndarray) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def detectable(stream: PairedStream, limit: float) -> float:
    """Return the smallest lasting difference from the middle on that is found in 80 of 100 cases.

    In the displayed unit of the stream; NaN if it is not known.

    Parameters
    ----------
    stream : PairedStream
    limit : float
        Least z of the stream.
    """
    middle = len(stream.difference) // 2
    error = np.sqrt(stream.variance)
    rest = stream.difference - _mean(stream.difference)
    parts = [_error_of(rest, error, part)[0] for part in (slice(0, middle), slice(middle, None))]
    size = max((limit + _POWER) * math.hypot(*parts), stream.least)
    level = _mean(stream.here[middle:])
    if stream.stream.scale == "factor":
        return level * float(np.expm1(size))
    if stream.stream.scale == "share":
        angle = float(np.arcsin(np.sqrt(np.clip(level, 0, 1))))
        up, down = (np.sin(np.clip(angle + sign * size, 0, np.pi / 2)) ** 2 for sign in (1, -1))
        return float(max(abs(up - level), abs(level - down)))
    return size


# -- parting samples -----------------------------------------------------------------------------------
# Samples that show where two runs part: of one prompt in both runs, the largest differences first.


#: Most pairs of samples, and pairs of steps after the onset whose samples are looked at.
MAX_SAMPLES, _AFTER = 5, 5


#: Rows, and the values of the stream's column there.
_Values = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class SamplePair:
    """A sample of each run.

    Attributes
    ----------
    uid, against_uid : str
        Samples of the first and of the second run; empty without one.
    step, against_step : int or None
    value, against_value : float
        The stream's column; NaN without one.
    same_prompt : bool
    """

    uid: str
    against_uid: str
    step: int | None
    against_step: int | None
    value: float
    against_value: float
    same_prompt: bool


def samples_of(parting: Parting, here: RuleContext, there: RuleContext, pairs: StepPairs) -> list[SamplePair]:
    """Return samples of both runs right after a parting, those of the same prompt if the runs share any."""
    part = range(parting.onset, min(parting.onset + _AFTER, parting.last + 1))
    mine, theirs = (
        context.rows[np.isin(pair[context.row_steps], part)]
        for context, pair in ((here, pairs.here), (there, pairs.there))
    )
    column, sign = parting.stream.stream.column, np.sign(parting.difference) or 1.0
    if not len(mine) or not len(theirs):
        return []
    if not column or not all(run.snapshot.has_number(column) for run in (here, there)):
        marked = _where(there, parting.stream.stream.where, theirs)
        return [
            _pair(here.snapshot, there.snapshot, None, int(row), "") for row in marked[:MAX_SAMPLES].tolist()
        ]
    values, others = (run.snapshot.counted(column, rows) for run, rows in ((here, mine), (there, theirs)))
    found = _of_prompts(here.snapshot, there.snapshot, (mine, values), (theirs, others), sign)
    if not found:
        order = np.argsort(-sign * np.where(np.isfinite(others), others, -sign * np.inf), kind="stable")
        middle = np.argsort(np.abs(values - np.nanmedian(values)) if np.isfinite(values).any() else values)
        found = list(
            zip(mine[middle[:MAX_SAMPLES]].tolist(), theirs[order[:MAX_SAMPLES]].tolist(), strict=False)
        )
    return [_pair(here.snapshot, there.snapshot, a, b, column) for a, b in found]


def _of_prompts(
    here: Snapshot, there: Snapshot, mine: _Values, theirs: _Values,
    sign: float,
) -> list[tuple[int, int]]:  # fmt: skip
    """Return rows of the same prompts, the largest differences of their means first."""
    sides = []
    for snapshot, (rows, values) in ((here, mine), (there, theirs)):
        known = np.isfinite(values)
        rows, values = rows[known], values[known]
        keys, cell = np.unique(snapshot.prompts(rows), return_inverse=True)
        mean = np.bincount(cell, values) / np.maximum(np.bincount(cell), 1)
        near = np.lexsort((np.abs(values - mean[cell]), cell))
        first = near[np.unique(cell[near], return_index=True)[1]] if len(near) else near
        sides.append((keys, mean, rows[first]))
    (keys, mean, rows), (other_keys, other_mean, other_rows) = sides
    shared, at, other_at = np.intersect1d(keys, other_keys, return_indices=True)
    if not len(shared):
        return []
    order = np.argsort(-sign * (other_mean[other_at] - mean[at]), kind="stable")[:MAX_SAMPLES]
    return list(zip(rows[at[order]].tolist(), other_rows[other_at[order]].tolist(), strict=True))


def _where(context: RuleContext, where: str, rows: np.ndarray) -> np.ndarray:
    """Return those rows that a filter passes; all if it cannot be applied."""
    if not where:
        return rows
    scope = FilterScope(context.snapshot, rows)
    try:
        return rows[Filter(where, scope.kinds()).evaluate(FilterInput(scope)).sure]
    except RLPanelError:
        return rows


def _pair(here: Snapshot, there: Snapshot, a: int | None, b: int, column: str) -> SamplePair:
    def of(snapshot: Snapshot, row: int | None) -> tuple[str, int | None, float, int]:
        if row is None:
            return "", None, float("nan"), -1
        at = np.array([row])
        value = float(snapshot.counted(column, at)[0]) if column else float("nan")
        return snapshot.uid(row), int(snapshot.metadata("step")[row]), value, int(snapshot.prompts(at)[0])

    mine, theirs = of(here, a), of(there, b)
    same = a is not None and mine[3] == theirs[3]
    return SamplePair(mine[0], theirs[0], mine[1], theirs[1], mine[2], theirs[2], same)
