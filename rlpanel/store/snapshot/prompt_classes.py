"""Class of each prompt over training by its pass rate, and its cost against the signal it bought."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rlpanel.store.columns.step_stats import MAX
from rlpanel.store.snapshot.alignment import CLOCKS
from rlpanel.store.snapshot.prompt_grid import WASTE, PromptGrid, sums_at
from rlpanel.store.snapshot.snapshot import Snapshot

# -- prompt classes ------------------------------------------------------------------------------------
# Class of each prompt over training, by its pass rate: learnt, forgotten, flickers, never, always or steady.
#
# Passes of a visit are binomial, so a prompt that is a coin flip varies from visit to visit without any
# change. A change must exceed that noise before a prompt counts as learnt, forgotten or flickering.


#: Classes; `SELDOM` are prompts at too few steps. Their positions are the codes.
LEARNT, FORGOTTEN, FLICKERS, NEVER, ALWAYS, STEADY, SELDOM = (
    *("learnt", "forgotten", "flickers", "never", "always", "steady", "seldom"),
)
CLASSES = (LEARNT, FORGOTTEN, FLICKERS, NEVER, ALWAYS, STEADY, SELDOM)
#: Pass rates up to which a prompt without a change is never, and from which on it is always solved.
LOW, HIGH = 0.05, 0.95
#: A move of the pass rate counts from here on, and if it is as many standard errors, but at most `MAX_MOVE`.
MIN_MOVE, MAX_MOVE, ERRORS = 0.3, 0.75, 3.0
#: Standard normal quantiles of the tests: 0.1 % of the prompts without a change exceed either.
DISPERSION_Z, DIFFERENCE_Z = 3.09, 3.29
#: Most blocks of consecutive visits in which moves are sought.
BLOCKS = 12
#: Cells whose prompts are classified at once.
_CELLS = 1 << 20
#: Least standard deviation of the pass rate between visits, beyond chance, of a prompt that flickers.
_SPREAD = 0.15


def prompt_classes(grid: PromptGrid, least: int) -> np.ndarray:
    """Return the position in `CLASSES` of each prompt's class, shape (P,).

    A visit is a step at which the prompt has a sample with a reward. The pass rate of a prompt *changes* if
    one of three tests of a constant rate fails: Pearson's χ² over the visits, the same over at most 12
    blocks of consecutive visits (both above the 99.9 % quantile), or the difference between the first and
    last third of the visits (beyond 3.29 standard errors). Variances are those of a rate between 5 % and 95
    %: a few passes of many attempts are no change. χ² is compared by the cube root of Wilson and Hilferty.

    A *move* is a difference of the pass rate between two turning points of the blocks of at least 30 points.
    It must also be three standard errors, but need not exceed 75 points.

    - **learnt**: changes, by one move up.
    - **forgotten**: changes, and the last move is the first one down.
    - **flickers**: changes, by more moves; or without a move, if the rates of visits have a standard
      deviation of 15 points or more beyond chance.
    - **never**, **always**: else, and at most 5 %, or at least 95 %, of the samples passed.
    - **steady**: else. Passes are in between, and chance explains how they vary.
    - **seldom**: fewer visits than ``least``, or than two.

    References
    ----------
    Pearson 1900, X² of a homogeneous binomial; Wilson, Hilferty 1931, The Distribution of Chi-Square.
    """
    found = []
    edges = np.append(grid.firsts, len(grid.prompt))
    first = 0
    while first < len(grid):
        last = max(int(np.searchsorted(edges, edges[first] + _CELLS, side="right")) - 1, first + 1)
        part = slice(int(edges[first]), int(edges[last]))
        found.append(
            _classes(grid.prompt[part] - first, grid.samples[part], grid.passed[part], last - first, least)
        )
        first = last
    return np.concatenate(found) if found else np.empty(0, np.int8)


def _classes(
    prompt: np.ndarray, samples: np.ndarray, passed: np.ndarray, count: int, least: int
) -> np.ndarray:
    """Return the classes of some prompts from their cells."""
    visited = np.flatnonzero(samples > 0)
    owner = prompt[visited]
    samples, passed = samples[visited].astype(float), passed[visited].astype(float)
    visits = np.bincount(owner, minlength=count)
    order = np.arange(len(visited)) - np.repeat(
        np.cumsum(visits) - visits, visits
    )  # of a visit of its prompt
    total = np.bincount(owner, samples, count)
    rate = np.bincount(owner, passed, count) / np.maximum(total, 1)

    blocks = np.minimum(visits, BLOCKS)
    block = owner * BLOCKS + order * blocks[owner] // visits[owner]
    block_samples = np.bincount(block, samples, count * BLOCKS).reshape(count, BLOCKS)
    block_passed = np.bincount(block, passed, count * BLOCKS).reshape(count, BLOCKS)

    variance = np.clip(rate, LOW, HIGH) * (1 - np.clip(rate, LOW, HIGH))
    squares = (passed - samples * rate[owner]) ** 2 / (samples * variance[owner])
    by_visit = np.bincount(owner, squares, count)
    with np.errstate(all="ignore"):
        squares = (block_passed - block_samples * rate[:, None]) ** 2 / (block_samples * variance[:, None])
    by_block = np.nansum(squares, axis=1)
    changes = (_quantile(by_visit, visits - 1) > DISPERSION_Z) | (
        _quantile(by_block, blocks - 1) > DISPERSION_Z
    )
    changes |= np.abs(_difference(owner, order, visits, samples, passed, variance)) > DIFFERENCE_Z

    freedom = np.maximum(visits - 1, 1)
    beyond = np.maximum(by_visit / freedom - 1, 0) * variance * visits / np.maximum(total, 1)
    found = np.select([rate <= LOW, rate >= HIGH], [3, 4], 5)
    is_known = visits >= max(least, 2)
    for at in np.flatnonzero(changes & is_known).tolist():
        size = int(blocks[at])
        of_block = block_samples[at, :size]
        margin = ERRORS * np.sqrt(2 * variance[at] * size / of_block.sum())
        moves = moves_of(
            (block_passed[at, :size] / of_block).tolist(), float(np.clip(margin, MIN_MOVE, MAX_MOVE))
        )
        if moves == [1]:
            found[at] = 0
        elif moves in ([-1], [1, -1]):
            found[at] = 1
        elif moves or np.sqrt(beyond[at]) >= _SPREAD:
            found[at] = 2
    found[~is_known] = 6
    return found.astype(np.int8)


def moves_of(rates: list[float], margin: float) -> list[int]:
    """Return the directions, 1 or -1, of the moves of at least a margin between turning points."""
    moves: list[int] = []
    low = high = rates[0]
    for value in rates[1:]:
        last = moves[-1] if moves else 0
        low, high = min(low, value), max(high, value)
        if last <= 0 and value - low >= margin:
            moves.append(1)
            high = value
        elif last >= 0 and high - value >= margin:
            moves.append(-1)
            low = value
    return moves


def _quantile(squares: np.ndarray, freedom: np.ndarray) -> np.ndarray:
    """Return the standard normal quantile of values of χ², by Wilson and Hilferty's cube root."""
    part = 2 / (9 * np.maximum(freedom, 1))
    z = (np.cbrt(squares / np.maximum(freedom, 1)) - (1 - part)) / np.sqrt(part)
    return np.where(freedom > 0, z, -np.inf)


