"""Prompts through training: one prompt's samples by step, and the prompts that never get better."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlpanel.store.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class SamplesOfPrompt:
    """One prompt's samples, in the order of steps.

    Attributes
    ----------
    rows, step, reward, length : ndarray, shape (N,)
        ``length`` counts tokens, or characters where no tokens are logged; NaN where neither is.
    """

    rows: np.ndarray
    step: np.ndarray
    reward: np.ndarray
    length: np.ndarray

    def means(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Steps, and the mean of finite values at each, shape (S,)."""
        finite = np.isfinite(values)
        steps, places = np.unique(self.step[finite], return_inverse=True)
        return steps, np.bincount(places, values[finite]) / np.bincount(places) if len(steps) else values[:0]


@dataclass(frozen=True)
class UnsolvedPrompt:
    """A prompt that never gets better.

    Attributes
    ----------
    row : int
        Its newest sample.
    steps, samples : int
        At how many steps it was seen, and how often.
    bar : float
        What it never reached: the reference's mean reward, or its own at its first step.
    best, last : float
        Highest mean reward of a step, and that of its last one.
    """

    row: int
    steps: int
    samples: int
    bar: float
    best: float
    last: float


def samples_of_prompt(snapshot: Snapshot, row: int) -> SamplesOfPrompt:
    """All living samples with the prompt of a row."""
    same = snapshot.alive & (snapshot.place("prompt_hash") == snapshot.place("prompt_hash")[row])
    rows = np.flatnonzero(same)
    step = snapshot.place("step")[rows]
    order = np.argsort(step, kind="stable")
    rows, step = rows[order], step[order]
    length = "response_tokens" if snapshot.has_number("response_tokens") else "response_chars"
    return SamplesOfPrompt(rows, step, _numbers(snapshot, "reward", rows), _numbers(snapshot, length, rows))


def unsolved_prompts(snapshot: Snapshot, least: int) -> list[UnsolvedPrompt]:
    """Prompts seen at ``least`` steps or more whose mean reward never reached what it is measured by.

    That is the mean reward of the reference at the same step; where no reference is logged, the prompt's
    own mean reward at its first step, which no later one exceeds. The worst come first.
    """
    rows = snapshot.living[np.isfinite(_numbers(snapshot, "reward", snapshot.living))]
    if not len(rows) or least < 1:
        return []
    step, prompt = snapshot.place("step")[rows], snapshot.place("prompt_hash")[rows]
    order = np.lexsort([step, prompt])
    rows, step, prompt = rows[order], step[order], prompt[order]
    new_prompt = np.r_[True, prompt[1:] != prompt[:-1]]
    cells = np.flatnonzero(new_prompt | np.r_[True, step[1:] != step[:-1]])  # a prompt at a step each
    reward = _cell_means(_numbers(snapshot, "reward", rows), cells)
    ref_reward = _numbers(snapshot, "ref_reward", rows)
    referenced = bool(np.isfinite(ref_reward).any())
    firsts = np.flatnonzero(new_prompt[cells])  # each prompt's first cell
    lengths = np.diff(np.r_[firsts, len(cells)])
    if referenced:
        bar = _cell_means(ref_reward, cells)
        bar_of = np.add.reduceat(bar, firsts) / lengths
        below = reward < bar
    else:
        bar_of = reward[firsts]
        below = reward <= np.repeat(bar_of, lengths)
    stuck = np.logical_and.reduceat(below, firsts) & (lengths >= max(least, 1 if referenced else 2))
    best, lasts = np.maximum.reduceat(reward, firsts), firsts + lengths - 1
    ends = np.r_[cells, len(rows)][firsts + lengths]
    samples = ends - cells[firsts]
    found = [
        UnsolvedPrompt(int(rows[ends[at] - 1]), int(lengths[at]), int(samples[at]), *map(float, values))
        for at, values in zip(
            np.flatnonzero(stuck).tolist(),
            zip(bar_of[stuck], best[stuck], reward[lasts][stuck], strict=True),
            strict=True,
        )
    ]
    return sorted(found, key=lambda prompt: (prompt.best - prompt.bar, -prompt.steps))


def _numbers(snapshot: Snapshot, name: str, rows: np.ndarray) -> np.ndarray:
    """A number column at rows; NaN where the run has none."""
    return snapshot.number(name)[rows] if name in snapshot.numbers else np.full(len(rows), np.nan)


def _cell_means(values: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Mean of the finite values of each cell; NaN where there are none."""
    finite = np.isfinite(values)
    count = np.add.reduceat(finite.astype(float), cells)
    with np.errstate(invalid="ignore"):
        return np.add.reduceat(np.where(finite, values, 0.0), cells) / count
