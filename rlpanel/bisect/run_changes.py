"""Changes of all numbers of a run near a step, and of the phrases in its texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from rlpanel.analysis.step_texts import RunTexts, StepTexts
from rlpanel.findings.engine.change_statistic import scored
from rlpanel.findings.engine.places import MEAN, SAMPLES, VARIANCE, WHOLE, PlaceSeries, rows_by_dimension
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.signal import StepBlocks, column_signal, flag_signal
from rlpanel.findings.engine.streams import MIN_ANGLE, MIN_SPREADS, Stream
from rlpanel.findings.engine.two_windows import jumps
from rlpanel.metrics.engine.column_info import computed_columns, describe

# -- run changes ---------------------------------------------------------------------------------------
# Changes of all numbers of a run near a step: those of the rule *Something changed*, and their slices.
#
# The streams of `rlpanel.findings.engine.streams` are tested, and besides the mean of each number in each
# rank and label against that of the other samples of the step. Sudden changes come from `two_windows.jumps`,
# slides and short runs from `change_statistic.scored`. The chance of a false change is shared out over all
# tests.


#: Chance of any false change among all tests of a bisection.
CHANCE = 0.05
#: Part of that chance which a slice has, where a usual stream has 1; and most columns that are sliced.
_SLICE, _MAX_SLICED = 0.05, 32
#: A slide or a change in few steps needs this many standard errors more, since each window may be compared.
_MORE_FOR_SLIDES = 1.0
#: Fewest steps of a series that `scored` tests.
_MIN_STEPS = 4
#: Fewest samples of a slice at a step: the mean of fewer is no number of the step.
_MIN_SAMPLES = 3
#: Columns that are not sliced: they follow from others.
_NOT_SLICED = ("advantage", "engine_shift", "ref_shift")


@dataclass(frozen=True)
class RunChange:
    """A change of a stream.

    Attributes
    ----------
    stream : Stream
    at : int
        Position of the first step after it, among the complete steps.
    z : float
        Difference in standard errors.
    before, after : float
        Means of the windows, in the scale of the test.
    sudden : bool
        False for a slide, whose onset is less exact.
    """

    stream: Stream
    at: int
    z: float
    before: float
    after: float
    sudden: bool = True

    @property
    def size(self) -> float:
        """Signed difference in the scale of the test."""
        return self.after - self.before

    @property
    def error(self) -> float:
        """Standard error of the difference, in the scale of the test."""
        return abs(self.size) / self.z if self.z > 0 else float("nan")


def least_z(weights: np.ndarray, positions: int) -> np.ndarray:
    """Return the least z of each stream, so that all tests raise a false change in `CHANCE` of the runs.

    Parameters
    ----------
    weights : ndarray of float, shape (K,)
    positions : int
        Steps at which a change may begin. Each is tested with two lengths of the later window, both ways.

    Returns
    -------
    ndarray of float, shape (K,)
    """
    chance = CHANCE * weights / weights.sum() / max(positions, 1) / 4
    known = {each: NormalDist().inv_cdf(1 - each) for each in set(chance.tolist())}
    return np.array([known[each] for each in chance.tolist()])


def slices(
    context: RuleContext, first: int, stop: int, target: str, most: int = _MAX_SLICED
) -> Iterator[Stream]:
    """Yield the mean of each number in each rank and label less that of the other samples of the step.

    Parameters
    ----------
    context : RuleContext
    first, stop : int
        Positions of the steps that are looked at; the others are NaN.
    target : str
        The column that is sliced first.
    most : int
        Most columns that are sliced.
    """
    steps = context.steps[first:stop]
    inside = (context.row_steps >= first) & (context.row_steps < stop)
    series = PlaceSeries(StepBlocks(context.view, context.rows[inside], steps, is_complete=not first))
    if len(series.places) < 2:
        return
    computed = computed_columns()
    names = [
        name
        for name in context.snapshot.numbers
        if name == target or not (name in _NOT_SLICED or name.endswith("_sum") or name == "prompt_chars")
    ]
    names.sort(key=lambda name: (name != target, name in computed))
    dimensions = [rows for name, rows in rows_by_dimension(series.places).items() if name != WHOLE]
    for name in names[:most]:
        known = context.snapshot.number(name)[context.rows[inside]]
        known = known[np.isfinite(known)]
        if not known.any():
            continue
        is_flag = bool(np.isin(known, (0, 1)).all())
        # A flag that no sample had before has no spread, but its share has an error.
        number = flag_signal(name, "share") if is_flag else column_signal(name)
        table = series.table(number)
        mean, variance, samples = table[MEAN], table[VARIANCE], table[SAMPLES]
        spread = (
            float(np.nanmedian(np.sqrt(variance[0] * samples[0]))) if np.isfinite(variance[0]).any() else 0.0
        )
        if not spread > 0:
            continue
        for row in np.concatenate(dimensions).tolist() if dimensions else ():
            others = samples[0] - samples[row]
            with np.errstate(all="ignore"):
                rest = (mean[0] * samples[0] - np.nan_to_num(mean[row]) * samples[row]) / others
                # A few samples that are alike show no spread: that of all is the least.
                own = np.fmax(variance[row], spread**2 / samples[row])
                floor = own + variance[0] * samples[0] / others
            gap = np.where((samples[row] >= _MIN_SAMPLES) & (others > 0), mean[row] - rest, np.nan)
            if np.isfinite(gap).sum() < _MIN_STEPS:
                continue
            place, label = series.places[row], describe(name).label
            yield Stream(
                f"{label} in {place.text}, less that of the others",
                _spread_out(gap, first, len(context.steps)),
                "level",
                2 * MIN_SPREADS * spread,
                _spread_out(floor, first, len(context.steps)),
                _SLICE,
                column=name,
                where=place.where,
                signal=number,
                place=place,
            )


def _spread_out(values: np.ndarray, first: int, count: int) -> np.ndarray:
    found = np.full(count, np.nan)
    found[first : first + len(values)] = values
    return found


def changes(
    streams: Sequence[Stream], first: int, stop: int, earliest: int, positions: int | None = None
) -> list[RunChange]:
    """Return the changes of some streams, of each stream the largest one and an earlier one.

    Parameters
    ----------
    streams : sequence of Stream
    first, stop : int
        Positions of the steps that are looked at.
    earliest : int
        First position at which a change counts.
    positions : int, optional
        Number of positions that are in question; by default all of them.
    """
    if not streams or stop - first < _MIN_STEPS:
        return []
    values, floor = matrix(streams, first, stop)
    weights = np.array([each.weight for each in streams])
    least = np.array([each.least for each in streams])
    limit = least_z(weights, positions or stop - max(earliest, first))
    found: dict[int, list[RunChange]] = {}
    rest = values
    for _ in range(2):  # the largest change, and then one before it
        later = rest.copy()
        for jump in jumps(rest, floor, least, limit):
            later[jump.row, jump.at :] = np.nan
            change = RunChange(streams[jump.row], first + jump.at, jump.z, jump.before, jump.after)
            if change.at >= earliest:
                found.setdefault(jump.row, []).append(change)
        known = np.isfinite(later).sum(axis=1) >= _MIN_STEPS
        rest = np.where(known[:, None], later, np.nan)
        if np.array_equal(rest, values, equal_nan=True):
            break
    quiet = [row for row in range(len(streams)) if row not in found]
    for change in _slides(streams, values, floor, least, limit, quiet, first):
        if change.at >= earliest:
            found.setdefault(streams.index(change.stream), []).append(change)
    return [change for each in found.values() for change in each]


def matrix(streams: Sequence[Stream], first: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
    """Return values in the scale of the test, and the least variances, shape (K, S) each."""
    values = np.array([each.scaled[first:stop] for each in streams])
    size = len(streams[0].values)
    floor = np.array([np.broadcast_to(each.floor, size)[first:stop] for each in streams])
    return values, np.where(np.isfinite(floor), floor, 0.0)


def _slides(
    streams: Sequence[Stream],
    values: np.ndarray,
    floor: np.ndarray,
    least: np.ndarray,
    limit: np.ndarray,
    rows: Sequence[int],
    first: int,
) -> Iterator[RunChange]:
    """Yield the slides, and the changes in runs of few steps."""
    rows = [row for row in rows if np.isfinite(values[row]).sum() >= _MIN_STEPS and least[row] > 0]
    if not rows:
        return
    unit = least[rows, None]
    scaled, error = values[rows] / unit, np.sqrt(floor[rows]) / unit
    error = np.maximum(error, 1e-6)
    for sign in (1.0, -1.0):
        result = scored(sign * scaled, error, 1.0, float(limit.min()) + _MORE_FOR_SLIDES)
        for row, (z, *_) in result.windows.items():
            at = rows[row]
            if z < limit[at] + _MORE_FOR_SLIDES:
                continue
            rise = result.rise(row)
            before, after = (sign * each * least[at] for each in (rise.before, rise.after))
            yield RunChange(streams[at], first + rise.onset, rise.z, before, after, rise.sudden)


def holds(change: RunChange, at: int) -> bool:
    """Return True if half of a change is left around a position, less one standard error of the steps."""
    values = change.stream.scaled[max(change.at, at - 2) : at + 3]
    known = values[np.isfinite(values)]
    if not len(known) or not change.size:
        return False
    error = float(known.std(ddof=1)) / len(known) ** 0.5 if len(known) > 2 else 0.0
    return (float(known.mean()) - change.before) / change.size >= 0.5 - error / abs(change.size)


def dated_later(change: RunChange, low: int, high: int) -> RunChange | None:
    """Return a change with its onset where the number moves most between two positions, if that is later.

    The largest change of a number that wanders may lie before the one that somebody calls bad.
    """
    values, best = change.stream.scaled, change
    for at in range(max(low, change.at + 3), min(high + 1, len(values) - 1)):
        old, new = values[max(change.at - 1, at - 20, 0) : at], values[at : at + 8]
        old, new = old[np.isfinite(old)], new[np.isfinite(new)]
        if len(old) < 3 or len(new) < 2:
            continue
        free = len(old) + len(new) - 2
        spread = np.sqrt((old.var() * len(old) + new.var() * len(new)) / free)
        size = float(new.mean() - old.mean())
        z = abs(size) / max(float(spread * np.sqrt(1 / len(old) + 1 / len(new))), 1e-12)
        if size * change.size > 0 and (best is change or z > best.z):
            best = replace(change, at=at, z=z, before=float(old.mean()), after=float(new.mean()), sudden=True)
    return None if best is change else best


def is_visible(change: RunChange) -> bool:
    """Return True if the usual windows before and after a change show half of it, too."""
    values = change.stream.scaled
    old, new = values[max(change.at - 20, 0) : change.at], values[change.at : change.at + 8]
    return bool(change.size) and (mean_of(new) - mean_of(old)) / change.size >= 0.5


def mean_of(values: np.ndarray) -> float:
    """Return the mean of the finite values; NaN without any."""
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


# -- phrase changes ------------------------------------------------------------------------------------
# Phrases that came or went: the share of the read samples that has the clearest one of each kind.


#: Newest steps whose phrases are compared with those of the first half of the steps.
_NEWEST = 8
#: Share of the samples that has a frequent phrase, and of those that may have had it before.
_OFTEN, _SELDOM = 0.1, 0.01
#: Kinds of phrases: words before one, and the tab of a sample that shows it.
_KINDS = {
    "response": ("responses with", ""),
    "result": ("tool results with", "conversation"),
    "prompt begin": ("prompts that begin with", "reference"),
    "prompt end": ("prompts that end with", "reference"),
}
_PREFIX = "phrase"


def phrase_streams(texts: RunTexts, steps: np.ndarray, first: int, stop: int) -> Iterator[Stream]:
    """Yield the share of samples with the phrase that came, and with the one that went, of each kind.

    Parameters
    ----------
    texts : RunTexts
    steps : ndarray of int, shape (S,)
        All complete steps.
    first, stop : int
        Positions of the steps that are looked at.
    """
    read = [texts.steps.get(step) for step in steps[first:stop].tolist()]
    old = [each for each in read[: max(len(read) // 2, 1)] if each is not None]
    new = [each for each in read[-_NEWEST:] if each is not None]
    for kind, (words, tab) in _KINDS.items():
        for here, there in ((new, old), (old, new)):
            key = _clearest(kind, here, there)
            if key is None:
                continue
            values = np.full(len(steps), np.nan)
            values[first:stop] = [
                np.nan if each is None else holders(each, kind, key).mean() for each in read
            ]
            size = np.zeros(len(steps))
            size[first:stop] = [0 if each is None else len(each.rows) for each in read]
            text = next(
                (each.words[kind][key] for each in [*new, *old] if key in each.words.get(kind, {})), ""
            )
            name = f"{words} “{' '.join(text.split())[:60]}”" if text else f"{words} a new phrase"
            floor = 0.25 / np.maximum(size, 1)
            yield Stream(
                name,
                values,
                "share",
                MIN_ANGLE,
                floor,
                tab=tab,
                is_percent=True,
                text=f"{_PREFIX}:{kind}:{key}",
            )


def phrase_of(text: str) -> tuple[str, int] | None:
    """Return kind and hash of the phrase that a stream's key names; None if it names none."""
    prefix, _, rest = text.partition(":")
    kind, _, key = rest.partition(":")
    return (kind, int(key)) if prefix == _PREFIX and key else None


