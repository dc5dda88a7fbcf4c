"""Numbers and phrases of a few responses of each step, read from the logs, for rules on texts.

The store holds no texts. Of each complete step, `PER_STEP` samples of different groups are read once; of a
long run the newest steps and others in even distances, `MOST_STEPS` in all. Digits are masked, so that
phrases with other numbers are the same phrase.
"""

from __future__ import annotations

import itertools
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rlpanel.analysis.text_features import words_of
from rlpanel.errors import RLPanelError
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_all_texts, fetch_record
from rlpanel.store.snapshot.snapshot import Snapshot

#: Samples read of a step, and steps read of a run.
PER_STEP, MOST_STEPS = 16, 160
#: Newest steps that are all read.
_NEWEST = 48
#: Words of a phrase, and of a sequence whose repetition is a loop.
WORDS, _LOOP_WORDS = 3, 4
#: Characters at the ends of a prompt that show its template.
_BEGIN, _END = 24, 12
#: Most characters of a text that are used, half of them from its end.
_MOST_CHARS = 2000
#: Samples of a step that share a phrase whose text is kept, and most new ones of a step.
_SEVERAL, _MOST_WORDS = 3, 4000
#: Equal calls of a rollout that are a repetition.
_EQUAL_CALLS = 3
#: Samples of a step that share a phrase which counts as new or known, and steps until a phrase is known.
_SHARED, _KNOWN_AFTER = 2, 8
#: Kinds of phrases.
KINDS = ("response", "result", "prompt begin", "prompt end")
_DIGITS = re.compile(r"\d+")
_BOXED = re.compile(r"\\boxed\s*\{")


@dataclass(frozen=True)
class StepTexts:
    """What the texts of some samples of one step give.

    Attributes
    ----------
    rows : ndarray of int, shape (N,)
    samples : int
        Samples of the step when it was read; with more it is read again.
    numbers : dict of str to ndarray of float, shape (N,)
        NaN where a number is not defined, see `numbers_of`.
    phrases : dict of str to Counter
        By kind (response, result, prompt begin, prompt end): how many of the samples have each phrase.
    moments : dict of str to tuple of float
        Mean of each number, and the variance of that mean; computed once, since each check needs them.
    """

    rows: np.ndarray
    samples: int
    numbers: dict[str, np.ndarray]
    phrases: dict[str, Counter[int]]
    moments: dict[str, tuple[float, float]] = field(init=False)

    def __post_init__(self) -> None:
        known = {name: values[np.isfinite(values)] for name, values in self.numbers.items()}
        moments = {
            name: (float(values.mean()), float(values.var() + 0.25 / (len(values) + 1) ** 2) / len(values))
            for name, values in known.items()
            if len(values)
        }
        object.__setattr__(self, "moments", moments)


