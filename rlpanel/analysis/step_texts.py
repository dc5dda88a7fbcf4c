"""Texts of a few samples of each step, read from the logs, as numbers and phrases for rules on texts.

The store holds no texts. Of each complete step, `PER_STEP` samples of different groups are read once; of a
long run the newest steps and others in even distances, `MAX_STEPS` in all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rlpanel.analysis.text_measures import (
    KINDS,
    Phrases,
    SamplePhrases,
    Texts,
    numbers_of,
    phrases_of,
    repeated_results,
    response_words,
)
from rlpanel.errors import RLPanelError
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_all_texts, fetch_record
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.texts.final_answers import AnswerRule, choose_rule

#: Samples read of a step (as many as `Phrases` has bits), and steps read of a run.
PER_STEP, MAX_STEPS = 16, 160
#: Newest steps that are all read, and those whose phrases can be quoted.
_NEWEST, _QUOTABLE = 48, 8
#: Samples of a step that share a phrase whose text is kept, and most such phrases of a step.
_SEVERAL, _MAX_WORDS = 3, 4000
#: Samples of a step that share a phrase which counts as new or known, and steps until a phrase is known.
_SHARED, _KNOWN_AFTER = 2, 8
#: Fewest ground truths from which the rule that reads answers is chosen, and most that are tried.
_MIN_TRUTHS, _TRIED = 24, 64


@dataclass(frozen=True)
class StepTexts:
    """Numbers and phrases of the texts of some samples of one step.

    Attributes
    ----------
    rows : ndarray of int, shape (N,)
    groups : ndarray of int, shape (N,)
        Index of each sample's prompt, from 0.
    samples : int
        Samples of the step when it was read; with more it is read again.
    numbers : dict of str to ndarray of float, shape (N,)
        NaN where a number is not defined, see `numbers_of`.
    phrases : dict of str to Phrases
        By kind: response, result, prompt begin, prompt end.
    words : dict of str to dict of int to str
        By kind: texts of phrases that several samples have, or of all ends of prompts, by their hash.
    moments : ndarray of float, shape (M, 2)
        Mean of each number, and the variance of that mean; computed once, since each check needs them.
    """

    rows: np.ndarray
    groups: np.ndarray
    samples: int
    numbers: dict[str, np.ndarray]
    phrases: dict[str, Phrases]
    words: dict[str, dict[int, str]]
    moments: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        count, moments = len(self.numbers), np.empty((0, 2))
        if count:  # all numbers in one call, each in the place of a step
            values = np.concatenate(list(self.numbers.values()))
            place = np.repeat(np.arange(count), len(self.rows))
            moments = moments_of(values, np.tile(self.groups, count), place, count)
        object.__setattr__(self, "moments", moments)


def moments_of(values: np.ndarray, groups: np.ndarray, steps: np.ndarray, count: int) -> np.ndarray:
    """Return for each step the mean of the finite values and its variance, clustered by group, shape (S, 2).

    Equal values have a small variance, too: few samples do not show what others would have. It is NaN where a
    step has none.

    Parameters
    ----------
    values : ndarray of float, shape (N,)
    groups : ndarray of int, shape (N,)
        Index of each sample's group within its step, below `PER_STEP`.
    steps : ndarray of int, shape (N,)
        Position of each sample's step.
    count : int
        Number of steps.
    """
    known = np.isfinite(values)
    values, groups, steps = values[known], groups[known], steps[known]
    size = np.bincount(steps, minlength=count)
    with np.errstate(all="ignore"):
        mean = np.bincount(steps, values, minlength=count) / size
        sums = np.bincount(steps * PER_STEP + groups, values - mean[steps], minlength=count * PER_STEP)
        squares = (sums.reshape(count, PER_STEP) ** 2).sum(axis=1)
        return np.stack([mean, squares / size**2 + 0.25 / (size + 1.0) ** 2 / size], axis=1)


@dataclass
class RunTexts:
    """Texts of a run, step by step; of one split, and reused as long as a step does not change.

    Attributes
    ----------
    steps : dict of int to StepTexts
        By step.
    truths : dict of int to str
        Truth of each prompt that was read, by the prompt's hash; the first one.
    seen : dict of str to dict
        By kind: the first read step of each phrase that several samples of a step have.
    answers : AnswerRule, optional
        Reads the answers; None until enough ground truths were read.
    pairs : list of tuple of str
        The first responses with their ground truths, from which the rule is chosen.
    """

    steps: dict[int, StepTexts] = field(default_factory=dict)
    truths: dict[int, str] = field(default_factory=dict)
    seen: dict[str, dict[int, int]] = field(default_factory=lambda: {kind: {} for kind in KINDS})
    answers: AnswerRule | None = None
    pairs: list[tuple[str, str]] = field(default_factory=list)

    def copy(self) -> RunTexts:
        """Return a copy, so that a check on another thread may go on with the old one."""
        seen = {kind: dict(steps) for kind, steps in self.seen.items()}
        return RunTexts(dict(self.steps), dict(self.truths), seen, self.answers, list(self.pairs))

    def read(
        self, index: RunIndex, snapshot: Snapshot, steps: np.ndarray, ended: Callable[[], bool] = bool
    ) -> None:
        """Read the texts of the complete steps that are new, or that have more samples than when read.

        It returns at the next step once ``ended`` returns True.
        """
        wanted = steps_to_read(steps, set(self.steps))
        for step in set(self.steps) - set(wanted):
            del self.steps[step]
        quotable = set(wanted[-_QUOTABLE:])
        samples = dict(zip(snapshot.steps.values.tolist(), snapshot.steps.samples.tolist(), strict=True))
        for step in wanted:
            if ended():
                return
            known = self.steps.get(step)
            if known is None or known.samples != samples[step]:
                self.steps[step] = self._read_step(index, snapshot, step, step in quotable)
                if self.answers is None and self._choose_answers():
                    for again in [at for at, read in self.steps.items() if "truth_chars" in read.numbers]:
                        self.steps[again] = self._read_step(index, snapshot, again, again in quotable)
        for step in wanted[:-_QUOTABLE]:
            self.steps[step] = _without_words(self.steps[step])

    def moments(self, steps: Sequence[int]) -> dict[str, np.ndarray]:
        """Return mean and variance of each number at some steps, shape (S, 2); NaN where it is not known."""
        alike: dict[tuple[str, ...], list[int]] = {}
        position = {step: at for at, step in enumerate(steps)}
        for step in sorted(position.keys() & self.steps.keys()):
            alike.setdefault(tuple(self.steps[step].numbers), []).append(position[step])
        found: dict[str, np.ndarray] = {}
        for names, places in alike.items():  # most steps have the same numbers
            values = np.array([self.steps[steps[at]].moments for at in places])
            for number, name in enumerate(names):
                table = found.setdefault(name, np.full((len(steps), 2), np.nan))
                table[places] = values[:, number]
        return found

    def sizes(self, steps: Sequence[int]) -> np.ndarray:
        """Return the number of read samples of some steps, shape (S,)."""
        return np.array([len(self.steps[step].rows) if step in self.steps else 0 for step in steps])

    def _choose_answers(self) -> bool:
        """Choose the rule that reads answers, once enough truths were read; return True if it was chosen."""
        if _MIN_TRUTHS <= len(self.pairs) < _TRIED:
            chosen = choose_rule(self.pairs)
            self.answers = chosen.rule if chosen is not None else None
        return self.answers is not None

    def _read_step(self, index: RunIndex, snapshot: Snapshot, step: int, quotable: bool) -> StepTexts:
        """Read a step; without the texts of phrases that cannot be quoted, which take time to collect."""
        rows = snapshot.rows_of(step)
        chosen = _of_different_groups(snapshot, rows)
        found = list(texts_of(index, snapshot, chosen))
        hashes = snapshot.prompts(chosen)
        numbers: dict[str, list[float]] = {}
        phrases: dict[str, list[SamplePhrases | None]] = {kind: [None] * len(found) for kind in KINDS}
        for at, (texts, prompt) in enumerate(zip(found, hashes.tolist(), strict=True)):
            if texts is None:
                continue
            of_response = response_words(texts)
            values = numbers_of(texts, of_response, self.answers)
            if "ground_truth" not in texts and self.truths:
                values["truth_missing"] = 1.0  # null, or not logged any more
            if truth := texts.get("ground_truth"):
                values["truth_changed"] = float(self.truths.setdefault(prompt, truth) != truth)
                if self.answers is None and len(self.pairs) < _TRIED:
                    self.pairs.append((texts.get("response") or "", truth))
            for name, value in values.items():
                numbers.setdefault(name, [np.nan] * len(found))[at] = value
            for kind, of_sample in phrases_of(texts, of_response).items():
                phrases[kind][at] = of_sample
        if any(texts is not None and texts.get("messages") for texts in found):
            numbers["repeated_results"] = repeated_results(found)
        held = {kind: Phrases(samples) for kind, samples in phrases.items()}
        for kind, of_step in held.items():
            if (share := self._share_of_new(kind, of_step, step)) is not None:
                numbers[f"new {kind}"] = [share] * len(found)
            if kind.startswith("prompt") and len(of_step.keys):
                numbers[f"unseen {kind}"] = [self._share_unseen(kind, of_step, step)] * len(found)
        columns = {name: np.array(values) for name, values in numbers.items()}
        words = {
            kind: held[kind].words(samples, 1 if kind.startswith("prompt") else _SEVERAL, _MAX_WORDS)
            if quotable or kind.startswith("prompt")
            else {}
            for kind, samples in phrases.items()
        }
        groups = np.unique(hashes, return_inverse=True)[1]
        return StepTexts(chosen, groups, len(rows), columns, held, words)

    def _share_of_new(self, kind: str, phrases: Phrases, step: int) -> float | None:
        """Return the share of a step's shared phrases that no step before the last few had.

        A phrase stays new for `_KNOWN_AFTER` read steps, so that a change of texts is seen in several steps.
        None in the first steps, in which all phrases are new.
        """
        shared = phrases.counts >= (1 if kind.startswith("prompt") else _SHARED)
        earlier = sorted(known for known in self.steps if known < step)
        since = earlier[-_KNOWN_AFTER] if len(earlier) >= _KNOWN_AFTER else step
        seen, counts = self.seen[kind], phrases.counts[shared]
        first = np.array([seen.setdefault(key, step) for key in phrases.keys[shared].tolist()])
        if not len(first) or len(earlier) <= _KNOWN_AFTER:
            return None
        return float(counts[first >= since].sum() / counts.sum())

    def _share_unseen(self, kind: str, phrases: Phrases, step: int) -> float:
        """Return the share of a step's ends of prompts that no read step before had."""
        seen = self.seen[kind]
        first = np.array([seen.get(key, step) for key in phrases.keys.tolist()])
        return float(phrases.counts[first >= step].sum() / phrases.counts.sum())


