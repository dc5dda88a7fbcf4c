"""Change of tokens and phrases from one visit of a prompt to the next, beside the advantage that pushed them.

A visit is a step with samples of the prompt. Two things are compared over consecutive visits:

* *tokens*: where responses of both visits begin with the same tokens, the policy gave the next token a
  logprob in the same context before and after. The difference is the realised change of that token.
* *phrases*: the share of responses with a word or a sequence of words at the visit and at the next one.

The push is the mean of advantage times presence over the samples of the first visit: above 0 if the update
should make the token more likely. All updates between the visits took part in the change, and other prompts
did, too: push and change go together or not, which is a correlation and no proof. Errors are clustered by
prompt (Liang, Zeger 1986).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rlpanel.analysis.difference import MAX_TEXTS, MIN_SAMPLES, normal_of_t, threshold
from rlpanel.analysis.paid_features import shown_text
from rlpanel.analysis.text_features import TextFeatures
from rlpanel.errors import RLPanelError
from rlpanel.sources.records.record_types import Record
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_record
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.texts.display_text import detect, read_piece

#: Seconds between two progress results, and most changed tokens and phrases of each direction.
PULSE, MAX_CHANGED = 0.25, 40
#: Logprobs of the policy, the preferred one first.
_LOGPROBS = ("logprobs", "rollout_logprobs")


@dataclass(frozen=True)
class LearnedToken:
    """A token or phrase with its change over visits.

    Attributes
    ----------
    kind : str
        ``token``, ``word`` or ``words``.
    name : str
    push : float
        Mean of advantage times presence.
    change, error : float
        Mean change over prompts' visits and its standard error: of the logprob in nats for a token, of the
        share of responses for a phrase.
    z : float
    now, following : float
        Mean probability of a token, or share of responses with a phrase, at the visits and the next ones.
    visits, prompts : int
        Contexts (of a token) or pairs of visits (of a phrase), and prompts.
    """

    kind: str
    name: str
    push: float
    change: float
    error: float
    z: float
    now: float
    following: float
    visits: int
    prompts: int


@dataclass(frozen=True)
class LearnedTokens:
    """Tokens and phrases that changed, so far.

    Attributes
    ----------
    learned : tuple of LearnedToken
        Up or down, the clearest first.
    read, total : int
        Samples that were read, and to read.
    pairs, prompts : int
        Pairs of consecutive visits, and their prompts.
    contexts : int
        Contexts in which a token has a logprob at both visits.
    agreement : float, optional
        Correlation of push and change over contexts; None with fewer than `MIN_SAMPLES`.
    tried : int
        Tokens and phrases that were tested.
    logprobs : str
        The logged array that was compared; empty without one.
    unreadable : int
    remarks : tuple of str
    """

    learned: tuple[LearnedToken, ...] = ()
    read: int = 0
    total: int = 0
    pairs: int = 0
    prompts: int = 0
    contexts: int = 0
    agreement: float | None = None
    tried: int = 0
    logprobs: str = ""
    unreadable: int = 0
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Visits:
    """Samples of prompts that were visited several times; each array has shape (N,).

    Attributes
    ----------
    rows : ndarray of int
        By prompt, then by step.
    prompt, visit : ndarray of int
        Index of each sample's prompt, and of its visit; visits of a prompt follow one another.
    has_next, has_previous : ndarray of bool
    size : ndarray of int
        Number of samples of the visit.
    advantage : ndarray of float
    """

    rows: np.ndarray
    prompt: np.ndarray
    visit: np.ndarray
    has_next: np.ndarray
    has_previous: np.ndarray
    size: np.ndarray
    advantage: np.ndarray

    @property
    def pairs(self) -> int:
        """Number of pairs of consecutive visits."""
        return len(np.unique(self.visit[self.has_next]))


def learned_tokens(
    index: RunIndex, view: RunView, rows: np.ndarray, *, most: int = MAX_TEXTS
) -> Iterator[LearnedTokens]:
    """Read samples of prompts that come back; yield progress, and last the tokens and phrases that changed.

    Parameters
    ----------
    index : RunIndex
    view : RunView
    rows : ndarray of int
    most : int
        Most samples to read: whole prompts, chosen at random with a fixed seed.
    """
    visits, remarks = _visits(view, rows, most)
    state = LearnedTokens(total=len(visits.rows), pairs=visits.pairs, remarks=remarks)
    yield state
    if not len(visits.rows):
        return
    words, tokens = TextFeatures(), _Contexts(visits)
    positions: list[int] = []
    last, unreadable = time.monotonic(), 0
    for position, row in enumerate(visits.rows.tolist()):
        try:
            record = fetch_record(index, view.snapshot, row)
        except (RLPanelError, IndexError):  # the file changed meanwhile; the index updates shortly
            unreadable += 1
            continue
        positions.append(position)
        words.add(shown_text(record.texts.get("response") or ""))
        tokens.add(position, record)
        if time.monotonic() - last > PULSE:
            last = time.monotonic()
            yield replace(state, read=position + 1)
    tokens.close()
    found = [*tokens.learned(), *_phrases(visits, words, np.array(positions, np.int64))]
    least = threshold(len(found))
    clear = sorted((each for each in found if abs(each.z) >= least), key=lambda each: -abs(each.z))
    kept = [
        *[each for each in clear if each.change > 0][:MAX_CHANGED],
        *[each for each in clear if each.change < 0][:MAX_CHANGED],
    ]
    if not tokens.source:
        note = "No logprobs are logged beside the tokens: only shares of phrases are compared."
        state = replace(state, remarks=(*state.remarks, note))
    yield replace(
        state,
        learned=tuple(sorted(kept, key=lambda each: -abs(each.z))),
        read=len(visits.rows),
        prompts=int(visits.prompt.max()) + 1,
        contexts=len(tokens.changes),
        agreement=tokens.agreement,
        tried=len(found),
        logprobs=tokens.source,
        unreadable=unreadable,
    )


def _visits(view: RunView, rows: np.ndarray, most: int) -> tuple[_Visits, tuple[str, ...]]:
    """Return the samples of prompts with several visits, and what is said about them."""
    snapshot, remarks = view.snapshot, []
    if not snapshot.has_number("prompt_chars"):
        rows = rows[:0]
        remarks.append("No prompts are logged, so that a prompt that comes back is not known.")
    keys, step = snapshot.prompts(rows), snapshot.metadata("step")[rows].astype(np.int64)
    prompts, code = np.unique(keys, return_inverse=True)
    span = int(step.max(initial=0)) - int(step.min(initial=0)) + 1
    visits = np.unique(code * span + (step - step.min(initial=0)))
    several = np.bincount(visits // span, minlength=len(prompts)) > 1
    if len(prompts) and not several.any():
        remarks.append("No prompt comes back at another step, so that no change can be seen.")
    sizes = np.bincount(code, minlength=len(prompts))
    drawn = np.random.default_rng(0).permutation(len(prompts))
    drawn = drawn[several[drawn]]
    chosen = drawn[np.cumsum(sizes[drawn]) <= most]
    if len(chosen) < len(drawn):
        remarks.append(f"{len(chosen):,} of {len(drawn):,} prompts that come back were read.")
    inside = np.isin(code, chosen)
    rows, code, step = rows[inside], code[inside], step[inside]
    order = np.lexsort((step, code))
    rows, code, step = rows[order], np.unique(code[order], return_inverse=True)[1], step[order]
    new = np.append(True, (np.diff(code) != 0) | (np.diff(step) != 0))[: len(rows)]
    visit = np.cumsum(new) - 1
    of = code[np.flatnonzero(new)]
    after = np.append(of[1:] == of[:-1], False)[: len(of)]
    before = np.append(False, of[1:] == of[:-1])[: len(of)]
    advantage, note = _advantages(view, rows, visit)
    return _Visits(rows, code, visit, after[visit], before[visit], np.bincount(visit)[visit], advantage), (
        *remarks,
        *note,
    )


def _advantages(view: RunView, rows: np.ndarray, visit: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the advantage of each sample, 0 where it is unknown."""
    snapshot = view.snapshot
    for name in ("advantage", "advantages_mean"):
        if snapshot.has_number(name):
            return np.nan_to_num(snapshot.number(name)[rows].astype(float)), ()
    if not snapshot.has_number("reward"):
        return np.zeros(len(rows)), ("Neither advantages nor rewards are logged: the push is not known.",)
    reward = snapshot.number("reward")[rows].astype(float)
    finite = np.isfinite(reward)
    with np.errstate(all="ignore"):
        mean = np.bincount(visit, np.where(finite, reward, 0.0)) / np.bincount(visit, finite)
    note = "No advantage is logged: the reward minus the mean of the prompt's samples stands for it."
    return np.nan_to_num(reward - mean[visit]), (note,)


