"""Matches the prompts that two runs have in common, with each prompt's mean reward in both.

Chooses a run's best step on one half of the prompts, so that the other half can be compared without bias.

Of many steps, the one with the highest mean is in part the luckiest. On the prompts by which it was chosen it
would win against a run that is as good.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from xxhash import xxh3_64_intdigest

from rlpanel.board_url import BEST, FIRST, NEWEST, steps_at
from rlpanel.store.snapshot.snapshot import Snapshot

#: Fewest prompts of either half at the chosen step, if the run has steps with so many.
_MIN_PROMPTS = 2


def choosing_half(keys: np.ndarray) -> np.ndarray:
    """Return the mask of the samples whose prompts take part in the choice of the best step.

    It depends only on the prompts' keys, which are hashes of their texts, so a prompt is in the same half in
    all runs and sessions. If no prompt of the run is in this half, all take part.
    """
    half = (keys & np.uint64(1)).astype(bool)
    return half if half.any() else np.ones(len(keys), bool)


def best_step(steps: np.ndarray, keys: np.ndarray, reward: np.ndarray, half: np.ndarray) -> int:
    """Return the step with the highest mean reward over the prompts of the choosing half.

    Each prompt counts once. Of equal steps, the first one is chosen.

    Parameters
    ----------
    steps : ndarray of int, shape (N,)
        Step of each sample; N is at least 1.
    keys : ndarray of uint64, shape (N,)
        Key of each sample's prompt.
    reward : ndarray of float, shape (N,)
        Finite rewards.
    half : ndarray of bool, shape (N,)
        Result of `choosing_half`.
    """
    order = np.lexsort((keys, steps))
    steps, keys = steps[order], keys[order]
    starts = np.flatnonzero(np.append(True, (steps[1:] != steps[:-1]) | (keys[1:] != keys[:-1])))
    # From here on, one entry for each prompt at each step.
    mean = np.add.reduceat(reward[order], starts) / np.diff(np.append(starts, len(steps)))
    chose = half[order][starts]
    values, index = np.unique(steps[starts], return_inverse=True)
    choosing, held_out = np.bincount(index, chose), np.bincount(index, ~chose)
    enough = (choosing >= _MIN_PROMPTS) & (held_out >= _MIN_PROMPTS)
    allowed = enough if enough.any() else choosing > 0
    total = np.bincount(index, np.where(chose, mean, 0.0))
    means = np.divide(total, choosing, out=np.full(len(values), -np.inf), where=allowed)
    return int(values[np.argmax(means)])


_NO_PROMPT = np.uint64(xxh3_64_intdigest(b""))
#: Markers that chat templates and tokenizers put around a prompt.
_ROLE = re.compile(r"<\|(?:im_start|start_header_id)\|>\s*(?:system|user|assistant|tool)\b")
_MARK = re.compile(r"<\|[^<>|]{1,40}\|>|</?s>|\[/?INST\]|<(?:bos|eos|pad|start_of_turn|end_of_turn)>")

#: Function from prompt hashes, as logged, to the keys by which prompts are matched.
Keys = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class RunSide:
    """The prompts of one run, sorted by key.

    Attributes
    ----------
    keys : ndarray of uint64, shape (K,)
    reward : ndarray of float, shape (K,)
        Mean reward of the prompt's samples.
    samples : ndarray of int, shape (K,)
        Number of the prompt's samples.
    step : ndarray of int, shape (K,)
        Step of the sample at ``row``, which is that of all of them unless several steps were chosen.
    row : ndarray of int, shape (K,)
        Sample whose reward is nearest to the mean; the earliest one among equals.
    row_reward : ndarray of float, shape (K,)
        Reward of this sample.
    chose : ndarray of bool, shape (K,)
        True if the run's best step was chosen by this prompt, among others.
    """

    keys: np.ndarray
    reward: np.ndarray
    samples: np.ndarray
    step: np.ndarray
    row: np.ndarray
    row_reward: np.ndarray
    chose: np.ndarray

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, positions: np.ndarray) -> RunSide:
        """Return the prompts at the given positions."""
        return RunSide(*(getattr(self, name)[positions] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class PromptPairs:
    """Prompts that both runs have; position i is the same prompt on both sides.

    Attributes
    ----------
    here, there : RunSide
        The first and the second run.
    only_here, only_there : int
        Number of prompts that only one run has.
    chose_here, chose_there : int
        Number of prompts at the run's best step by which it was chosen; 0 for another choice of samples.
    """

    here: RunSide
    there: RunSide
    only_here: int
    only_there: int
    chose_here: int = 0
    chose_there: int = 0

    def __len__(self) -> int:
        return len(self.here)

    @property
    def difference(self) -> np.ndarray:
        """Mean reward of the first run minus that of the second, shape (P,)."""
        return self.here.reward - self.there.reward

    @property
    def held_out(self) -> np.ndarray:
        """Mask of the prompts by which no step was chosen, shape (P,); only these are compared fairly."""
        return ~(self.here.chose | self.there.chose)


def exact_keys(hashes: np.ndarray) -> np.ndarray:
    """Return the hashes themselves, so that only prompts with identical text match."""
    return hashes


def candidate_rows(snapshot: Snapshot, at: str, reward: np.ndarray) -> np.ndarray:
    """Return the samples among which those that represent a run are chosen (see `NEWEST`).

    They have a prompt and a finite reward. The best step is chosen among the samples of all steps.
    """
    rows = snapshot.alive_rows
    if at not in (NEWEST, FIRST, BEST):
        first, last = steps_at(at)
        steps = snapshot.metadata("step")[rows]
        rows = rows[(steps >= first) & (steps <= last)]
    has_prompt = snapshot.prompts(rows) != _NO_PROMPT
    return rows[has_prompt & np.isfinite(reward[rows])]


def run_side(snapshot: Snapshot, at: str, reward: np.ndarray, keys: Keys = exact_keys) -> RunSide:
    """Return the prompts of a run.

    Parameters
    ----------
    snapshot : Snapshot
    at : str
        `NEWEST`, `FIRST`, `BEST`, a step's number or two of them, ``10..20``.
    reward : ndarray of float, shape (rows,)
        The number by which runs are compared (see `rlpanel.store.snapshot.alignment`).
    keys : callable, optional
        Keys by which prompts are matched; by default their text as logged.
    """
    samples = _candidates(snapshot, at, reward, keys)
    if at == BEST and len(samples.row):
        best = best_step(samples.step, samples.key, samples.reward, samples.chose)
        samples = samples.take(samples.step == best)
    samples = samples.take(np.lexsort((samples.row, samples.step, samples.key)))
    if at not in (NEWEST, FIRST) or not len(samples.row):
        return _by_prompt(samples)
    # Keep each prompt's samples at its last or first step.
    key, step = samples.key, samples.step
    edges = key[1:] != key[:-1]
    number = np.cumsum(np.append(0, edges))
    chosen = step[np.append(edges, True) if at == NEWEST else np.append(True, edges)]
    return _by_prompt(samples.take(step == chosen[number]))


class _Samples(NamedTuple):
    """Samples of a run; ``chose`` marks those by which its best step was chosen."""

    row: np.ndarray
    key: np.ndarray
    step: np.ndarray
    reward: np.ndarray
    chose: np.ndarray

    def take(self, chosen: np.ndarray) -> _Samples:
        return _Samples(*(column[chosen] for column in self))


def _candidates(snapshot: Snapshot, at: str, reward: np.ndarray, keys: Keys) -> _Samples:
    rows = candidate_rows(snapshot, at, reward)
    key = keys(snapshot.prompts(rows))
    chose = choosing_half(key) if at == BEST else np.zeros(len(rows), bool)
    return _Samples(rows, key, snapshot.metadata("step")[rows], reward[rows], chose)


def _by_prompt(samples: _Samples) -> RunSide:
    """Return one entry per prompt of samples that are sorted by prompt."""
    row, key, step, reward, chose = samples
    starts = np.flatnonzero(np.append(True, key[1:] != key[:-1])) if len(key) else np.empty(0, int)
    count = np.diff(np.append(starts, len(key)))
    mean = np.add.reduceat(reward, starts) / count if len(starts) else reward
    distance = np.abs(reward - np.repeat(mean, count))
    order = np.lexsort((np.arange(len(row)), distance, np.repeat(np.arange(len(starts)), count)))
    nearest = order[starts]
    return RunSide(key[starts], mean, count, step[nearest], row[nearest], reward[nearest], chose[starts])


def pair_prompts(here: RunSide, there: RunSide) -> PromptPairs:
    """Match the prompts of two runs by their keys."""
    _, mine, theirs = np.intersect1d(here.keys, there.keys, assume_unique=True, return_indices=True)
    alone = len(here) - len(mine), len(there) - len(theirs)
    chose = int(here.chose.sum()), int(there.chose.sum())
    return PromptPairs(here.take(mine), there.take(theirs), *alone, *chose)


def without_template(prompt: str) -> str:
    """Return a prompt without chat template markers and special tokens, with whitespace collapsed."""
    return " ".join(_MARK.sub(" ", _ROLE.sub(" ", prompt)).split())


def text_keys(texts: dict[int, str]) -> Keys:
    """Map hashes of prompts to keys of `without_template` prompts; unread prompts keep their hash.

    Parameters
    ----------
    texts : dict of int to str
        Texts of prompts by their hash.
    """
    read = np.array(sorted(texts), np.uint64)
    keys = np.array(
        [xxh3_64_intdigest(without_template(texts[int(value)]).encode()) for value in read.tolist()],
        np.uint64,
    )

    def to_keys(hashes: np.ndarray) -> np.ndarray:
        if not len(read):
            return hashes
        position = np.searchsorted(read, hashes).clip(max=len(read) - 1)
        return np.where(read[position] == hashes, keys[position], hashes)

    return to_keys
