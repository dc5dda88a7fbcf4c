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


def samples_of_prompt(snapshot: Snapshot, row: int) -> SamplesOfPrompt:
    """Return all living samples with the same prompt as a row."""
    same = snapshot.alive & (snapshot.metadata("prompt_hash") == snapshot.metadata("prompt_hash")[row])
    rows = np.flatnonzero(same)
    step = snapshot.metadata("step")[rows]
    order = np.argsort(step, kind="stable")
    rows, step = rows[order], step[order]
    length = "response_tokens" if snapshot.has_number("response_tokens") else "response_chars"
    return SamplesOfPrompt(rows, step, _numbers(snapshot, "reward", rows), _numbers(snapshot, length, rows))


def unsolved_prompts(snapshot: Snapshot, least: int) -> list[UnsolvedPrompt]:
    """Return prompts seen at ``least`` or more steps whose reward never beat a target, worst first.

    If a reference is logged, the mean reward of every step is below the reference's mean over all steps. Else
    no later step exceeds the mean reward of the prompt's first step, and that was not the best possible: the
    pass threshold if it was given, else the run's highest reward.
    """
    rows = snapshot.alive_rows[np.isfinite(_numbers(snapshot, "reward", snapshot.alive_rows))]
    if not len(rows) or least < 1:
        return []
    step, prompt = snapshot.metadata("step")[rows], snapshot.metadata("prompt_hash")[rows]
    order = np.lexsort([step, prompt])
    rows, step, prompt = rows[order], step[order], prompt[order]
    new_prompt = np.r_[True, prompt[1:] != prompt[:-1]]
    cells = np.flatnonzero(new_prompt | np.r_[True, step[1:] != step[:-1]])  # one cell per prompt and step
    reward = _cell_means(_numbers(snapshot, "reward", rows), cells)
    ref_reward = _numbers(snapshot, "ref_reward", rows)
    has_reference = bool(np.isfinite(ref_reward).any())
    firsts = np.flatnonzero(new_prompt[cells])  # first cell of each prompt
    lengths = np.diff(np.r_[firsts, len(cells)])
    best, lasts = np.maximum.reduceat(reward, firsts), firsts + lengths - 1
    if has_reference:
        target = _cell_means(_cell_means(ref_reward, cells), firsts)
        unsolved = best < target
    else:
        target = reward[firsts]
        unsolved = (best <= target) & (target < _best_possible(snapshot, rows) - EQUAL_WITHIN)
    unsolved &= lengths >= max(least, 1 if has_reference else 2)
    ends = np.r_[cells, len(rows)][firsts + lengths]
    samples = ends - cells[firsts]
    prompts = [
        UnsolvedPrompt(
            int(rows[ends[number] - 1]), int(lengths[number]), int(samples[number]), *map(float, values)
        )
        for number, values in zip(
            np.flatnonzero(unsolved).tolist(),
            zip(target[unsolved], best[unsolved], reward[lasts][unsolved], strict=True),
            strict=True,
        )
    ]
    return sorted(prompts, key=lambda prompt: (prompt.best - prompt.target, -prompt.steps))


def _best_possible(snapshot: Snapshot, rows: np.ndarray) -> float:
    """Return the reward that no mean can exceed, or from which on a prompt counts as solved."""
    rewards = snapshot.number("reward")[rows]
    solved = snapshot.constants.by_name["pass_reward"]
    # If all rewards are equal, they do not show whether they are the best or the worst possible.
    if solved.origin == "usual" and np.ptp(rewards) > EQUAL_WITHIN:
        return float(rewards.max())
    return float(solved.value)


def _numbers(snapshot: Snapshot, name: str, rows: np.ndarray) -> np.ndarray:
    """Return a number column at rows; NaN if the run does not have it."""
    return snapshot.number(name)[rows] if name in snapshot.numbers else np.full(len(rows), np.nan)


def _cell_means(values: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Return the mean of finite values of each cell; NaN if there are none."""
    finite = np.isfinite(values)
    count = np.add.reduceat(finite.astype(float), cells)
    with np.errstate(invalid="ignore"):
        return np.add.reduceat(np.where(finite, values, 0.0), cells) / count