def holders(read: StepTexts, kind: str, key: int) -> np.ndarray:
    """Return 1 for each read sample of a step that has a phrase, else 0, shape (N,)."""
    phrases = read.phrases[kind]
    bits = phrases.holders[phrases.keys == key]
    mask = int(bits[0]) if len(bits) else 0
    return np.array([mask >> at & 1 for at in range(len(read.rows))], float)


def _clearest(kind: str, here: list[StepTexts], there: list[StepTexts]) -> int | None:
    """Return the phrase that most samples of some steps have, and hardly any of others; None without one."""
    samples, others = (sum(len(each.rows) for each in part) for part in (here, there))
    if not samples or not others:
        return None
    every, counts = _counts(kind, here)
    known, known_counts = _counts(kind, there)
    at = np.searchsorted(known, every).clip(max=max(len(known) - 1, 0))
    before = np.where(known[at] == every, known_counts[at], 0) if len(known) else np.zeros(len(every))
    usable = (counts >= max(_OFTEN * samples, 4)) & (before <= _SELDOM * others)
    return int(every[np.argmax(np.where(usable, counts, -1))]) if usable.any() else None


def _counts(kind: str, read: list[StepTexts]) -> tuple[np.ndarray, np.ndarray]:
    keys = np.concatenate([each.phrases[kind].keys for each in read])
    counts = np.concatenate([each.phrases[kind].counts for each in read])
    every, code = np.unique(keys, return_inverse=True)
    return every, np.bincount(code, counts, minlength=len(every))
