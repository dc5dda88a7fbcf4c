"""Samples around a bad step, each one's number behind a change, and what a change explains of another."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from rlpanel.bisect.run_changes import RunChange, holders, phrase_of
from rlpanel.findings.engine.places import RANK, WHOLE, Place, codes_of, places_of
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.signal import RowBatch
from rlpanel.findings.engine.streams import Stream

# -- explained share -----------------------------------------------------------------------------------
# Share of a later change that the samples with an earlier change carry.
#
# The samples after the change are weighted so that the earlier number is spread as it was before. What then
# is left of the later change is not explained (DiNardo, Fortin and Lemieux 1996, doi:10.2307/2171954). Where
# the number has left its old range, no sample could be weighted: then the slope of the later number over the
# earlier one, within steps, says what the shift explains.


#: Bins of a number, and fewest samples of a bin that is used.
_BINS, _MIN_SAMPLES = 10, 3
#: Least share of the samples before the change that have a like one after it.
_OVERLAP = 0.7
#: Blocks of groups that are left out in turn for the error.
_BLOCKS = 20
#: Least share of a number's variance within groups for a statement about the inside of groups.
_INSIDE = 0.1


@dataclass(frozen=True)
class WindowSamples:
    """Samples of two windows: the earlier number x, the later one y, and their groups.

    Attributes
    ----------
    x, y : ndarray of float, shape (N,)
        NaN in x is a value of its own; samples without y are left out.
    after : ndarray of bool, shape (N,)
    group, step : ndarray of int, shape (N,)
    """

    x: np.ndarray
    y: np.ndarray
    after: np.ndarray
    group: np.ndarray
    step: np.ndarray

    def known(self, *, needs_x: bool = False) -> WindowSamples:
        """Return the samples that have y, and x if it is needed."""
        mask = np.isfinite(self.y) & (np.isfinite(self.x) if needs_x else True)
        return WindowSamples(self.x[mask], self.y[mask], self.after[mask], self.group[mask], self.step[mask])


@dataclass(frozen=True)
class ExplainedShare:
    """Share of a change, and how it was found.

    Attributes
    ----------
    share, error : float
        1 if all of the later change vanishes; NaN if it cannot be estimated.
    within : float
        The same from differences between samples of a group; NaN where groups have one value.
    by : str
        ``mix``: samples were weighted; ``slope``: the number left its old range; empty: neither is possible.
    """

    share: float
    error: float
    within: float
    by: str

    @property
    def is_clear(self) -> bool:
        """True if at least a fifth is explained, beyond two errors."""
        return self.share >= 0.2 and self.share >= 2 * self.error


UNKNOWN = ExplainedShare(float("nan"), float("nan"), float("nan"), "")


def explained_share(samples: WindowSamples, *, needs_x: bool = False) -> ExplainedShare:
    """Return the share of the change of y that the change of x explains.

    Parameters
    ----------
    samples : WindowSamples
    needs_x : bool
        True if samples without x are unknown rather than a part of their own.
    """
    known = samples.known(needs_x=needs_x)
    count = int(known.after.sum())
    if min(count, len(known.y) - count) < 2 * _MIN_SAMPLES:
        return UNKNOWN
    codes = _codes(known.x)
    block = known.group % _BLOCKS
    cells = (block * 2 + known.after) * (codes.max() + 1) + codes
    shape = (_BLOCKS, 2, int(codes.max()) + 1)
    size = np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape).astype(float)
    total = np.bincount(cells, known.y, minlength=int(np.prod(shape))).reshape(shape)
    share, overlap = _mix(size.sum(axis=0)[None], total.sum(axis=0)[None])
    within = _slope_share(known, by_group=True)
    if overlap[0] >= _OVERLAP:
        left, _ = _mix(size.sum(axis=0) - size, total.sum(axis=0) - total)
        return ExplainedShare(float(share[0]), _error(left), within, "mix")
    if not np.isfinite(known.x).all() or len(np.unique(known.x)) < 3:
        return ExplainedShare(float("nan"), float("nan"), within, "")
    whole = _slope_share(known, by_group=False)
    found = []
    for each in range(_BLOCKS):
        kept = block != each
        part = WindowSamples(
            known.x[kept], known.y[kept], known.after[kept], known.group[kept], known.step[kept]
        )
        if 0 < part.after.sum() < len(part.y):
            found.append(_slope_share(part, by_group=False))
    return ExplainedShare(whole, _error(np.array(found)), within, "slope")


def left_out_share(samples: WindowSamples, inside: np.ndarray) -> ExplainedShare:
    """Return the share of the change of y that vanishes without the samples of a place.

    Parameters
    ----------
    samples : WindowSamples
    inside : ndarray of bool, shape (N,)
    """
    known = np.isfinite(samples.y)
    y, after, inside, group = samples.y[known], samples.after[known], inside[known], samples.group[known]
    block = group % _BLOCKS

    def share(kept: np.ndarray) -> float:
        with np.errstate(all="ignore"):
            old, new = y[kept & ~after], y[kept & after]
            rest = kept & ~inside
            if not len(old) or not len(new) or not (rest & after).any() or not (rest & ~after).any():
                return float("nan")
            return float(1 - (y[rest & after].mean() - y[rest & ~after].mean()) / (new.mean() - old.mean()))

    found = np.array([share(block != each) for each in range(_BLOCKS)])
    return ExplainedShare(share(np.ones(len(y), bool)), _error(found), float("nan"), "mix")


def _codes(x: np.ndarray) -> np.ndarray:
    """Return the bin of each value: the value itself if there are few, else ranges of equal numbers."""
    codes = np.zeros(len(x), int)
    known = np.isfinite(x)
    values = np.unique(x[known])
    edges = (
        values[1:] if len(values) <= _BINS else np.unique(np.quantile(x[known], np.arange(1, _BINS) / _BINS))
    )
    codes[known] = np.searchsorted(edges, x[known], side="right") + 1
    return np.unique(codes, return_inverse=True)[1]


def _mix(size: np.ndarray, total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return explained share and overlap of tables of samples and sums of y, shape (B, 2, K) each."""
    with np.errstate(all="ignore"):
        old, new = (total[:, each].sum(axis=1) / size[:, each].sum(axis=1) for each in (0, 1))
        usable = size[:, 1] >= _MIN_SAMPLES
        weight = np.where(usable, size[:, 0], 0.0)
        overlap = weight.sum(axis=1) / size[:, 0].sum(axis=1)
        mean = np.where(usable, total[:, 1] / size[:, 1], 0.0)
        restored = (weight * mean).sum(axis=1) / weight.sum(axis=1)
        return (new - restored) / (new - old), overlap


