"""Matches the prompts that two runs have in common, with each prompt's mean reward in both."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from xxhash import xxh3_64_intdigest

from rlpanel.store.snapshot.snapshot import Snapshot

#: Choice of the samples that represent a run: each prompt's samples at its newest step, or the samples of the
#: step with the highest mean reward. A number selects the samples of that step.
NEWEST, BEST = "newest", "best"

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
        Step of these samples.
    row : ndarray of int, shape (K,)
        Sample whose reward is nearest to the mean; the earliest one among equals.
    """

    keys: np.ndarray
    reward: np.ndarray
    samples: np.ndarray
    step: np.ndarray
    row: np.ndarray

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
    """

    here: RunSide
    there: RunSide
    only_here: int
    only_there: int

    def __len__(self) -> int:
        return len(self.here)

    @property
    def difference(self) -> np.ndarray:
        """Mean reward of the first run minus that of the second, shape (P,)."""
        return self.here.reward - self.there.reward


def exact_keys(hashes: np.ndarray) -> np.ndarray:
    """Return the hashes themselves, so that only prompts with identical text match."""
    return hashes


def rows_at(snapshot: Snapshot, at: str) -> np.ndarray:
    """Return the samples that represent a run (see `NEWEST`), if they have a prompt and a reward."""
    if not snapshot.has_number("reward"):
        return np.empty(0, int)
    step = None if at == NEWEST else best_step(snapshot) if at == BEST else int(at)
    rows = snapshot.alive_rows if step is None else snapshot.rows_of(step)
    has_prompt = snapshot.metadata("prompt_hash")[rows] != _NO_PROMPT
    return rows[has_prompt & np.isfinite(snapshot.number("reward")[rows])]


def best_step(snapshot: Snapshot) -> int | None:
    """Return the first step with the highest mean reward; None if no reward is logged."""
    means = snapshot.steps.mean("reward") if snapshot.has_number("reward") else np.empty(0)
    return int(snapshot.steps.values[np.nanargmax(means)]) if np.isfinite(means).any() else None


def run_side(snapshot: Snapshot, at: str, keys: Keys = exact_keys) -> RunSide:
    """Return the prompts of a run.

    Parameters
    ----------
    snapshot : Snapshot
    at : str
        `NEWEST`, `BEST` or a step's number.
    keys : callable, optional
        Keys by which prompts are matched; by default their text as logged.
    """
    rows = rows_at(snapshot, at)
    key, step = keys(snapshot.metadata("prompt_hash")[rows]), snapshot.metadata("step")[rows]
    order = np.lexsort((rows, step, key))
    rows, key, step = rows[order], key[order], step[order]
    # Keep each prompt's samples at its last step. If one step was chosen, these are all its samples.
    ends = np.append(key[1:] != key[:-1], True) if len(key) else np.empty(0, bool)
    last = step[ends][np.cumsum(np.append(0, ends[:-1]))] if len(key) else step
    is_last = step == last
    rows, key, step = rows[is_last], key[is_last], step[is_last]
    starts = np.flatnonzero(np.append(True, key[1:] != key[:-1])) if len(key) else np.empty(0, int)
    samples = np.diff(np.append(starts, len(key)))
    reward = snapshot.number("reward")[rows] if len(rows) else np.empty(0)
    mean = np.add.reduceat(reward, starts) / samples if len(starts) else reward
    distance = np.abs(reward - np.repeat(mean, samples))
    nearest = np.lexsort((np.arange(len(rows)), distance, np.repeat(np.arange(len(starts)), samples)))
    return RunSide(key[starts], mean, samples, step[starts], rows[nearest[starts]])


def pair_prompts(here: RunSide, there: RunSide) -> PromptPairs:
    """Match the prompts of two runs by their keys."""
    _, mine, theirs = np.intersect1d(here.keys, there.keys, assume_unique=True, return_indices=True)
    return PromptPairs(here.take(mine), there.take(theirs), len(here) - len(mine), len(there) - len(theirs))


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
