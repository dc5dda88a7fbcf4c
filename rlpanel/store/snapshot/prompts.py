"""Prompts over training: the samples of one prompt by step, and the prompts that never improve."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlpanel.metrics.reward import EQUAL_WITHIN
from rlpanel.store.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class SamplesOfPrompt:
    """The samples of one prompt, sorted by step.

    Attributes
    ----------
    rows, step, reward, length : ndarray, shape (N,)
        ``length`` is in tokens, or in characters if no tokens are logged; NaN if neither is.
    """

    rows: np.ndarray
    step: np.ndarray
    reward: np.ndarray
    length: np.ndarray

    def means(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the steps, and the mean of finite values at each step, shape (S,) each."""
        finite = np.isfinite(values)
        steps, index = np.unique(self.step[finite], return_inverse=True)
        return steps, np.bincount(index, values[finite]) / np.bincount(index) if len(steps) else values[:0]


@dataclass(frozen=True)
class UnsolvedPrompt:
    """A prompt whose mean reward at a step never exceeded a target.

    Attributes
    ----------
    row : int
        Row of its newest sample.
    steps, samples : int
        Number of steps that contain it, and number of its samples.
    target : float
        The reference's mean reward over these steps or, without a reference, its own at its first step.
    best, last : float
        Highest mean reward at a step, and mean reward at its last step.
    """

    row: int
    steps: int
    samples: int
    target: float
    best: float
    last: float


@dataclass(frozen=True)
class VariablePrompt:
    """A prompt whose samples within a step have different rewards.

    Attributes
    ----------
    row : int
        Row of its newest sample.
    steps, samples : int
        Number of steps that contain it, and number of its samples.
    spread : float
        Standard deviation of the reward within a step, pooled over its steps: the root of the sum of squared
        differences from each step's mean, divided by the number of samples minus the number of steps.
    best, last : float
        Highest mean reward at a step, and mean reward at its last step.
    """

    row: int
    steps: int
    samples: int
    spread: float
    best: float
    last: float


@dataclass(frozen=True)
class PromptCells:
    """The rows with a reward, sorted by prompt and step; a cell is one prompt at one step.

    Attributes
    ----------
    rows : ndarray of int, shape (N,)
    starts : ndarray of int, shape (C,)
        First row of each cell.
    reward : ndarray of float, shape (C,)
        Mean reward of each cell.
    firsts : ndarray of int, shape (P,)
        First cell of each prompt.
    """

    rows: np.ndarray
    starts: np.ndarray
    reward: np.ndarray
    firsts: np.ndarray

    @property
    def steps(self) -> np.ndarray:
        """Number of steps of each prompt, shape (P,)."""
        return np.diff(np.r_[self.firsts, len(self.starts)])

    @property
    def ends(self) -> np.ndarray:
        """Row after the last one of each prompt, shape (P,)."""
        return np.r_[self.starts, len(self.rows)][self.firsts + self.steps]

    @property
    def samples(self) -> np.ndarray:
        """Number of samples of each prompt, shape (P,)."""
        return self.ends - self.starts[self.firsts]

    @property
    def best(self) -> np.ndarray:
        """Highest mean reward at a step of each prompt, shape (P,)."""
        return np.maximum.reduceat(self.reward, self.firsts)

    @property
    def last(self) -> np.ndarray:
        """Mean reward at the last step of each prompt, shape (P,)."""
        return self.reward[self.firsts + self.steps - 1]


def samples_of_prompt(snapshot: Snapshot, row: int) -> SamplesOfPrompt:
    """Return all living samples with the same prompt as a row."""
    same = snapshot.alive & (snapshot.prompts() == snapshot.prompts()[row])
    rows = np.flatnonzero(same)
    step = snapshot.metadata("step")[rows]
    order = np.argsort(step, kind="stable")
    rows, step = rows[order], step[order]
    length = "response_tokens" if snapshot.has_number("response_tokens") else "response_chars"
    return SamplesOfPrompt(
        rows, step, numbers_at(snapshot, "reward", rows), numbers_at(snapshot, length, rows)
    )