def _slope_share(samples: WindowSamples, *, by_group: bool) -> float:
    """Return the shift of x times the slope of y over x inside steps or groups, over the change of y."""
    after = samples.after & np.isfinite(samples.x)
    before = ~samples.after & np.isfinite(samples.x)
    if after.sum() < 2 * _MIN_SAMPLES or not before.any():
        return float("nan")
    x, y = samples.x[after], samples.y[after]
    key = samples.group[after] if by_group else samples.step[after]
    inside, of_y = _less_mean(x, key), _less_mean(y, key)
    square = float(inside @ inside)
    spread = float(((x - x.mean()) ** 2).sum())
    if square <= (_INSIDE * spread if by_group else 1e-12 * max(spread, 1e-300)):
        return float("nan")
    change = float(samples.y[samples.after].mean() - samples.y[~samples.after].mean())
    shift = float(x.mean() - samples.x[before].mean())
    return float(inside @ of_y) / square * shift / change if change else float("nan")


def _less_mean(values: np.ndarray, key: np.ndarray) -> np.ndarray:
    codes = np.unique(key, return_inverse=True)[1]
    return np.asarray(values - (np.bincount(codes, values) / np.bincount(codes))[codes])


def _error(shares: np.ndarray) -> float:
    """Return the jackknife's standard error of a share from those without each block."""
    known = shares[np.isfinite(shares)]
    if len(known) < 3:
        return float("nan")
    return float(np.sqrt((len(known) - 1) / len(known) * ((known - known.mean()) ** 2).sum()))


# -- carried changes -----------------------------------------------------------------------------------


