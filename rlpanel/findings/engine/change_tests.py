"""Changes of signals: tested for the whole run and each place, and limited to the place where they hold."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from rlpanel.findings.engine.change import Change
from rlpanel.findings.engine.change_statistic import (
    Rise,
    Scored,
    continued,
    rise_onset,
    step_errors,
)
from rlpanel.findings.engine.places import (
    MEAN,
    SAMPLES,
    VARIANCE,
    WHOLE,
    WHOLE_RUN,
    Place,
    codes_of,
    independent_samples,
    rows_by_dimension,
)
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.signal import Signal, long_stretches, stretches
from rlpanel.findings.engine.window_scan import MIN_STEPS, Base, Best, Scan, after_together


class PlaceTable:
    """Means of a signal in the whole run and all places, in the scale in which changes are measured.

    Attributes
    ----------
    places : tuple of Place
        The whole run first.
    mean : ndarray of float, shape (K, S)
        Means by step, as displayed.
    is_share : bool

    The scale of the test is the logarithm of positive numbers, and of the odds of some shares; falls are
    negated.
    """

    def __init__(self, context: RuleContext, signal: Signal, sign: int = 1) -> None:
        self.places = context.place_series.places
        self._table, self._signal, self._sign = context.table(signal), signal, sign
        self.mean = self._table[MEAN]
        self.is_share = signal.kind == "share"

    def read(self, first: int, stop: int, rows: slice = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances of some steps in the scale of the test, for some places."""
        mean, variance = (self._table[part, rows, first:stop] for part in (MEAN, VARIANCE))
        if self._signal.kind == "odds":
            samples = np.fmax(self._table[SAMPLES, rows, first:stop], 1)
            share = (mean * samples + 0.5) / (samples + 1)  # never 0 or 1
            slope = share * (1 - share)
            return self._sign * np.log(share / (1 - share)), variance / slope**2
        if self._signal.kind != "positive":
            return (mean if self._sign > 0 else -mean), variance
        with np.errstate(all="ignore"):
            level = np.where(mean > 0, mean, np.nan)
            return self._sign * np.log(level), variance / level**2

    def read_row(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the means and variances of one place in the scale of the test, shape (S,) each."""
        values, variance = self.read(0, self.mean.shape[1], slice(row, row + 1))
        return values[0], variance[0]

    def row(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the means and errors of one place in the scale of the test, shape (S,) each."""
        values, variance = self.read_row(row)
        return values, step_errors(values[None], variance[None])[0]

    @cached_property
    def _scaled(self) -> tuple[np.ndarray, np.ndarray]:
        return self.read(0, self.mean.shape[1])

    @property
    def scaled(self) -> np.ndarray:
        """Means in the scale of the test, shape (K, S)."""
        return self._scaled[0]

    @property
    def variance(self) -> np.ndarray:
        """Variances of these means, shape (K, S)."""
        return self._scaled[1]

    @cached_property
    def independent(self) -> np.ndarray:
        """Number of independent samples, see `independent_samples`, shape (K, S)."""
        return independent_samples(self._table, by_group=self._signal.by_group)

    @classmethod
    def of(cls, context: RuleContext, signal: Signal, sign: int = 1) -> PlaceTable:
        """Return the table of a signal; one for all rules of a check."""
        key = cls, signal.name, sign
        if key not in context.results:
            context.results[key] = cls(context, signal, sign)
        found: PlaceTable = context.results[key]
        return found

    def level(self, row: int, part: slice | np.ndarray) -> tuple[float, float]:
        """Return mean and standard error of a place over some steps; NaN without values."""
        values, error = self.mean[row, part], self.row(row)[1][part]
        known = np.isfinite(values)
        if not known.any():
            return np.nan, np.nan
        return float(values[known].mean()), float(np.sqrt(np.nansum(error[known] ** 2)) / known.sum())


#: One of many places changes more often by chance, so each needs a score that is larger by this much.
_MORE_FOR_PLACES = 0.7
#: A change is limited to a place if the other places changed by less than this share of its change.
_OTHERS = 0.25
#: Another place changed, too, if its difference is this many standard errors.
_ALSO = 3.0
#: A change of the whole run must reach this share of ``least``; a change in one place must reach all of it.
_SHARE_FOR_RUN = 0.7
#: First steps whose share is this close to a limit are as bad as those beyond it.
_CLOSE = 0.1
#: A place is the only one if it has the first share of the marked rows, and less than the second of all rows.
_NEARLY_ALL, _MAX_OF_RUN = 0.95, 0.7
#: Fewer marked rows are often in one place by chance.
_MIN_ROWS = 5
#: Smallest logarithm of the likelihood ratio of a stretch beyond a limit, for one step of one place.
_CHANCE = 4.0
#: Length of the window whose mean is compared with a limit, and its distance from it in standard errors.
_LIMIT_WINDOW, _LIMIT_Z = 3, 3.0


def sustained(
    context: RuleContext,
    signal: Signal,
    least: float,
    *,
    sign: int = 1,
    base: Base = "lowest",
    places: bool = True,
) -> Change | None:
    """Return a sustained change of a signal, for the whole run or else for one place; None without one.

    Parameters
    ----------
    context : RuleContext
    signal : Signal
    least : float
        Smallest difference of interest; of a positive signal, or of odds, the logarithm of a factor.
    sign : int
        1 if a rise is bad, -1 if a fall is.
    base : str
        What later steps are compared with, see `rlpanel.findings.engine.window_scan.Base`.
    places : bool
        True if places are tried, too.
    """
    if not context.available(signal):
        return None
    key = sustained, signal.name, least, sign, base, places
    if key not in context.results:
        context.results[key] = _sustained(context, signal, least, sign, base, places=places)
    change: Change | None = context.results[key]
    return change


def _sustained(
    context: RuleContext, signal: Signal, least: float, sign: int, base: Base, *, places: bool
) -> Change | None:
    series, threshold = context.place_series, context.change_z
    count = len(series.places) if places else 1
    key = signal.name, sign, base, count
    steps, scan = len(context.steps), series.scan(key, least, base)
    series.scan_signals[key] = signal
    again = _continued_scans(context).get(key)
    if again is not None and not (scan.seen and scan is again.before):
        again = None
    if again is not None and (again.best is None or not (again.best.score > threshold).any()):
        series.scans[key] = again.after  # as in most tests
        return None
    table = PlaceTable.of(context, signal, sign)
    read = partial(table.read, rows=slice(count))
    if again is not None:
        found = Scored(read, steps, again.best, again.after, threshold, table.read_row)
    else:
        found = continued(scan, read, steps, threshold, table.read_row)
    series.scans[key] = found.scan
    whole = _rise_of_interest(found, 0, least)
    if whole is not None:
        change = _change(table, signal, whole, sign)
        row = _row_of_only_place(table, change) if places else 0
        if not row:
            return change
        own = _change(table, signal, found.rise(row), sign) if row in found.windows else None
        return _attribute_to_place(table, change, own, row)
    strong = [row for row, (z, *_) in found.windows.items() if row and z > threshold + _MORE_FOR_PLACES]
    for row in sorted(strong, key=lambda row: -found.windows[row][0]):
        rise = _rise_of_interest(found, row, least)
        if rise is not None:
            return _attribute_to_run_if_shared(table, _change(table, signal, rise, sign))
    return None


@dataclass(frozen=True)
class _Continued:
    """The state of a test before and after the new steps, and the best windows."""

    before: Scan
    after: Scan
    best: Best | None


def _continued_scans(context: RuleContext) -> dict[Hashable, _Continued]:
    """Return the tests of the check before, after the new steps: all are computed together."""
    if _continued_scans not in context.results:
        series, steps = context.place_series, len(context.steps)
        known = {
            key: (scan, signal)
            for key, signal in series.earlier_scan_signals.items()
            if context.available(signal)
            and (scan := series.earlier_scans[key].reusable(series.unchanged)) is not None
        }
        reads = [
            partial(PlaceTable.of(context, signal, sign).read, rows=slice(count))
            for (_, sign, _, count), (_, signal) in known.items()
        ]
        scans = [scan for scan, _ in known.values()]
        found = zip(known, scans, after_together(scans, reads, steps), strict=True)
        context.results[_continued_scans] = {key: _Continued(before, *after) for key, before, after in found}
    result: dict[Hashable, _Continued] = context.results[_continued_scans]
    return result


def _rise_of_interest(found: Scored, row: int, least: float) -> Rise | None:
    """Return the rise of a series if its difference is large enough to be reported; else None."""
    if row not in found.windows:
        return None
    rise = found.rise(row)
    return rise if rise.after - rise.before > (1.0 if row else _SHARE_FOR_RUN) * least else None


def beyond(
    context: RuleContext, signal: Signal, limit: float, *, least: int = _LIMIT_WINDOW, sign: int = 1
) -> Change | None:
    """Return the steps in which a signal is beyond a limit, for the whole run or else for one place.

    Parameters
    ----------
    context : RuleContext
    signal : Signal
    limit : float
    least : int
        Smallest number of such steps in a row; fewer if the run has fewer.
    sign : int
        1 if values above the limit are bad, -1 if those below are.
    """
    if not context.available(signal):
        return None
    lowest, highest = context.place_series.bounds(signal)
    if not (highest > limit if sign > 0 else lowest < limit):
        return None
    table = PlaceTable.of(context, signal, sign)
    least = min(least, len(context.steps))
    with np.errstate(all="ignore"):
        margin = sign * (table.mean - limit)
        masks = _stretches(margin > 0, least)
        if table.is_share:
            masks = [_beyond_chance(table, row, mask, limit) for row, mask in enumerate(masks)]
        scores = [_limit_score(margin[row], table, row, mask) for row, mask in enumerate(masks)]
    if signal.kind == "share":
        masks = [_from_the_start(mask, each) for mask, each in zip(masks, margin, strict=True)]
    if scores[0] > _LIMIT_Z:
        change = _beyond(table, signal, 0, masks[0], sign, scores[0])
        row = _row_of_only_place(table, change)
        return _attribute_to_place(
            table, change, _beyond(table, signal, row, masks[row], sign, scores[row]), row
        )
    best = int(np.argmax(scores))
    if scores[best] > _LIMIT_Z + _MORE_FOR_PLACES:
        return _beyond(table, signal, best, masks[best], sign, scores[best])
    return None


def _stretches(beyond: np.ndarray, least: int) -> list[np.ndarray]:
    """Return `long_stretches` of each row; most rows are not marked so long at all."""
    size = beyond.shape[1]
    windows = [beyond[:, at : size - least + 1 + at] for at in range(least)]
    is_long = np.logical_and.reduce(windows).any(axis=1)
    nowhere = np.zeros(size, bool)
    return [
        long_stretches(row, least) if long else nowhere for row, long in zip(beyond, is_long, strict=True)
    ]


def _beyond_chance(table: PlaceTable, row: int, mask: np.ndarray, limit: float) -> np.ndarray:
    """Return the mask without the stretches that the share of the other steps reaches by chance.

    A place with few groups has all of them marked now and then, the more often the more steps there are. The
    likelihood ratio of a stretch to the other steps must exceed the logarithm of the number of steps and
    places. A share that is close to the limit in the other steps, too, is kept.
    """
    if not mask.any():
        return mask
    share, count = table.mean[row], np.nan_to_num(table.independent[row])
    rest = ~mask & np.isfinite(share) & (count > 0)
    if rest.sum() < MIN_STEPS:
        return mask
    usual = _pooled(share, count, rest)
    if usual > limit - 2 * _CLOSE:
        return mask
    kept, bound = mask.copy(), _CHANCE + float(np.log(len(mask) * len(table.places)))
    for first, last in stretches(mask).tolist():
        part = np.zeros(len(mask), bool)
        part[first:last] = True
        here = _pooled(share, count, part)
        ratio = here * np.log(here / usual) + (1 - here) * np.log((1 - here) / (1 - usual))
        kept[first:last] = float(count[part].sum()) * ratio > bound
    return kept


def _pooled(share: np.ndarray, count: np.ndarray, mask: np.ndarray) -> float:
    """Return the share in the marked steps together, never 0 or 1 (add-half smoothing)."""
    samples = float(count[mask].sum())
    return float((np.nansum(share[mask] * count[mask]) + 0.5) / (samples + 1))


def _from_the_start(mask: np.ndarray, margin: np.ndarray) -> np.ndarray:
    """Return the mask with all steps before it if these are close to the limit on average, too."""
    first = int(mask.argmax())
    if not mask[first:].any() or not first or not np.isfinite(margin[:first]).any():
        return mask
    close = float(np.nanmean(margin[:first])) > -_CLOSE
    return mask | (np.arange(len(mask)) < first) if close else mask


def _from_the_bend(mask: np.ndarray, values: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Return the mask with the steps before it in which the series rises from its earlier level already."""
    first = int(mask.argmax())
    if first < MIN_STEPS:
        return mask
    onset = rise_onset(values, 0, first)
    if not 2 <= onset < first or not np.isfinite(values[:onset]).any():
        return mask
    level, part = np.nanmedian(values[:onset]), slice(onset, first)
    above, allowed = values[part] - level, _LIMIT_Z * error[part] / np.sqrt(first - onset)
    with np.errstate(all="ignore"):
        seen = np.nanmean(above) > np.nanmean(allowed) and above[-1] > 0
    return mask | (np.arange(len(mask)) >= onset) & (np.arange(len(mask)) < first) if seen else mask


def _limit_score(margin: np.ndarray, table: PlaceTable, row: int, mask: np.ndarray) -> float:
    """Return the mean distance from the limit in the marked steps, in standard errors; 0 without any."""
    if not mask.any():
        return 0.0
    if table.is_share:
        count = float(np.nansum(table.independent[row][mask]))
        found = float(np.nansum((table.mean[row] * table.independent[row])[mask]))
        smooth = (found + 0.5) / (count + 1)
        error = np.sqrt(smooth * (1 - smooth) / count)
    else:
        error = np.sqrt(np.nansum(table.variance[row][mask])) / mask.sum()
    return float(margin[mask].mean() / error) if error > 0 else np.inf


def _beyond(table: PlaceTable, signal: Signal, row: int, mask: np.ndarray, sign: int, z: float) -> Change:
    values = table.mean[row]
    if signal.kind != "share":
        mask = _from_the_bend(mask, *table.row(row))
    first = int(mask.argmax())
    base = (max(0, first - 8), first)
    return Change(
        signal=signal,
        place=table.places[row],
        mask=mask,
        ongoing=bool(mask[-1]),
        before=_mean(values[slice(*base)]),
        after=_mean(values[mask]),
        values=values,
        sign=sign,
        z=z,
        base=base,
    )


def _change(table: PlaceTable, signal: Signal, rise: Rise, sign: int) -> Change:
    mask = np.zeros(table.mean.shape[1], bool)
    mask[rise.onset : rise.last + 1] = True
    before, after = sign * rise.before, sign * rise.after
    if signal.kind == "positive":
        before, after = float(np.exp(before)), float(np.exp(after))
    if signal.kind == "odds":
        before, after = (float(1 / (1 + np.exp(-each))) for each in (before, after))
    values = table.mean[rise.row]
    return Change(
        signal,
        table.places[rise.row],
        mask,
        rise.ongoing,
        before,
        after,
        values,
        sign=sign,
        z=rise.z,
        sudden=rise.sudden,
        base=rise.base,
    )


def _row_of_only_place(table: PlaceTable, change: Change) -> int:
    """Return the row of the place in which a change holds, or 0 (the whole run) if there are several."""
    shifts = _Shifts(table, change)
    size, found = shifts.size, 0
    most = -np.inf
    for name, rows in rows_by_dimension(table.places).items():
        if name == WHOLE:
            continue
        known = rows[np.isfinite(size[rows])]
        if len(known) < 2:
            continue
        first, second = known[np.argsort(-size[known])][:2].tolist()
        apart = float(size[first] - max(size[second], 0.0))
        alone = size[second] < _OTHERS * size[first]
        if alone and (apart, first) > (most, found) and size[first] > 4 * shifts.error([first])[0]:
            most, found = apart, first
    return found


def _attribute_to_run_if_shared(table: PlaceTable, change: Change) -> Change:
    """Return a place's change; as one of the whole run if another place of its dimension changed, too."""
    shifts = _Shifts(table, change)
    row = table.places.index(change.place)
    rows = rows_by_dimension(table.places)[change.place.dimension]
    with np.errstate(invalid="ignore"):
        others = rows[(rows != row) & (shifts.size[rows] >= _OTHERS * shifts.size[row])]
        also = shifts.size[others] > _ALSO * shifts.error(others)
    return _with_levels_of(table, change, 0) if also.any() else change


def _attribute_to_place(table: PlaceTable, change: Change, own: Change | None, row: int) -> Change:
    """Return the change of the whole run as one of a place.

    The steps are those of ``own``, the change in the place's own series, because other samples dilute the
    series of the run. If the two share no step, ``own`` is another change, and the run's steps are kept.
    """
    return own if own is not None and (own.mask & change.mask).any() else _with_levels_of(table, change, row)


def _with_levels_of(table: PlaceTable, change: Change, row: int) -> Change:
    """Return the change in the same steps, with the place, the values and the levels of a row."""
    values = table.mean[row]
    before, after = _mean(values[slice(*change.base)]), _late_mean(values[change.mask])
    return replace(change, place=table.places[row], before=before, after=after, values=values)


def _mean(values: np.ndarray) -> float:
    """Return the mean of the finite values; NaN without any."""
    return float(np.nanmean(values)) if np.isfinite(values).any() else np.nan


def _late_mean(values: np.ndarray) -> float:
    """Return the mean of the second half; NaN without values."""
    return _mean(values[len(values) // 2 :])


class _Shifts:
    """Differences of the places between the affected steps of a change and those before.

    Attributes
    ----------
    size : ndarray of float, shape (K,)
    """

    def __init__(self, table: PlaceTable, change: Change) -> None:
        self._table, self._after = table, change.mask
        self._before = np.zeros(len(change.mask), bool)
        self._before[max(0, change.onset - max(5, int(change.mask.sum()))) : change.onset] = True
        later = _mean_over(table.scaled, self._after)
        has_before = self._before.any()
        self.size = later - (_mean_over(table.scaled, self._before) if has_before else np.nanmin(later))

    def error(self, rows: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return the errors of the differences of some places: they take time, and few are needed."""
        values, variance = self._table.scaled[rows], self._table.variance[rows]
        errors = step_errors(values, variance)
        later = _error_over(values, errors, self._after)
        return np.hypot(later, _error_over(values, errors, self._before)) if self._before.any() else later


def _mean_over(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the mean of each row's finite values in the marked steps, shape (K,)."""
    values = values[:, mask]
    known = np.isfinite(values)
    with np.errstate(all="ignore"):
        found: np.ndarray = np.where(known, values, 0.0).sum(axis=1) / known.sum(axis=1)
    return found


def _error_over(values: np.ndarray, error: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the error of the mean of each row's finite values in the marked steps, shape (K,)."""
    known = np.isfinite(values[:, mask])
    with np.errstate(all="ignore"):
        squares = np.where(known, error[:, mask], 0.0) ** 2
        found: np.ndarray = np.sqrt(squares @ np.ones(mask.sum())) / known.sum(axis=1)
    return found


def series_rise(context: RuleContext, values: np.ndarray, least: float) -> Change | None:
    """Return a sustained rise of a step metric, tested against the noise between steps; None without one.

    Parameters
    ----------
    context : RuleContext
    values : ndarray of float, shape (S,)
    least : float
        Smallest difference of interest.
    """
    row = values[None]
    key = series_rise, least, values[:16].tobytes()
    found = scored_again(context, key, row, np.full(row.shape, np.nan), least, context.change_z)
    if not found.windows:
        return None
    rise = found.rise(0)
    mask = np.zeros(len(values), bool)
    mask[rise.onset : rise.last + 1] = True
    unnamed = Signal("", "level", (), lambda rows: np.full(len(rows), np.nan))
    return Change(
        unnamed, WHOLE_RUN, mask, rise.ongoing, rise.before, rise.after, values, z=rise.z, sudden=rise.sudden
    )


def scored_again(
    context: RuleContext,
    key: Hashable,
    values: np.ndarray,
    error: np.ndarray,
    least: float,
    threshold: float,
    base: Base = "lowest",
) -> Scored:
    """Test series as `scored` does, and go on after the steps that the check before has tested.

    Parameters
    ----------
    context : RuleContext
    key : hashable
        Identifies the series among all of the run.
    values, error : ndarray of float, shape (K, S)
    least, threshold, base
        See `scored`.
    """
    series = context.place_series
    scan, earlier = series.earlier_scans.get(key, (None, None))
    if scan is not None:
        size = min(earlier.shape[1], values.shape[1])
        old, new = earlier[:, :size], values[:, :size]
        differs = ((old != new) & ~(np.isnan(old) & np.isnan(new))).any(axis=0)
        scan = scan.reusable(int(differs.argmax()) if differs.any() else size)
    if scan is None:
        scan = Scan(least, base)
    found = continued(
        scan,
        lambda first, stop: (values[:, first:stop], error[:, first:stop] ** 2),
        values.shape[1],
        threshold,
    )
    series.scans[key] = found.scan, values
    return found


def only_place(context: RuleContext, marked: np.ndarray) -> Place:
    """Return the only place that has nearly all marked rows; the whole run if there is none.

    Parameters
    ----------
    context : RuleContext
    marked : ndarray of bool, shape (N,)
        Of all rows of complete steps.
    """
    places = context.place_series.places
    best, smallest = WHOLE_RUN, _MAX_OF_RUN
    for name, members in rows_by_dimension(places).items():
        if name == WHOLE or marked.sum() < _MIN_ROWS:
            continue
        codes = codes_of(context.all_rows, [places[member] for member in members.tolist()])
        share = np.bincount(codes[marked] + 1, minlength=len(members) + 1)[1:] / marked.sum()
        size = float((codes == share.argmax()).mean())
        if share.max() >= _NEARLY_ALL and size < smallest:
            best, smallest = places[members[share.argmax()]], size
    return best