def _without_words(step: StepTexts) -> StepTexts:
    """Return a step without the texts of its phrases, but with the ends of its prompts."""
    if not step.words["response"] and not step.words["result"]:
        return step
    return replace(step, words={**step.words, "response": {}, "result": {}})


def steps_to_read(steps: np.ndarray, known: set[int]) -> list[int]:
    """Return the steps to read: all of a short run, else the newest, and others in even distances.

    Steps that are known already stay, so that a growing run is not read again.
    """
    if len(steps) <= MAX_STEPS:
        return [int(step) for step in steps]
    newest, older = steps[-_NEWEST:], steps[:-_NEWEST]
    room = MAX_STEPS - _NEWEST
    kept = [step for step in older.tolist() if step in known]
    if len(kept) > 2 * room or len(kept) < room // 2:
        kept = older[np.linspace(0, len(older) - 1, room).astype(int)].tolist()
    while len(kept) > room:
        gaps = np.diff(kept)
        del kept[int((gaps[1:] + gaps[:-1]).argmin()) + 1]
    return [*sorted(kept), *newest.tolist()]


def _of_different_groups(snapshot: Snapshot, rows: np.ndarray) -> np.ndarray:
    """Return up to `PER_STEP` rows of a step: one of each group first, any of its samples."""
    drawn = rows[np.random.default_rng(len(rows)).permutation(len(rows))]
    codes = snapshot.group_codes
    keys = codes[drawn] if codes is not None and (codes[drawn] >= 0).all() else snapshot.prompts(drawn)
    first = np.sort(np.unique(keys, return_index=True)[1])
    others = np.setdiff1d(np.arange(len(rows)), first)
    return np.sort(drawn[np.concatenate([first, others])[:PER_STEP]])


def texts_of(index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> Iterable[Texts | None]:
    """Yield the texts of rows, with the messages of agents; None where a line cannot be read."""
    if not any(name.startswith("tool_calls") for name in snapshot.numbers):
        yield from fetch_all_texts(index, snapshot, rows)
        return
    for row in rows.tolist():
        try:
            record = fetch_record(index, snapshot, row)
        except (RLPanelError, OSError, IndexError):
            yield None
            continue
        found: Mapping[str, object] = {
            **record.texts,
            "messages": record.messages,
            "tokens": record.tokens,
            "loss_mask": record.arrays.get("loss_mask"),
        }
        yield found