@dataclass
class RunTexts:
    """Texts of a run, step by step; of one split, and reused as long as a step does not change.

    Attributes
    ----------
    steps : dict of int to StepTexts
        By step.
    truths : dict of int to str
        Truth of each prompt that was read, by the prompt's hash; the first one.
    words : dict of int to str
        Text of the phrases that several samples of a step have, by their hash.
    seen : dict of str to dict
        By kind: the first read step of each phrase that several samples of a step have.
    """

    steps: dict[int, StepTexts] = field(default_factory=dict)
    truths: dict[int, str] = field(default_factory=dict)
    words: dict[int, str] = field(default_factory=dict)
    seen: dict[str, dict[int, int]] = field(default_factory=lambda: {kind: {} for kind in KINDS})

    def copy(self) -> RunTexts:
        """Return a copy, so that a check on another thread may go on with the old one."""
        seen = {kind: dict(steps) for kind, steps in self.seen.items()}
        return RunTexts(dict(self.steps), dict(self.truths), dict(self.words), seen)

    def read(self, index: RunIndex, snapshot: Snapshot, steps: np.ndarray) -> None:
        """Read the texts of the complete steps that are new, or that have more samples than when read."""
        wanted = steps_to_read(steps, set(self.steps))
        for step in [step for step in self.steps if step not in set(wanted)]:
            del self.steps[step]
        for step in wanted:
            rows = snapshot.rows_of(step)
            known = self.steps.get(step)
            if known is None or known.samples != len(rows):
                self.steps[step] = self._read_step(index, snapshot, step, rows)

    def _read_step(self, index: RunIndex, snapshot: Snapshot, step: int, rows: np.ndarray) -> StepTexts:
        chosen = _of_different_groups(snapshot, rows)
        found = list(_texts_of(index, snapshot, chosen))
        hashes = snapshot.prompts(chosen).tolist()
        numbers: dict[str, list[float]] = {}
        phrases: dict[str, Counter[int]] = {kind: Counter() for kind in KINDS}
        spelled: dict[int, str] = {}
        for at, (texts, prompt) in enumerate(zip(found, hashes, strict=True)):
            values = numbers_of(texts) if texts is not None else {}
            if texts is not None and (truth := texts.get("ground_truth")):
                first = self.truths.setdefault(prompt, truth)
                values["truth_changed"] = float(first != truth)
            for name, value in values.items():
                numbers.setdefault(name, [np.nan] * len(found))[at] = value
            for kind, keys in (phrases_of(texts) if texts is not None else {}).items():
                phrases[kind].update(keys.keys())
                spelled.update(keys)
        for name, shares in _repeated_results(found).items():
            numbers[name] = shares
        for kind, counts in phrases.items():
            if (share := self._share_of_new(kind, counts, step)) is not None:
                numbers[f"new {kind}"] = [share] * len(found)
            least = 1 if kind.startswith("prompt") else _SEVERAL
            new = (key for key, count in counts.items() if count >= least)
            self.words.update((key, spelled[key]) for key in itertools.islice(new, _MOST_WORDS))
        columns = {name: np.array(values) for name, values in numbers.items()}
        return StepTexts(chosen, len(rows), columns, phrases)

    def _share_of_new(self, kind: str, counts: Counter[int], step: int) -> float | None:
        """Return the share of a step's shared phrases that no step before the last few had.

        A phrase stays new for `_KNOWN_AFTER` read steps, so that a change of texts is seen in several steps.
        None in the first steps, in which all phrases are new.
        """
        least = 1 if kind.startswith("prompt") else _SHARED
        seen, total, new = self.seen[kind], 0, 0
        earlier = sorted(known for known in self.steps if known < step)
        since = earlier[-_KNOWN_AFTER] if len(earlier) >= _KNOWN_AFTER else step
        for key, count in counts.items():
            if count >= least:
                total += count
                new += count * (seen.setdefault(key, step) >= since)
        return new / total if total and len(earlier) > _KNOWN_AFTER else None


def steps_to_read(steps: np.ndarray, known: set[int]) -> list[int]:
    """Return the steps to read: all of a short run, else the newest, and others in even distances.

    Steps that are known already stay, so that a growing run is not read again.
    """
    if len(steps) <= MOST_STEPS:
        return [int(step) for step in steps]
    newest, older = steps[-_NEWEST:], steps[:-_NEWEST]
    room = MOST_STEPS - _NEWEST
    kept = [step for step in older.tolist() if step in known]
    if len(kept) > 2 * room or len(kept) < room // 2:
        kept = older[np.linspace(0, len(older) - 1, room).astype(int)].tolist()
    while len(kept) > room:
        gaps = np.diff(kept)
        del kept[int((gaps[1:] + gaps[:-1]).argmin()) + 1]
    return [*sorted(kept), *newest.tolist()]


def _of_different_groups(snapshot: Snapshot, rows: np.ndarray) -> np.ndarray:
    """Return up to `PER_STEP` rows of a step: one of each group first, in the order of the rows."""
    codes = snapshot.group_codes
    keys = codes[rows] if codes is not None else snapshot.prompts(rows)
    _, first = np.unique(keys, return_index=True)
    if codes is not None and (codes[rows] < 0).any():
        first = np.arange(len(rows))
    first = np.sort(first)
    if len(first) > PER_STEP:
        first = first[np.linspace(0, len(first) - 1, PER_STEP).astype(int)]
    # The place in the group varies from group to group, so that no sample is preferred.
    others = np.setdiff1d(np.arange(len(rows)), first)
    more = others[np.linspace(0, len(others) - 1, min(PER_STEP - len(first), len(others))).astype(int)]
    return rows[np.sort(np.concatenate([first, more]).astype(int))]


Texts = Mapping[str, Any]