#: Steps of the windows before and after a change.
BEFORE, AFTER = 20, 8
#: Trainer's scalars that are set by somebody: they can be a cause of what all samples do. Ratios of clipped
#: tokens or responses are measured.
SETTINGS = re.compile(
    r"(^|[/_.])(lr|learning_rate|beta|kl_coef\w*|kl_beta|kl_penalty|temperature|top_p|clip_?(range|eps)\w*|"
    r"entropy_coef\w*|weight_decay)($|[/_.])",
    re.IGNORECASE,
)
#: Quantile of the samples before beyond which a sample carries a change.
_USUAL = 0.95
#: Quantile of the samples that a rise moves least, and the part of the mean's shift that it has if all move.
_LEAST_MOVED, _MOVED = 0.1, 0.45
#: A change lies in places that carry this share of it and have at most that share of the samples.
_IN_PLACE, _MAX_OF_ALL, _MAX_PLACES = 0.75, 0.6, 3


@dataclass
class BisectWindow:
    """The samples of the steps around a bad one.

    Parameters
    ----------
    context : RuleContext
    first, stop : int
        Positions of the steps.
    target : str
        The number that went wrong.
    y : ndarray of float, shape (N,)
        Its value of each sample in these steps; NaN outside of the place that is asked about.
    other_y : ndarray of float, optional
        The same of all samples if ``y`` is of a place, or of the place that carries the change if ``y`` is of
        all. Where all samples of a place carry a cause, only the others show what it does; where few samples
        of the run do, the place shows it more clearly.
    """

    context: RuleContext
    first: int
    stop: int
    target: str
    y: np.ndarray
    other_y: np.ndarray | None = None
    _values: dict[int, np.ndarray | None] = field(default_factory=dict)

    @cached_property
    def batch(self) -> RowBatch:
        """The samples."""
        inside = (self.context.row_steps >= self.first) & (self.context.row_steps < self.stop)
        steps = self.context.steps[self.first : self.stop]
        return RowBatch(self.context.view, self.context.rows[inside], steps)

    @cached_property
    def position(self) -> np.ndarray:
        """Position of each sample's step among the complete steps, shape (N,)."""
        return self.batch.position + self.first

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """Ranks and labels."""
        return places_of(self.batch)

    def inside(self, place: Place) -> np.ndarray:
        """Return the mask of the samples of a place, shape (N,)."""
        return codes_of(self.batch, (place,)) == 0

    def values(self, change: RunChange) -> np.ndarray | None:
        """Return the number of each sample behind a change; None for a number of the whole step."""
        key = id(change)
        if key not in self._values:
            self._values[key] = self._values_of(change.stream)
        return self._values[key]

    def _values_of(self, stream: Stream) -> np.ndarray | None:
        texts = self.context.texts
        if stream.text and texts is not None:
            return self._of_texts(stream.text)
        if stream.signal is None:
            return self.inside(stream.place).astype(float) if stream.place.dimension != WHOLE else None
        values = np.asarray(stream.signal.values(self.batch), float)
        return np.where(self.inside(stream.place), values, np.nan) if stream.place else values

    def _of_texts(self, name: str) -> np.ndarray | None:
        """Return a number of the texts that were read; NaN for the other samples, None if it has no such."""
        assert self.context.texts is not None
        found, phrase = np.full(len(self.batch), np.nan), phrase_of(name)
        for step in self.batch.steps.tolist():
            read = self.context.texts.steps.get(step)
            if read is None or (phrase is None and name not in read.numbers):
                continue
            at = np.searchsorted(self.batch.rows, read.rows).clip(max=len(found) - 1)
            same = self.batch.rows[at] == read.rows
            values = np.asarray(read.numbers[name], float) if phrase is None else holders(read, *phrase)
            found[at[same]] = values[same]
        return found if np.isfinite(found).any() else None

    def bounds(self, *ats: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the masks of the samples before the first and after the last of some positions."""
        low, high = min(ats), min(max(ats), self.stop - 1)
        before = (self.position < low) & (self.position >= low - BEFORE)
        return before, (self.position >= high) & (self.position < high + AFTER)

    def explained(self, cause: RunChange, effect: RunChange | None, onset: int) -> ExplainedShare:
        """Return the share of an effect, or of the target's change at ``onset``, that a change carries."""
        found = self._explained(cause, effect, onset, self.y)
        if found.is_clear or effect is not None or self.other_y is None:
            return found
        other = self._explained(cause, effect, onset, self.other_y)
        return other if other.is_clear else found

    def _explained(
        self, cause: RunChange, effect: RunChange | None, onset: int, y: np.ndarray
    ) -> ExplainedShare:
        x, at = self.values(cause), onset
        if effect is not None:
            found = self.values(effect)
            if found is None:
                return UNKNOWN
            y, at = found, effect.at
        if x is None:
            return UNKNOWN
        before, after = self.bounds(cause.at, at)
        chosen = before | after
        samples = WindowSamples(
            x[chosen], y[chosen], after[chosen], self.batch.group[chosen], self.position[chosen]
        )
        if cause.stream.place and cause.stream.column == self.target and cause.stream.signal is not None:
            return left_out_share(samples, self.inside(cause.stream.place)[chosen])
        return explained_share(samples, needs_x=bool(cause.stream.text))

    def carriers(self, change: RunChange) -> np.ndarray:
        """Return the mask of the samples from the change on that carry it; all if it is of the whole step."""
        before, after = self.bounds(change.at)
        x = self.values(change)
        if x is None:
            return after
        old, known = x[before & np.isfinite(x)], np.isfinite(x)
        if not len(old):
            return after & known
        sign = 1.0 if np.nanmean(np.where(after, x, np.nan)) >= old.mean() else -1.0
        limit = float(np.quantile(sign * old, _USUAL))
        if len(np.unique(x[known])) <= 2:  # a flag
            return after & known & (sign * x >= sign * x[known].mean())
        return after & known & (sign * x > limit)

    def moves_all(self, change: RunChange) -> bool:
        """Return True if even the samples that a change moves least have moved.

        If a part of the samples carries a rise, the lowest tenth is still about where it was. If all samples
        rise, it has risen, however wide their spread is.
        """
        x = self.values(change)
        if x is None:
            return True
        before, after = self.bounds(change.at)
        old, new = x[before & np.isfinite(x)], x[after & np.isfinite(x)]
        if not len(old) or not len(new):
            return False
        moved = float(new.mean() - old.mean())
        end = _LEAST_MOVED if moved > 0 else 1 - _LEAST_MOVED
        return bool(moved) and float(np.quantile(new, end) - np.quantile(old, end)) / moved >= _MOVED

    def where(self, change: RunChange) -> tuple[Place, ...]:
        """Return the few ranks or values of a label that carry a change; empty if it is everywhere."""
        if change.stream.place:
            return (change.stream.place,)
        x = self.values(change)
        if x is None:
            return ()
        before, after = self.bounds(change.at)
        before, after = before & np.isfinite(x), after & np.isfinite(x)
        if not before.any() or not after.any():
            return ()
        total = x[after].sum() - x[before].mean() * after.sum()
        best: tuple[float, tuple[Place, ...]] = (_MAX_OF_ALL, ())
        for dimension in dict.fromkeys(each.dimension for each in self.places if each):
            found = []
            for place in self.places:
                if place.dimension != dimension:
                    continue
                inside = self.inside(place)
                new, old = x[after & inside], x[before & inside]
                if len(new) and len(old):
                    found.append(((new.sum() - old.mean() * len(new)) / total, len(new) / after.sum(), place))
            found.sort(key=lambda each: -each[0] / each[1])
            share = size = 0.0
            for count, (part, part_size, _) in enumerate(found[:_MAX_PLACES], 1):
                share, size = share + part, size + part_size
                if share >= _IN_PLACE:
                    if size < best[0]:
                        best = size, tuple(each[2] for each in found[:count])
                    break
        return best[1]


def places_text(places: tuple[Place, ...]) -> str:
    """Return places in words: ``rank 3``, ``ranks 0 and 1``, ``env = web or code``."""
    if not places:
        return ""
    values = [each.value for each in places]
    if places[0].dimension == RANK:
        return f"rank {values[0]}" if len(values) == 1 else f"ranks {' and '.join(values)}"
    return f"{places[0].dimension} = {' or '.join(values)}"


def places_filter(places: tuple[Place, ...]) -> str:
    """Return the filter for the samples of some places."""
    parts = [each.where for each in places if each.where]
    return parts[0] if len(parts) == 1 else " or ".join(f"({part})" for part in parts)