@dataclass(frozen=True)
class _Change:
    """Change of a token in one context, from one visit to the next."""

    token: str
    prompt: int
    change: float
    push: float
    now: float
    following: float


#: By prefix and token: sum of logprobs, number, and sum of advantages.
_Seen = dict[tuple[int, str], list[float]]


@dataclass
class _Contexts:
    """Logprobs of tokens by what stands before them, at one visit of a prompt and at the one before."""

    visits: _Visits
    source: str = ""
    changes: list[_Change] = field(default_factory=list)
    _first: Sequence[str] = ()
    _visit: int = -1
    _now: _Seen = field(default_factory=dict)
    _before: _Seen = field(default_factory=dict)
    _sizes: tuple[int, int] = (1, 1)
    _prompt: int = -1

    def add(self, position: int, record: Record) -> None:
        """Add a sample; those of a visit follow one another."""
        visit, prompt = int(self.visits.visit[position]), int(self.visits.prompt[position])
        if visit != self._visit:
            self.close()
            same = prompt == self._prompt
            self._before = self._now if same else {}
            self._sizes = (self._sizes[1] if same else 1, int(self.visits.size[position]))
            self._now, self._visit, self._prompt = {}, visit, prompt
        name = next((name for name in _LOGPROBS if name in record.arrays), "")
        tokens, logged = record.tokens, record.arrays.get(name)
        if not tokens or logged is None or len(logged) != len(tokens):
            return
        self.source = self.source or name
        self._first = self._first or tokens
        mask = record.arrays.get("loss_mask")
        trained = mask.tolist() if mask is not None and len(mask) == len(tokens) else [1.0] * len(tokens)
        advantage, prefix = float(self.visits.advantage[position]), 0
        for token, value, counts in zip(tokens, logged.tolist(), trained, strict=True):
            key = (prefix, token)
            if counts and value == value:
                seen = self._now.setdefault(key, [0.0, 0.0, 0.0])
                seen[0] += value
                seen[1] += 1
                seen[2] += advantage
            prefix = hash(key)

    def close(self) -> None:
        """Compare the visit that was read with the one before."""
        for key in self._before.keys() & self._now.keys():
            total, number, push = self._before[key]
            after, count, _ = self._now[key]
            before, now = total / number, after / count
            self.changes.append(
                _Change(
                    key[1],
                    self._prompt,
                    now - before,
                    push / self._sizes[0],
                    float(np.exp(before)),
                    float(np.exp(now)),
                )
            )
        self._before = {}

    @property
    def agreement(self) -> float | None:
        """Correlation of push and change over contexts."""
        if len(self.changes) < MIN_SAMPLES:
            return None
        push, change = (
            np.array([getattr(each, name) for each in self.changes]) for name in ("push", "change")
        )
        if not push.std() > 0 or not change.std() > 0:
            return None
        return float(np.corrcoef(push, change)[0, 1])

    def learned(self) -> Iterator[LearnedToken]:
        """Yield the tokens that enough prompts have, with their mean change."""
        of: defaultdict[str, list[_Change]] = defaultdict(list)
        for each in self.changes:
            of[each.token].append(each)
        encoding = detect(self._first)
        for token, found in of.items():
            change = np.array([each.change for each in found])
            prompt = np.array([each.prompt for each in found])
            tested = _mean_test(change, prompt)
            if tested is None:
                continue
            yield LearnedToken(
                kind="token",
                name=read_piece(token, encoding),
                push=float(np.mean([each.push for each in found])),
                change=float(change.mean()),
                error=tested[0],
                z=tested[1],
                now=float(np.mean([each.now for each in found])),
                following=float(np.mean([each.following for each in found])),
                visits=len(found),
                prompts=tested[2],
            )