def _texts_of(index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> Iterable[Texts | None]:
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
        yield {
            **record.texts,
            "messages": record.messages,
            "tokens": record.tokens,
            "loss_mask": record.arrays.get("loss_mask"),
        }


def _ends(text: str) -> str:
    half = _MOST_CHARS // 2
    return text if len(text) <= _MOST_CHARS else f"{text[:half]}\n{text[-half:]}"


def numbers_of(texts: Texts) -> dict[str, float]:
    """Return the numbers of a sample's texts.

    Returns
    -------
    dict of str to float
        ``loops``: share of the sequences of four words that occurred before in the response; ``boxes``: boxed
        answers; ``truth_missing``, ``truth_in_prompt``: 0 or 1; ``truth_words``; for agents
        ``empty_results`` (share), ``equal_calls`` (1 if three calls or more are equal), ``result_chars``
        (logarithm of the mean), ``truth_in_results``, and ``trained_results`` (share in the loss mask).
    """
    response, prompt, truth = (texts.get(name) or "" for name in ("response", "prompt", "ground_truth"))
    found = {"loops": loop_share(words_of(_ends(response))), "boxes": float(len(_BOXED.findall(response)))}
    if "ground_truth" in texts:
        found["truth_missing"] = float(not truth.strip() or truth.strip().lower() in ("none", "nan", "null"))
        found["truth_words"] = float(max(len(truth.split()), 1))
    if len(truth.strip()) > 1:
        found["truth_in_prompt"] = float(has_word(prompt, truth.strip()))
    calls, results = calls_and_results(texts.get("messages") or ())
    if results:
        found |= {
            "empty_results": sum(not result.strip() for result in results) / len(results),
            "result_chars": math.log(max(sum(map(len, results)) / len(results), 1.0)),
        }
        if len(truth.strip()) > 1:
            found["truth_in_results"] = float(any(has_word(result, truth.strip()) for result in results))
        trained = trained_results(results, texts.get("tokens"), texts.get("loss_mask"))
        if trained is not None:
            found["trained_results"] = trained
    if len(calls) > 1:
        found["equal_calls"] = float(Counter(calls).most_common(1)[0][1] >= _EQUAL_CALLS)
    return found


def loop_share(words: Sequence[str]) -> float:
    """Return the share of the sequences of four words that occurred before in the same text."""
    sequences = list(zip(*(words[at:] for at in range(_LOOP_WORDS)), strict=False))
    return 1 - len(set(sequences)) / len(sequences) if sequences else 0.0


def has_word(text: str, word: str) -> bool:
    """Return True if the text contains the word, not as a part of a longer one."""
    at = text.find(word)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(word) : at + len(word) + 1]
        if not (before.isalnum() and word[0].isalnum()) and not (after.isalnum() and word[-1].isalnum()):
            return True
        at = text.find(word, at + 1)
    return False


def trained_results(
    results: Sequence[str], tokens: Sequence[str] | None, mask: np.ndarray | None
) -> float | None:
    """Return the share of results whose first token is in the loss mask; None without one in the tokens."""
    if tokens is None or mask is None or len(tokens) != len(mask):
        return None
    text = "".join(tokens)
    ends = np.cumsum([len(token) for token in tokens])
    at, marked = 0, []
    for result in results:
        found = text.find(result[:_MOST_CHARS].strip()[:40], at) if result.strip() else -1
        if found >= 0:
            marked.append(float(mask[int(np.searchsorted(ends, found, side="right"))]) > 0)
            at = found + 1
    return sum(marked) / len(marked) if marked else None


def calls_and_results(messages: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """Return the calls of tools, with their arguments, and the results, as texts."""
    calls, results = [], []
    for message in messages:
        for call in message.get("tool_calls") or ():
            calls.append(f"{call.get('name')} {call.get('arguments')}")
        if message.get("role") == "tool":
            content = message.get("content")
            results.append(content if isinstance(content, str) else str(content or ""))
    return calls, results


def _repeated_results(samples: Sequence[Texts | None]) -> dict[str, list[float]]:
    """Return for each sample the share of its results that another call of the step has, too."""
    calls_of: dict[str, set[str]] = {}
    pairs = [
        calls_and_results(texts.get("messages") or ()) if texts is not None else ([], []) for texts in samples
    ]
    for calls, results in pairs:
        for call, result in zip(calls, results, strict=False):
            calls_of.setdefault(result, set()).add(call)
    shares = [
        sum(len(calls_of.get(result, ())) > 1 for result in results) / len(results) if results else np.nan
        for _, results in pairs
    ]
    return {"repeated_results": shares} if any(results for _, results in pairs) else {}


def phrases_of(texts: Texts) -> dict[str, dict[int, str]]:
    """Return the phrases of a sample by kind, as hashes with their text; digits are masked."""
    prompt = _DIGITS.sub("0", texts.get("prompt") or "")
    _, results = calls_and_results(texts.get("messages") or ())
    begin, end = prompt[:_BEGIN], prompt[-_END:]
    return {
        "response": _hashes(texts.get("response") or ""),
        "result": _hashes("\n".join(results)),
        "prompt begin": {key_of(begin): begin},
        "prompt end": {key_of(end): end},
    }


def _hashes(text: str) -> dict[int, str]:
    words = [_DIGITS.sub("0", word) for word in words_of(_ends(text))]
    phrases = map(" ".join, zip(*(words[at:] for at in range(WORDS)), strict=False))
    return {key_of(phrase): phrase for phrase in phrases}


def key_of(text: str) -> int:
    """Return the hash under which a phrase is counted."""
    return zlib.crc32(text.encode(errors="replace"))