def unsolved_prompts(snapshot: Snapshot, least: int) -> list[UnsolvedPrompt]:
    """Return prompts seen at ``least`` or more steps whose reward never beat a target, worst first.

    If a reference is logged, the mean reward of every step is below the reference's mean over all steps. Else
    no later step exceeds the mean reward of the prompt's first step, and that was not the best possible: the
    pass threshold if it was given, else the run's highest reward.
    """
    cells = prompt_cells(snapshot)
    if cells is None or least < 1:
        return []
    ref_reward = numbers_at(snapshot, "ref_reward", cells.rows)
    has_reference = bool(np.isfinite(ref_reward).any())
    steps, best, samples = cells.steps, cells.best, cells.samples
    if has_reference:
        target = cell_means(cell_means(ref_reward, cells.starts), cells.firsts)
        unsolved = best < target
    else:
        target = cells.reward[cells.firsts]
        unsolved = (best <= target) & (target < best_possible(snapshot, cells.rows) - EQUAL_WITHIN)
    unsolved &= steps >= max(least, 1 if has_reference else 2)
    newest, last = cells.rows[cells.ends - 1], cells.last
    chosen = np.flatnonzero(unsolved)
    columns = (array[chosen].tolist() for array in (newest, steps, samples, target, best, last))
    prompts = [UnsolvedPrompt(*values) for values in zip(*columns, strict=True)]
    return sorted(prompts, key=lambda prompt: (prompt.best - prompt.target, -prompt.steps))


def variable_prompts(snapshot: Snapshot, least: int = 1) -> list[VariablePrompt]:
    """Return prompts seen at ``least`` or more steps whose rewards differ within a step, most variable first.

    Prompts with the same spread are sorted by their newest sample, the newest first.
    """
    cells = prompt_cells(snapshot)
    if cells is None:
        return []
    reward = snapshot.counted("reward", cells.rows)
    sizes = np.diff(np.r_[cells.starts, len(cells.rows)])
    squares = np.add.reduceat((reward - np.repeat(cells.reward, sizes)) ** 2, cells.starts)
    steps, samples = cells.steps, cells.samples
    freedom = samples - steps
    with np.errstate(all="ignore"):
        spread = np.sqrt(np.add.reduceat(squares, cells.firsts) / freedom)
    newest = cells.rows[cells.ends - 1]
    chosen = np.flatnonzero((steps >= least) & (freedom > 0) & (spread > EQUAL_WITHIN))
    chosen = chosen[np.lexsort((-newest[chosen], -spread[chosen]))]
    arrays = (newest, steps, samples, spread, cells.best, cells.last)
    columns = (array[chosen].tolist() for array in arrays)
    return [VariablePrompt(*values) for values in zip(*columns, strict=True)]


def prompt_cells(snapshot: Snapshot) -> PromptCells | None:
    """Return the samples with a reward by prompt and step; None if there are none."""
    rows = snapshot.alive_rows[np.isfinite(numbers_at(snapshot, "reward", snapshot.alive_rows))]
    if not len(rows):
        return None
    step, prompt = snapshot.metadata("step")[rows], snapshot.prompts(rows)
    order = np.lexsort([step, prompt])
    rows, step, prompt = rows[order], step[order], prompt[order]
    new_prompt = np.r_[True, prompt[1:] != prompt[:-1]]
    starts = np.flatnonzero(new_prompt | np.r_[True, step[1:] != step[:-1]])
    reward = cell_means(snapshot.counted("reward", rows), starts)
    return PromptCells(rows, starts, reward, np.flatnonzero(new_prompt[starts]))


def best_possible(snapshot: Snapshot, rows: np.ndarray) -> float:
    """Return the reward that no mean can exceed, or from which on a prompt counts as solved."""
    rewards = snapshot.counted("reward", rows)
    solved = snapshot.constants.by_name["pass_reward"]
    # If all rewards are equal, they do not show whether they are the best or the worst possible.
    if solved.origin == "usual" and np.ptp(rewards) > EQUAL_WITHIN:
        return float(rewards.max())
    return float(solved.value)


def numbers_at(snapshot: Snapshot, name: str, rows: np.ndarray) -> np.ndarray:
    """Return a number column at rows; NaN if the run does not have it."""
    return snapshot.counted(name, rows) if name in snapshot.numbers else np.full(len(rows), np.nan)


def cell_means(values: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Return the mean of finite values of each cell; NaN if there are none."""
    finite = np.isfinite(values)
    count = np.add.reduceat(finite.astype(float), cells)
    with np.errstate(invalid="ignore"):
        return np.add.reduceat(np.where(finite, values, 0.0), cells) / count