def _mean_test(values: np.ndarray, cluster: np.ndarray) -> tuple[float, float, int] | None:
    """Return the clustered error of a mean, its z, and the number of clusters; None with few of them."""
    codes = np.unique(cluster, return_inverse=True)[1]
    count = int(codes.max(initial=-1)) + 1
    if count < MIN_SAMPLES:
        return None
    sums = np.bincount(codes, values - values.mean())
    error = float(np.sqrt((sums**2).sum() * count / (count - 1))) / len(values)
    if not error > 0:
        return None
    return error, normal_of_t(float(values.mean()) / error, float(count - 1)), count


def _phrases(visits: _Visits, words: TextFeatures, position: np.ndarray) -> Iterator[LearnedToken]:
    """Yield words and sequences with the change of their share of responses."""
    pairs = visits.pairs
    prompts = int(visits.prompt.max(initial=-1)) + 1
    if not pairs:
        return
    now = np.where(visits.has_next, 1 / visits.size, 0.0)[position]
    following = np.where(visits.has_previous, 1 / visits.size, 0.0)[position]
    push = now * visits.advantage[position]
    of_prompt = visits.prompt[position]
    pairs_of = np.bincount(visits.prompt, np.where(visits.has_next, 1 / visits.size, 0.0), prompts)
    for family in words.families():
        if family.kind == "opening" or not len(family):
            continue
        size = len(family)
        sums = [np.bincount(family.feature, part[family.text], size) for part in (now, following, push)]
        keys = family.feature * prompts + of_prompt[family.text]
        table = np.bincount(np.unique(keys, return_inverse=True)[1], (following - now)[family.text])
        of_feature = np.unique(keys) // prompts
        mean = (sums[1] - sums[0]) / pairs
        prompt = np.unique(keys) % prompts
        # Sum over prompts of (change - mean * pairs) ** 2, where prompts without the phrase have no change.
        moved = np.bincount(of_feature, table**2 - 2 * table * mean[of_feature] * pairs_of[prompt], size)
        squares = moved + mean**2 * float((pairs_of**2).sum())
        holders = np.bincount(of_feature, minlength=size)
        error = np.sqrt(np.maximum(squares, 0.0) * prompts / max(prompts - 1, 1)) / pairs
        for feature in np.flatnonzero((holders >= MIN_SAMPLES) & (error > 0)).tolist():
            yield LearnedToken(
                kind=family.kind,
                name=" ".join(family.key(feature)),
                push=float(sums[2][feature] / pairs),
                change=float(mean[feature]),
                error=float(error[feature]),
                z=normal_of_t(float(mean[feature] / error[feature]), float(holders[feature] - 1)),
                now=float(sums[0][feature] / pairs),
                following=float(sums[1][feature] / pairs),
                visits=pairs,
                prompts=int(holders[feature]),
            )
