"""Phrases that came or went: the share of the read samples that has the clearest one of each kind."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.analysis.step_texts import RunTexts, StepTexts
from rlpanel.findings.engine.streams import MIN_ANGLE, Stream

#: Newest steps whose phrases are compared with those of the first half of the steps.
_NEWEST = 8
#: Share of the samples that has a frequent phrase, and of those that may have had it before.
_OFTEN, _SELDOM = 0.1, 0.01
#: Kinds of phrases: words before one, and the tab of a sample that shows it.
_KINDS = {
    "response": ("responses with", ""),
    "result": ("tool results with", "conversation"),
    "prompt begin": ("prompts that begin with", "reference"),
    "prompt end": ("prompts that end with", "reference"),
}
_PREFIX = "phrase"


def phrase_streams(texts: RunTexts, steps: np.ndarray, first: int, stop: int) -> Iterator[Stream]:
    """Yield the share of samples with the phrase that came, and with the one that went, of each kind.

    Parameters
    ----------
    texts : RunTexts
    steps : ndarray of int, shape (S,)
        All complete steps.
    first, stop : int
        Positions of the steps that are looked at.
    """
    read = [texts.steps.get(step) for step in steps[first:stop].tolist()]
    old = [each for each in read[: max(len(read) // 2, 1)] if each is not None]
    new = [each for each in read[-_NEWEST:] if each is not None]
    for kind, (words, tab) in _KINDS.items():
        for here, there in ((new, old), (old, new)):
            key = _clearest(kind, here, there)
            if key is None:
                continue
            values = np.full(len(steps), np.nan)
            values[first:stop] = [
                np.nan if each is None else holders(each, kind, key).mean() for each in read
            ]
            size = np.zeros(len(steps))
            size[first:stop] = [0 if each is None else len(each.rows) for each in read]
            text = next(
                (each.words[kind][key] for each in [*new, *old] if key in each.words.get(kind, {})), ""
            )
            name = f"{words} “{' '.join(text.split())[:60]}”" if text else f"{words} a new phrase"
            floor = 0.25 / np.maximum(size, 1)
            yield Stream(
                name,
                values,
                "share",
                MIN_ANGLE,
                floor,
                tab=tab,
                is_percent=True,
                text=f"{_PREFIX}:{kind}:{key}",
            )


def phrase_of(text: str) -> tuple[str, int] | None:
    """Return kind and hash of the phrase that a stream's key names; None if it names none."""
    prefix, _, rest = text.partition(":")
    kind, _, key = rest.partition(":")
    return (kind, int(key)) if prefix == _PREFIX and key else None


def holders(read: StepTexts, kind: str, key: int) -> np.ndarray:
    """Return 1 for each read sample of a step that has a phrase, else 0, shape (N,)."""
    phrases = read.phrases[kind]
    bits = phrases.holders[phrases.keys == key]
    mask = int(bits[0]) if len(bits) else 0
    return np.array([mask >> at & 1 for at in range(len(read.rows))], float)


def _clearest(kind: str, here: list[StepTexts], there: list[StepTexts]) -> int | None:
    """Return the phrase that most samples of some steps have, and hardly any of others; None without one."""
    samples, others = (sum(len(each.rows) for each in part) for part in (here, there))
    if not samples or not others:
        return None
    every, counts = _counts(kind, here)
    known, known_counts = _counts(kind, there)
    at = np.searchsorted(known, every).clip(max=max(len(known) - 1, 0))
    before = np.where(known[at] == every, known_counts[at], 0) if len(known) else np.zeros(len(every))
    usable = (counts >= max(_OFTEN * samples, 4)) & (before <= _SELDOM * others)
    return int(every[np.argmax(np.where(usable, counts, -1))]) if usable.any() else None


def _counts(kind: str, read: list[StepTexts]) -> tuple[np.ndarray, np.ndarray]:
    keys = np.concatenate([each.phrases[kind].keys for each in read])
    counts = np.concatenate([each.phrases[kind].counts for each in read])
    every, code = np.unique(keys, return_inverse=True)
    return every, np.bincount(code, counts, minlength=len(every))
