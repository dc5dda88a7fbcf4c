"""Cost of each prompt against the signal that it bought: tokens, seconds, GPU-hours, and waste."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rlpanel.store.columns.step_stats import MAX
from rlpanel.store.snapshot.alignment import CLOCKS
from rlpanel.store.snapshot.prompt_classes import CLASSES, prompt_classes
from rlpanel.store.snapshot.prompt_grid import WASTE, PromptGrid, sums_at
from rlpanel.store.snapshot.snapshot import Snapshot

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
