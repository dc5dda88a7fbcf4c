"""Scan of some series for windows of steps that are higher than earlier ones, step by step.

The mean of the ``w`` steps that end at a step is compared with that of earlier ones, for several ``w``, so
that a cliff and a slow slide are both found. A window is measured against steps before it alone, so that a
later step changes no earlier result: evidence that grows never loses a rise, and a step that has settled is
not looked at again.

The variance of a window's mean is the largest of: the steps' own variances, clustered by group; the noise
between neighbouring steps; and the spread of levels, from robust differences between means of batches of
steps: of long ones, if the window is long. In the first steps, all before a split are compared with all after
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np

#: What the later window is compared with: the lowest earlier window, the one right before it, or the one
#: half way from the first step. The second finds only sudden rises, the third only those that are faster than
#: in proportion.
Base = Literal["lowest", "adjacent", "half"]
#: Returns the values and the variances of the steps from a first to a last one (exclusive), shape (K, S).
Read = Callable[[int, int], tuple[np.ndarray, np.ndarray]]

#: Lengths of the later window, in steps; only those of the first are compared with the adjacent window.
WINDOWS, _NARROW = (2, 3, 5, 8, 13, 21), 3
#: Length of the window before, from a step on: at least this.
_BEFORE = ((19, 5), (8, 3), (0, 2))
#: With fewer steps, a change cannot be distinguished from the spread between steps.
MIN_STEPS = 4
#: Steps in which all splits are compared. They have few windows, so that a smaller score is as rare.
SHORT, _SHORT_BONUS = 19, 1.0
#: Numbers of the last steps before a split that are compared, too, and the price of that choice.
_LAST = (2, 3, 5, 8)
_LAST_PRICE = float(np.sqrt(4.0**2 + 4 * np.log(1 + len(_LAST))) - 4.0)
#: Standard errors from which the price of the chosen windows is added, and the steps that have none.
_PRICED, _FREE = 5.0, 40
#: Steps that share an estimate of the noise, steps that it is made of, and the fewest.
_BLOCK, _HISTORY, _MIN_KNOWN = 20, 160, 16
#: First blocks, which have too few steps to show the spread of levels.
_FIRST_BLOCKS = 3
#: Fewest differences of means of batches, which show the spread of levels.
_MIN_BATCHES = 5
#: Lengths of the batches, and their distances in lengths: up to some 20 steps. A slide would look like noise
#: over more of them.
_APART = {8: (1, 2, 3), 20: (1,)}
#: A window of this length or more is measured against batches of this length or more: the means of shorter
#: ones differ more, by the noise of steps alone.
_LONG = 20
#: Turns the median absolute second difference of white noise into its standard deviation, and that of others.
_SECOND_DIFFERENCE, _DEVIATION = 1.4826 / np.sqrt(1.5), 1.4826
#: Newest steps that are looked at again, since late lines may change them: lines that are later still cost a
#: new scan. And steps looked at at once.
_UNSETTLED, _AT_ONCE = 4, 400
#: By how much sums in another order may move a score.
_ROUNDING = 1e-6
#: Score of a difference whose standard error is 0.
_MAX_SCORE = np.finfo(np.float64).max


def row_median(values: np.ndarray) -> np.ndarray:
    """Return the median of each row's finite values, shape (K,); NaN for rows without any."""
    if not values.shape[1]:
        return np.full(len(values), np.nan)
    ordered = np.sort(values, axis=1)  # NaN last
    count = np.isfinite(values).sum(axis=1)
    low, high = np.maximum((count - 1) // 2, 0), np.minimum(count // 2, values.shape[1] - 1)
    rows = np.arange(len(values))
    return np.where(count > 0, (ordered[rows, low] + ordered[rows, high]) / 2, np.nan)


def step_noise(values: np.ndarray) -> np.ndarray:
    """Return the noise between neighbouring steps of each series, shape (K,); NaN with too few steps."""
    second = np.abs(values[:, 1:-1] - (values[:, :-2] + values[:, 2:]) / 2)
    enough = np.isfinite(values).sum(axis=1) >= _MIN_KNOWN
    return np.where(enough, _SECOND_DIFFERENCE * row_median(second), np.nan)


def level_spread(values: np.ndarray, shortest: int = 0) -> np.ndarray:
    """Return the standard deviation of a batch's mean, shape (K,); NaN with too few steps.

    It is the largest over the lengths of batches, from the ``shortest`` on, and over their distances: a level
    that wanders slowly differs little between adjacent batches. Differences have their median taken off, so
    that a steady trend adds nothing.
    """
    found = np.full(len(values), np.nan)
    known = np.isfinite(values)
    sums = np.zeros((2, len(values), values.shape[1] + 1))
    np.cumsum(np.stack([known, np.where(known, values, 0.0)]), axis=2, out=sums[:, :, 1:])
    for length in (each for each in _APART if each >= shortest):
        starts = np.arange(values.shape[1] - length, -1, -max(length // 4, 1))[::-1]
        count, total = sums[:, :, starts + length] - sums[:, :, starts]
        with np.errstate(all="ignore"):
            means = np.where(count >= length / 2, total / count, np.nan)
        for apart in _APART[length]:
            gaps = means[:, 4 * apart :] - means[:, : -4 * apart]
            if gaps.shape[1] < _MIN_BATCHES:
                continue
            around = np.abs(gaps - row_median(gaps)[:, None])
            enough = np.isfinite(gaps).sum(axis=1) >= _MIN_BATCHES
            spread = _DEVIATION / np.sqrt(2) * row_median(around)
            found = np.fmax(found, np.where(enough, spread, np.nan))
    return found


@dataclass(frozen=True)
class Best:
    """The best window of each series: K numbers each.

    Attributes
    ----------
    score : ndarray of float
        Difference in standard errors, less the price of having looked at many windows; -inf without one.
    z : ndarray of float
        Difference in standard errors.
    width, before, end : ndarray of int
        Lengths of the later window and of the one before, and the last position of the later one.
    """

    score: np.ndarray
    z: np.ndarray
    width: np.ndarray
    before: np.ndarray
    end: np.ndarray

    @classmethod
    def none(cls, count: int) -> Best:
        """Return no windows of ``count`` series."""
        zeros = np.zeros(count, int)
        return cls(np.full(count, -np.inf), np.zeros(count), zeros, zeros, zeros)

    def of(self, part: slice | np.ndarray) -> Best:
        """Return the windows of some series."""
        return Best(self.score[part], self.z[part], self.width[part], self.before[part], self.end[part])

    def with_rows(self, rows: np.ndarray, others: Best) -> Best:
        """Return these windows with others for some series."""
        parts = []
        for name in ("score", "z", "width", "before", "end"):
            found = getattr(self, name).copy()
            found[rows] = getattr(others, name)
            parts.append(found)
        return Best(*parts)

    def improved(self, score: np.ndarray, z: np.ndarray, windows: np.ndarray) -> Best:
        """Return the better windows of these and others.

        Parameters
        ----------
        score, z : ndarray of float, shape (K, N)
        windows : ndarray of int, shape (3, N)
            Width, length before, and end.
        """
        at = score.argmax(axis=1)
        rows = np.arange(len(score))
        better = score[rows, at] > self.score
        if not better.any():
            return self
        width, before, end = windows[:, at]
        return Best(
            np.where(better, score[rows, at], self.score),
            np.where(better, z[rows, at], self.z),
            np.where(better, width, self.width),
            np.where(better, before, self.before),
            np.where(better, end, self.end),
        )


@dataclass(frozen=True)
class Scan:
    """State of the scan of some series after some steps; the next steps are added to it.

    Attributes
    ----------
    least : float
        Smallest difference of interest; ndarray of shape (K,) while several scans are one.
    base : str
        What the later window is compared with, see `Base`.
    seen, done : int
        Steps whose range is known, and whose windows are.
    floor, top : ndarray of float, shape (K,)
        Range of the values.
    best : Best, optional
    low : ndarray of float, shape (2, K, W), optional
        Mean and variance of the lowest earlier window by length of the later one.
    noise : tuple of ndarray of float, shape (5, K)
        Of each block of steps: the noise of a step, the spread of levels over all lengths of batches and over
        long ones, and the means of both over all blocks.
    """

    least: Any
    base: Base
    seen: int = 0
    done: int = 0
    floor: np.ndarray | None = None
    top: np.ndarray | None = None
    best: Best | None = None
    low: np.ndarray | None = None
    noise: tuple[np.ndarray, ...] = ()

    def after(self, read: Read, steps: int) -> tuple[Scan, Best | None]:
        """Return the state of the steps that have settled, and the best windows of all steps.

        There are none if no series has a range of ``least``.
        """
        newest = self._until(read, steps)
        if steps - self.seen < 2 * _UNSETTLED and newest.done - self.done < 2 * _UNSETTLED:
            return replace(self, noise=newest.noise), newest.best
        settled = self._until(read, steps - _UNSETTLED, always=newest.done > 0)
        return settled, newest.best

    def reusable(self, steps: int) -> Scan | None:
        """Return the state if only its first ``steps`` steps are as they were; None if it used others.

        The noise of a block is known before the steps have settled: that of changed steps is left out.
        """
        if self.seen > steps:
            return None
        ends = _ends(len(self.noise))
        return (
            self
            if not ends or ends[-1] <= steps
            else replace(
                self, noise=tuple(each for each, end in zip(self.noise, ends, strict=True) if end <= steps)
            )
        )

    def _until(self, read: Read, stop: int, *, always: bool = False) -> Scan:
        """Return the state after ``stop`` steps; unless ``always``, windows wait for a range of ``least``."""
        scan = self._with_range(read, stop)
        if stop < MIN_STEPS or not (always or scan._has_range()):
            return scan
        while scan.done < stop:
            scan = scan._advanced(read, min(stop, scan.done + _AT_ONCE))
        return scan

    def _has_range(self) -> bool:
        """Return True if the values of a series differ by more than ``least``."""
        return bool(self._far_apart().any())

    def _far_apart(self) -> np.ndarray:
        """Return the mask of series whose values differ by more than ``least``."""
        if self.floor is None or self.top is None:
            return np.zeros(0, bool)
        apart: np.ndarray = self.top - self.floor > self.least
        return apart

    def noise_of(self, scan: Scan, part: slice) -> tuple[np.ndarray, ...]:
        """Return the noise of a scan that is a part of this one, with the blocks that came since."""
        return (*scan.noise, *(each[:, part] for each in self.noise[len(scan.noise) :]))

    def _with_range(self, read: Read, stop: int) -> Scan:
        values, _ = read(self.seen, stop)
        known = np.isfinite(values)
        floor = np.where(known, values, np.inf).min(axis=1, initial=np.inf)
        top = np.where(known, values, -np.inf).max(axis=1, initial=-np.inf)
        if self.floor is not None and self.top is not None:
            floor, top = np.minimum(floor, self.floor), np.maximum(top, self.top)
        return replace(self, seen=stop, floor=floor, top=top)

    def _advanced(self, read: Read, stop: int) -> Scan:
        """Return the state after the windows that end before ``stop``, too."""
        first, widest = self.done, WINDOWS[-1]
        start = max(0, first - 2 * widest)
        values, variance = read(start, stop)
        scan = replace(self, noise=self._noise_until(read, stop), done=stop)
        best = self.best or Best.none(len(values))
        if self.base == "lowest" and first < SHORT:
            best = _splits(best, read(0, min(stop, SHORT)), self.least)
        widths = np.array(WINDOWS if self.base == "lowest" else WINDOWS[:_NARROW])[:, None]
        ends = np.arange(first, stop)[None]
        if self.base == "lowest":
            before = np.maximum(widths, _BEFORE[0][1]) + 0 * ends
        else:
            before = np.select([ends >= step for step, _ in _BEFORE], [length for _, length in _BEFORE])
            before = np.maximum(widths, before)
        windows = Windows(values, variance, start)
        later = windows.means(ends + 0 * widths, widths + 0 * ends)
        if self.base == "half":
            at = np.minimum(ends // 2, ends - widths)
            begin = max(0, int((at - before).min()) + 1)
            halves = Windows(*read(begin, max(int(at.max()) + 1, begin + 1)), begin)
            earlier = halves.means(at, before)
        else:
            earlier = windows.means(ends - widths, before)
        if self.base == "lowest":
            earlier = _lowest(earlier, self.low)
            scan = replace(scan, low=earlier[:, :, :, -1])
        blocks = _block(ends[0])
        white, *levels = np.stack(scan.noise[blocks[0] :], axis=-1)[:, :, None, blocks - blocks[0]]
        # A few batches of steps may look alike by chance: levels spread as much as they did in the run.
        slow = np.where(widths >= _LONG, np.fmax(levels[1], levels[3]), np.fmax(levels[0], levels[2]))
        with np.errstate(all="ignore"):
            total = _variance(later[1], widths, white, slow) + _variance(earlier[1], before, white, slow)
            gap = later[0] - earlier[0]
            z = np.minimum(gap / np.sqrt(total), _MAX_SCORE)
        far = gap > np.reshape(self.least, (-1, 1, 1))
        score = np.where(far & (z > 0), z - _price(ends, self.base), -np.inf)
        if self.base == "lowest":
            score[:, :, ends[0] < SHORT] = -np.inf
        every = np.stack([widths + 0 * ends, before, ends + 0 * widths]).reshape(3, -1)
        flat = len(values), every.shape[1]
        return replace(scan, best=best.improved(score.reshape(flat), z.reshape(flat), every))

    def _newest(self, read: Read, steps: int) -> Scan:
        """Return the state after all steps, of which only the best windows and the noise are right.

        Series whose new windows cannot be high enough keep their best one: most of them.
        """
        first, blocks = self.done, int(_block(np.array(steps - 1))) + 1
        if first < SHORT or steps - first > _AT_ONCE or blocks > len(self.noise) or self.best is None:
            scan = self
            while scan.done < steps:
                scan = scan._advanced(read, min(steps, scan.done + _AT_ONCE))
            return scan
        start = max(0, first - WINDOWS[-1] + 1)
        values, _ = read(start, steps)
        assert self.floor is not None
        lowest = np.fmin.reduce(values[:, first - start :], axis=1)
        highest = np.fmax.reduce(values, axis=1)
        rows = np.flatnonzero(highest - np.fmin(lowest, self.floor) > self.least * (1 - _ROUNDING))
        best = self.best
        if len(rows):

            def read_rows(begin: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
                values, variance = read(begin, stop)
                return values[rows], variance[rows]

            found = self._of_rows(rows)._advanced(read_rows, steps).best
            assert found is not None
            best = best.with_rows(rows, found)
        return replace(self, done=steps, best=best)

    def _of_rows(self, rows: np.ndarray) -> Scan:
        """Return the state of some series."""
        assert self.floor is not None
        assert self.top is not None
        return replace(
            self,
            least=self.least[rows],
            floor=self.floor[rows],
            top=self.top[rows],
            best=self.best and self.best.of(rows),
            low=None if self.low is None else self.low[:, rows],
            # The noise of scans that are joined is that of the blocks from the first used one on.
            noise=tuple(each[:, rows] if each.shape[1] == len(self.floor) else each for each in self.noise),
        )

    def _noise_until(self, read: Read, stop: int) -> tuple[np.ndarray, ...]:
        """Return the noise of all blocks with steps before ``stop``, each from the steps before it."""
        known = len(self.noise)
        count = int(_block(np.array(stop - 1))) + 1 - known
        if count <= 0:
            return self.noise
        ends = np.array(_ends(known + count)[known:])
        start = int(max(ends[0] - _HISTORY, 0))
        values, variance = (
            np.concatenate([np.full((len(part), _HISTORY), np.nan), part], axis=1)
            for part in read(start, int(ends[-1]))
        )
        at = (ends - start)[:, None] + np.arange(_HISTORY)
        values, variance = (part[:, at].reshape(-1, _HISTORY) for part in (values, variance))
        white = np.fmax(step_noise(values), row_median(np.sqrt(variance)) / 2)
        every, long = level_spread(values), level_spread(values, _LONG)
        found = np.stack([white, every, np.where(np.isfinite(long), long, every)])
        noise = list(self.noise)
        for now in found.reshape(3, -1, len(ends)).transpose(2, 0, 1):
            own, usual = now[1:], noise[-1][3:] if noise else np.full(now[1:].shape, np.nan)
            share = 1 / max(len(noise) - _FIRST_BLOCKS, 1)
            mean = np.where(np.isfinite(usual + own), usual + share * (own - usual), np.fmax(usual, own))
            noise.append(np.concatenate([now, mean]))
        return tuple(noise)


def may_rise(values: np.ndarray, variance: np.ndarray, least: float, threshold: float) -> bool:
    """Return False if no window can be higher than the lowest one before it by so many standard errors.

    Its error is at least that of its own steps: the noise, which takes most of the time, need not be known.
    """
    steps = values.shape[1]
    if steps < MIN_STEPS:
        return False
    bound = threshold - _ROUNDING
    early = _splits(Best.none(len(values)), (values[:, :SHORT], variance[:, :SHORT]), least)
    if (early.score > bound).any():
        return True
    means = TrailingMeans(values)
    # A step whose variance is not known counts as an exact one, so that no error is too large.
    variances = TrailingMeans(
        np.where(np.isfinite(variance), variance, np.where(np.isfinite(values), 0.0, np.nan))
    )
    for width in WINDOWS:
        before, first = max(width, _BEFORE[0][1]), max(SHORT, width)
        if first >= steps:
            break
        earlier = means.of(before, steps - width)
        lowest = np.minimum.accumulate(np.where(np.isfinite(earlier), earlier, np.inf), axis=1)
        gap = means.of(width, steps)[:, first:] - lowest[:, first - width :]
        far = gap > least
        if not far.any():
            continue
        # Steps without a value make a variance larger than these.
        smallest = np.fmin.reduce(variances.of(before, steps - width), axis=1, keepdims=True)
        own = np.nan_to_num(variances.of(width, steps)[:, first:]) / width
        with np.errstate(all="ignore"):
            error = np.sqrt(own + np.where(np.isfinite(smallest), smallest, 0.0) / before)
            score = gap / error - _price(np.arange(first, steps), "lowest")
        if (far & (score > bound)).any():
            return True
    return False


def after_together(
    scans: Sequence[Scan], reads: Sequence[Read], steps: int
) -> list[tuple[Scan, Best | None]]:
    """Return what `Scan.after` returns of several scans; those at the same step are computed together.

    Parameters
    ----------
    scans : sequence of Scan
    reads : sequence of callable
        Return the values of the series of each scan.
    steps : int
    """
    found: dict[int, tuple[Scan, Best | None]] = {}
    alike: dict[tuple[Base, int, int, int], list[int]] = {}
    for at, scan in enumerate(scans):
        if scan.floor is None:  # nothing was tested yet: the run has too few steps
            found[at] = scan.after(reads[at], steps)
        else:
            alike.setdefault((scan.base, scan.seen, scan.done, len(scan.noise)), []).append(at)
    for members in alike.values():
        states = _after_alike([scans[at] for at in members], [reads[at] for at in members], steps)
        found |= dict(zip(members, states, strict=True))
    return [found[at] for at in range(len(scans))]


def _after_alike(scans: Sequence[Scan], reads: Sequence[Read], steps: int) -> list[tuple[Scan, Best | None]]:
    """Return what `Scan.after` returns of scans that have seen and done the same steps.

    Only the states of scans that move on are taken apart, once in several steps.
    """
    joined, bounds = _joined(scans)
    read, first = _read_all(reads), max(0, joined.done - 2 * WINDOWS[-1])
    if joined.done:
        read = _read_once(read, first, steps)
    ranged = joined._with_range(read, steps)
    due = np.flatnonzero(np.logical_or.reduceat(ranged._far_apart(), bounds[:-1]) & (steps >= MIN_STEPS))
    found: list[tuple[Scan, Best | None]] = [(scan, scan.best) for scan in scans]
    is_late = steps - joined.seen >= 2 * _UNSETTLED
    moving = list(range(len(scans))) if is_late else []
    if len(due):
        old = [scans[at] for at in due.tolist()]
        newest, own = (joined, bounds) if len(due) == len(scans) else _joined(old)
        if len(due) < len(scans):
            read = _read_once(_read_all([reads[at] for at in due.tolist()]), first, steps)
        newest = newest._newest(read, steps)
        for at, scan, part in zip(due.tolist(), old, map(slice, own[:-1], own[1:]), strict=True):
            if len(newest.noise) > len(scan.noise):
                scan = replace(scan, noise=newest.noise_of(scan, part))
            found[at] = scan, newest.best and newest.best.of(part)
        if not is_late and newest.done - joined.done >= 2 * _UNSETTLED:
            moving = due.tolist()
    if moving:
        always = np.isin(moving, due) | (joined.done > 0)
        old, own_reads = [scans[at] for at in moving], [reads[at] for at in moving]
        settled = _until_together(old, own_reads, steps - _UNSETTLED, always.tolist())
        for at, scan in zip(moving, settled, strict=True):
            found[at] = scan, found[at][1]
    return found


def _until_together(
    scans: Sequence[Scan], reads: Sequence[Read], stop: int, always: Sequence[bool]
) -> list[Scan]:
    """Return the states of `Scan._until` of scans that have seen and done the same steps."""
    joined, sizes = _joined(scans)
    ranged = _apart(joined._with_range(_read_all(reads), stop), scans, sizes)
    due = [at for at, scan in enumerate(ranged) if stop >= MIN_STEPS and (always[at] or scan._has_range())]
    if not due:
        return ranged
    joined, sizes = _joined([ranged[at] for at in due])
    read = _read_all([reads[at] for at in due])
    while joined.done < stop:
        joined = joined._advanced(read, min(stop, joined.done + _AT_ONCE))
    for at, scan in zip(due, _apart(joined, [ranged[at] for at in due], sizes), strict=True):
        ranged[at] = scan
    return ranged


def _read_all(reads: Sequence[Read]) -> Read:
    """Return a function that returns the values of the series of all scans."""

    def read(first: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        values, variances = zip(*(each(first, stop) for each in reads), strict=True)
        return np.concatenate(values), np.concatenate(variances)

    return read


def _read_once(read: Read, start: int, stop: int) -> Read:
    """Return the same function; the steps from ``start`` to ``stop`` are read at once."""
    values, variances = read(start, stop)

    def part(first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        if first < start:
            return read(first, last)
        return values[:, first - start : last - start], variances[:, first - start : last - start]

    return part


def _joined(scans: Sequence[Scan]) -> tuple[Scan, np.ndarray]:
    """Return scans that have seen and done the same steps as one, and the bounds of the series of each."""
    first = scans[0]
    sizes = [0 if scan.floor is None else len(scan.floor) for scan in scans]
    least = np.repeat([scan.least for scan in scans], sizes)

    def together(parts: Sequence[np.ndarray | None], axis: int = 0) -> np.ndarray:
        return np.concatenate([part for part in parts if part is not None], axis=axis)

    best = None
    if first.best is not None:
        names = [each.name for each in fields(Best)]
        best = Best(*(together([getattr(scan.best, name) for scan in scans]) for name in names))
    used = _first_used(first)
    noise = [together(of_block, 1) for of_block in zip(*(scan.noise[used:] for scan in scans), strict=True)]
    joined = replace(
        first,
        least=least,
        floor=together([scan.floor for scan in scans]),
        top=together([scan.top for scan in scans]),
        best=best,
        low=None if first.low is None else together([scan.low for scan in scans], 1),
        noise=(*first.noise[:used], *noise),
    )
    return joined, np.cumsum([0, *sizes])


def _first_used(scan: Scan) -> int:
    """Return the first block whose noise the next steps need: the last one at least, for the mean of all."""
    return max(min(int(_block(np.array(scan.done))), len(scan.noise) - 1), 0)


def _apart(joined: Scan, scans: Sequence[Scan], bounds: np.ndarray) -> list[Scan]:
    """Return the states of scans that were advanced as one."""
    found = []
    for scan, start, stop in zip(scans, bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        part, best = slice(start, stop), joined.best
        assert joined.floor is not None
        assert joined.top is not None
        found.append(
            replace(
                joined,
                least=scan.least,
                floor=joined.floor[part],
                top=joined.top[part],
                best=best and best.of(part),
                low=None if joined.low is None else joined.low[:, part],
                noise=joined.noise_of(scan, part),
            )
        )
    return found


def _ends(blocks: int) -> list[int]:
    """Return the number of steps before each of the first blocks: those that its noise is made of."""
    return [0, _MIN_KNOWN, *range(_BLOCK, _BLOCK * max(blocks, 2), _BLOCK)][:blocks]


def _block(ends: np.ndarray) -> np.ndarray:
    """Return the index of the noise that counts for windows which end at some steps."""
    return np.where(ends < _MIN_KNOWN, 0, 1 + ends // _BLOCK)


def _variance(own: np.ndarray, width: np.ndarray, white: np.ndarray, slow: np.ndarray) -> np.ndarray:
    """Return the variance of the means of windows, shape (K, W, S); see the module."""
    return np.fmax(np.fmax(own, white**2 / width), slow**2)


def _price(ends: np.ndarray, base: Base) -> np.ndarray:
    """Return how much larger a score must be at each step, since many windows were looked at."""
    if base != "lowest":
        return np.where(ends < SHORT, -_SHORT_BONUS, 0.0)
    # The later window is the highest of as many as the earlier one is the lowest of: each has its price.
    windows = np.maximum((ends + 1) / _FREE, 1.0) ** 2
    return np.sqrt(_PRICED**2 + 2 * np.log(windows)) - _PRICED


class Windows:
    """Means of windows of some series, from running sums.

    Parameters
    ----------
    values, variance : ndarray of float, shape (K, S)
    start : int
        Position of the first step.
    """

    def __init__(self, values: np.ndarray, variance: np.ndarray, start: int) -> None:
        known = np.isfinite(values)
        measured = known & np.isfinite(variance)
        parts = known, np.where(known, values, 0.0), measured, np.where(measured, variance, 0.0)
        self._start = start
        self._sums = np.zeros((4, len(values), values.shape[1] + 1))
        np.cumsum(np.stack(parts), axis=2, out=self._sums[:, :, 1:])

    def means(self, ends: np.ndarray, width: np.ndarray) -> np.ndarray:
        """Return means and their variances of the windows that end at some steps, shape (2, K, W, S).

        They are NaN where fewer than half of the steps have a value.
        """
        last = ends + 1 - self._start
        first = last - width
        inside = first >= 0
        # `np.take` needs half the time of indexing.
        count, total, measured, spread = np.take(self._sums, np.maximum(last, 0), axis=2) - np.take(
            self._sums, np.maximum(first, 0), axis=2
        )
        with np.errstate(all="ignore"):
            mean, variance = total / count, spread / measured / count
        enough = inside & (count >= (width + 1) // 2)
        return np.where(enough, np.stack([mean, variance]), np.nan)


class TrailingMeans:
    """Means of the last steps at each step, of some series: faster than `Windows` for all steps.

    Parameters
    ----------
    values : ndarray of float, shape (K, S)
    """

    def __init__(self, values: np.ndarray) -> None:
        known = np.isfinite(values)
        self._sums = np.zeros((2, len(values), values.shape[1] + 1))
        np.cumsum(known, axis=1, out=self._sums[0, :, 1:])
        np.cumsum(np.where(known, values, 0.0), axis=1, out=self._sums[1, :, 1:])

    def of(self, width: int, stop: int) -> np.ndarray:
        """Return the means of the ``width`` steps that end at each step before ``stop``, shape (K, stop).

        They are NaN where fewer than half of the steps have a value.
        """
        found = np.full((self._sums.shape[1], max(stop, 0)), np.nan)
        if stop >= width:
            count, total = self._sums[:, :, width : stop + 1] - self._sums[:, :, : stop + 1 - width]
            with np.errstate(all="ignore"):
                found[:, width - 1 :] = np.where(count >= (width + 1) // 2, total / count, np.nan)
        return found


def _lowest(earlier: np.ndarray, low: np.ndarray | None) -> np.ndarray:
    """Return the lowest of all earlier means at each step, and its variance, shape (2, K, W, S)."""
    if low is not None:
        earlier = np.concatenate([low[:, :, :, None], earlier], axis=3)
    filled = np.where(np.isnan(earlier[0]), np.inf, earlier[0])
    lowest = np.minimum.accumulate(filled, axis=2)
    position = np.where(filled <= lowest, np.arange(filled.shape[2]), 0)
    position = np.maximum.accumulate(position, axis=2)
    found = np.stack(
        [np.where(np.isinf(lowest), np.nan, lowest), np.take_along_axis(earlier[1], position, axis=2)]
    )
    return found if low is None else found[:, :, :, 1:]


def _splits(best: Best, series: tuple[np.ndarray, np.ndarray], least: float | np.ndarray) -> Best:
    """Return the best windows after comparing all steps before a split, or a few, with all after it.

    The variance of a step is the larger of the mean of the steps' own and of the spread around both levels.
    A run that learns has no level in its first steps: there, the last few before the split are its level.
    """
    values, variance = series
    steps = values.shape[1]
    known = np.isfinite(values)
    measured = known & np.isfinite(variance)
    filled = np.where(known, values, 0.0)
    parts = known, filled, filled**2, measured, np.where(measured, variance, 0.0)
    sums = np.zeros((5, len(values), steps + 1))
    np.cumsum(np.stack(parts), axis=2, out=sums[:, :, 1:])
    few, split, end = (
        each.ravel() for each in np.meshgrid((0, *_LAST), np.arange(2, steps - 1), np.arange(3, steps))
    )
    valid = (end > split) & (few < split)
    few, split, end = few[valid], split[valid], end[valid]
    start = np.where(few > 0, split - few, 0)
    old, both = sums[:, :, split] - sums[:, :, start], sums[:, :, end + 1] - sums[:, :, start]
    new = both - old
    with np.errstate(all="ignore"):
        gap = new[1] / new[0] - old[1] / old[0]
        rest = both[2] - new[1] ** 2 / new[0] - old[1] ** 2 / old[0]
        around = np.where(both[0] >= 5, np.maximum(rest, 0.0) / (both[0] - 2), 0.0)
        own = both[4] / both[3]
        z = np.minimum(gap / np.sqrt(np.fmax(own, around) * (1 / new[0] + 1 / old[0])), _MAX_SCORE)
        far = (gap > np.reshape(least, (-1, 1))) & (z > 0) & (new[0] >= 2) & (old[0] >= 2) & np.isfinite(own)
    score = np.where(far, z + _SHORT_BONUS - np.where(few > 0, _LAST_PRICE, 0.0), -np.inf)
    return best.improved(score, z, np.stack([end - split + 1, np.where(few > 0, few, split), end]))