def _difference(
    owner: np.ndarray,
    order: np.ndarray,
    visits: np.ndarray,
    samples: np.ndarray,
    passed: np.ndarray,
    variance: np.ndarray,
) -> np.ndarray:
    """Return the pass rate of the last third of the visits minus that of the first, in standard errors."""
    third = np.maximum(visits // 3, 1)
    parts = []
    for inside in (order < third[owner], order >= (visits - third)[owner]):
        size = np.bincount(owner, samples * inside, len(visits))
        parts.append((np.bincount(owner, passed * inside, len(visits)), np.maximum(size, 1)))
    (first, first_size), (last, last_size) = parts
    error = np.sqrt(variance * (1 / first_size + 1 / last_size))
    return (last / last_size - first / first_size) / error


# -- prompt costs --------------------------------------------------------------------------------------
# Cost of each prompt against the signal that it bought: tokens, seconds, GPU-hours, and waste.


#: Scalars with the seconds of a step: TRL; verl; prime-rl, NeMo RL; tinker-cookbook.
STEP_SECONDS = (
    "step_time",
    "timing_s/step",
    "perf/time_per_step",
    "time/step",
    "total_step_time",
    "time/total",
)
#: What may not be logged, with what to log.
MISSING = (
    "tokens: log response_tokens, or the tokens of each response",
    "seconds: log step_time in scalars.jsonl, or the time of each sample",
    "GPU-hours: write gpus into run.json",
)
#: Names of the number of GPUs in ``run.json``.
GPU_NAMES = ("gpus", "num_gpus", "n_gpus")
#: A step that takes as many median step times was interrupted, and counts as one median.
LONG_STEP = 10


@dataclass(frozen=True)
class StepTimes:
    """Seconds of each step, and where they come from.

    Attributes
    ----------
    seconds : ndarray of float, shape (S,)
        NaN where they are not known.
    source : str
        Name of the scalar, or of the samples' clock; empty if no times are known.
    interrupted : int
        Number of steps that took more than 10 median step times, and count as one.
    """

    seconds: np.ndarray
    source: str
    interrupted: int = 0


@dataclass(frozen=True)
class Waste:
    """Rows, tokens and GPU-hours of one kind, with its share of all tokens (of all rows if none are logged).

    None stands for what is not logged.
    """

    kind: str
    rows: int | None
    tokens: float | None
    seconds: float | None
    gpu_hours: float | None
    share: float | None


@dataclass(frozen=True)
class PromptCosts:
    """Class, cost and signal of each prompt.

    Attributes
    ----------
    grid : PromptGrid
    classes : ndarray of int8, shape (P,)
        Positions in `CLASSES`.
    times : StepTimes
    gpus : float
        NaN if ``run.json`` does not say.
    tokens, seconds, signal : ndarray of float, shape (P,)
        NaN where they are not logged. The seconds of a step are shared by tokens; by rows if none are logged.
    waste : tuple of Waste
        In the order of `WASTE`. A row may be of several kinds, and counts once in the last.
    """

    grid: PromptGrid
    classes: np.ndarray
    times: StepTimes
    gpus: float
    tokens: np.ndarray
    seconds: np.ndarray
    signal: np.ndarray
    waste: tuple[Waste, ...]

    @property
    def gpu_hours(self) -> np.ndarray:
        """GPU-hours of each prompt, shape (P,): its seconds times the run's GPUs; NaN if not known."""
        return self.seconds * self.gpus / 3600

    @cached_property
    def first_and_last(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the pass rates of each prompt's first and last visit, shape (P,) each; NaN without one."""
        grid = self.grid
        at = np.flatnonzero(grid.samples > 0)
        ends = np.cumsum(grid.visits)
        rates, seen = [], grid.visits > 0
        for visit in (ends[seen] - grid.visits[seen], ends[seen] - 1):
            rate, cell = np.full(len(grid), np.nan), at[visit]
            rate[seen] = grid.passed[cell] / grid.samples[cell]
            rates.append(rate)
        return rates[0], rates[1]

    @cached_property
    def order(self) -> np.ndarray:
        """Prompts by class, and within a class the most expensive first, shape (P,)."""
        return np.lexsort([-self.grid.cost_of_prompts, self.classes])

    def of(self, names: tuple[str, ...] | list[str]) -> np.ndarray:
        """Return the prompts of some classes, in `order`."""
        codes = [CLASSES.index(name) for name in names]
        order = self.order
        return order[np.isin(self.classes[order], codes)]

    def missing(self) -> list[str]:
        """Return what is not logged, of `MISSING`."""
        grid = self.grid
        found = []
        if not grid.has_tokens:
            found.append(MISSING[0])
        if not self.times.source:
            found.append(MISSING[1])
        if not np.isfinite(self.gpus):
            found.append(MISSING[2])
        return found


def costs_of_prompts(snapshot: Snapshot, grid: PromptGrid, least: int) -> PromptCosts:
    """Return class, cost and signal of each prompt; ``least`` is as in `prompt_classes`.

    The seconds of a step are those that its trainer logs, else those since the newest sample of the step
    before. They are shared by the response tokens of the step's rows, with discarded samples and all rows of
    an episode.
    """
    times = step_times(snapshot, grid.steps)
    whole = sums_at(grid.step, grid.cost, len(grid.steps))
    with np.errstate(all="ignore"):
        price = np.where(whole > 0, times.seconds / whole, np.nan)  # of a token, or of a row
    gpus = _gpus(snapshot)
    tokens = grid.cost_of_prompts if grid.has_tokens else np.full(len(grid), np.nan)
    waste = []
    for kind, rows, cost in zip(WASTE, grid.wasted_rows, grid.wasted_cost, strict=True):
        spent, amount = known_sum(cost * price), known_sum(cost)
        number = known_sum(rows)
        waste.append(
            Waste(
                kind,
                None if number is None else int(number),
                amount if grid.has_tokens else None,
                spent,
                None if spent is None or np.isnan(gpus) else spent * gpus / 3600,
                amount / whole.sum() if amount is not None and whole.sum() else None,
            )
        )
    signal = np.where(grid.samples_of_prompts > 0, grid.signal, np.nan)
    classes, seconds = prompt_classes(grid, least), _sums(grid, grid.cost * price[grid.step])
    return PromptCosts(grid, classes, times, gpus, tokens, seconds, signal, tuple(waste))


def step_times(snapshot: Snapshot, steps: np.ndarray) -> StepTimes:
    """Return the seconds of steps: as the trainer logs them, else between the samples of two steps."""
    for name in STEP_SECONDS:
        series = snapshot.scalars.series(name)
        found = np.array([series.at(step) for step in steps.tolist()], float)
        found[~(np.isfinite(found) & (found >= 0))] = np.nan
        if np.isfinite(found).any():
            return StepTimes(found, name)
    clock = next((name for name in CLOCKS if snapshot.has_number(name)), None)
    if clock is None:
        return StepTimes(np.full(len(steps), np.nan), "")
    ends = snapshot.steps.stat(clock, MAX)
    known = snapshot.steps.values
    seconds = np.full(len(steps), np.nan)
    after = np.diff(ends)
    after[~(after >= 0)] = np.nan  # a clock that goes back
    if not np.isfinite(after).any():
        return StepTimes(seconds, "")
    usual = float(np.nanmedian(after))
    long = after > LONG_STEP * usual
    after[long] = usual
    at = np.searchsorted(known, steps)
    inside = (at < len(known)) & (at > 0)
    inside[inside] = known[at[inside]] == steps[inside]
    seconds[inside] = after[at[inside] - 1]
    return StepTimes(seconds, clock, int(np.count_nonzero(long)))


def _gpus(snapshot: Snapshot) -> float:
    """Return the number of GPUs in ``run.json``; NaN if it has none."""
    for name in GPU_NAMES:
        value = snapshot.constants.logged.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e9:
            return float(value)
    return float("nan")


def _sums(grid: PromptGrid, values: np.ndarray) -> np.ndarray:
    """Return the sum of known values of each prompt, shape (P,); NaN if none is known."""
    known = np.isfinite(values)
    return np.where(grid.by_prompt(known) > 0, grid.by_prompt(np.where(known, values, 0.0)), np.nan)


def known_sum(values: np.ndarray) -> float | None:
    """Return the sum of the finite values; None without one."""
    known = np.isfinite(values)
    return float(values[known].sum()) if known.any() else None
