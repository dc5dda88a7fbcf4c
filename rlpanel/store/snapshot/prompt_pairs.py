"""The prompts that two runs have in common, each with its mean reward in both."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from xxhash import xxh3_64_intdigest

from rlpanel.store.snapshot.snapshot import Snapshot

#: Which samples stand for a run: each prompt's at the newest step that asked it, or those of the step with
#: the highest mean reward. A number stands for the samples of that step.
NEWEST, BEST = "newest", "best"

_NO_PROMPT = np.uint64(xxh3_64_intdigest(b""))
#: What chat templates and tokenizers put around a prompt.
_ROLE = re.compile(r"<\|(?:im_start|start_header_id)\|>\s*(?:system|user|assistant|tool)\b")
_MARK = re.compile(r"<\|[^<>|]{1,40}\|>|</?s>|\[/?INST\]|<(?:bos|eos|pad|start_of_turn|end_of_turn)>")

#: From the hashes of prompts as they were logged to the keys by which prompts are matched.
Keys = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class RunSide:
    """One run's prompts, in the order of their keys.

    Attributes
    ----------
    keys : ndarray of uint64, shape (K,)
    reward : ndarray of float, shape (K,)
        Mean over the prompt's samples.
    samples : ndarray of int, shape (K,)
    step : ndarray of int, shape (K,)
        That the samples are of.
    row : ndarray of int, shape (K,)
        The sample whose reward is nearest to the mean, of several the first that came.
    """

    keys: np.ndarray
    reward: np.ndarray
    samples: np.ndarray
    step: np.ndarray
    row: np.ndarray

    def __len__(self) -> int:
        return len(self.keys)

    def at(self, places: np.ndarray) -> RunSide:
        """Some of the prompts."""
        return RunSide(*(getattr(self, name)[places] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class PromptPairs:
    """Prompts that both runs have; row i of both sides is one prompt.

    Attributes
    ----------
    here, there : RunSide
    alone_here, alone_there : int
        Prompts without a partner.
    """

    here: RunSide
    there: RunSide
    alone_here: int
    alone_there: int

    def __len__(self) -> int:
        return len(self.here)

    @property
    def difference(self) -> np.ndarray:
        """Mean reward here less that there, shape (P,)."""
        return self.here.reward - self.there.reward


def as_logged(hashes: np.ndarray) -> np.ndarray:
    """Keys that match prompts of equal text alone."""
    return hashes


def rows_at(snapshot: Snapshot, at: str) -> np.ndarray:
    """The samples with a prompt and a reward that may stand for a run (see `NEWEST`), in order of arrival."""
    if not snapshot.has_number("reward"):
        return np.empty(0, int)
    step = None if at == NEWEST else best_step(snapshot) if at == BEST else int(at)
    rows = snapshot.living if step is None else snapshot.rows_of(step)
    asked = snapshot.place("prompt_hash")[rows] != _NO_PROMPT
    return rows[asked & np.isfinite(snapshot.number("reward")[rows])]


def best_step(snapshot: Snapshot) -> int | None:
    """The step with the highest mean reward, of several the first; None where there is none."""
    means = snapshot.steps.mean("reward") if snapshot.has_number("reward") else np.empty(0)
    return int(snapshot.steps.values[np.nanargmax(means)]) if np.isfinite(means).any() else None


def side(snapshot: Snapshot, at: str, keys: Keys = as_logged) -> RunSide:
    """A run's prompts.

    Parameters
    ----------
    snapshot : Snapshot
    at : str
        `NEWEST`, `BEST` or a step's number.
    keys : callable, optional
        What prompts are matched by; their text as it was logged by default.
    """
    rows = rows_at(snapshot, at)
    key, step = keys(snapshot.place("prompt_hash")[rows]), snapshot.place("step")[rows]
    order = np.lexsort((rows, step, key))
    rows, key, step = rows[order], key[order], step[order]
    # Of each prompt the last step that asked it; where one step was chosen, that is all of it.
    ends = np.append(key[1:] != key[:-1], True) if len(key) else np.empty(0, bool)
    last = step[ends][np.cumsum(np.append(0, ends[:-1]))] if len(key) else step
    kept = step == last
    rows, key, step = rows[kept], key[kept], step[kept]
    starts = np.flatnonzero(np.append(True, key[1:] != key[:-1])) if len(key) else np.empty(0, int)
    samples = np.diff(np.append(starts, len(key)))
    reward = snapshot.number("reward")[rows] if len(rows) else np.empty(0)
    mean = np.add.reduceat(reward, starts) / samples if len(starts) else reward
    off = np.abs(reward - np.repeat(mean, samples))
    nearest = np.lexsort((np.arange(len(rows)), off, np.repeat(np.arange(len(starts)), samples)))
    return RunSide(key[starts], mean, samples, step[starts], rows[nearest[starts]])


def pair(here: RunSide, there: RunSide) -> PromptPairs:
    """Match two runs' prompts by their keys."""
    _, mine, theirs = np.intersect1d(here.keys, there.keys, assume_unique=True, return_indices=True)
    return PromptPairs(here.at(mine), there.at(theirs), len(here) - len(mine), len(there) - len(theirs))


def bare(prompt: str) -> str:
    """A prompt without what a chat template, a tokenizer or a line's end put around its words."""
    return " ".join(_MARK.sub(" ", _ROLE.sub(" ", prompt)).split())


def keys_of(texts: dict[int, str]) -> Keys:
    """Keys that match prompts by `bare`; a prompt that was not read keeps the key of its text as logged.

    Parameters
    ----------
    texts : dict of int to str
        Prompts by their hash.
    """
    known = np.array(sorted(texts), np.uint64)
    keys = np.array([xxh3_64_intdigest(bare(texts[int(one)]).encode()) for one in known.tolist()], np.uint64)

    def given(hashes: np.ndarray) -> np.ndarray:
        if not len(known):
            return hashes
        at = np.searchsorted(known, hashes).clip(max=len(known) - 1)
        return np.where(known[at] == hashes, keys[at], hashes)

    return given
