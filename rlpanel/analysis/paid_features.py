"""Features of responses that the reward pays for beyond a held-out score: candidates of a hack.

A feature is a word, a sequence of words, an opening, a call of a tool, or a behaviour such as a repetition.
The held-out score is `valid_reward`, another column, or the match of answer and ground truth. The statistic
stands in `within_effects`. A feature is named if its z reaches the threshold for the number of features
tried (`difference.threshold`). After the first one, a feature is named only if it has an effect beyond those
that are named already: parts of a phrase are not named again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rlpanel.analysis.difference import MAX_TEXT_CHARS, MAX_TEXTS, MIN_SAMPLES, normal_of_t, threshold
from rlpanel.analysis.reward_parts import GroupRows, group_rows
from rlpanel.analysis.step_texts import texts_of
from rlpanel.analysis.text_features import (
    MAX_CHARS,
    MIN_TEXTS,
    FeatureFamily,
    TextFeatures,
    place_of,
    words_of,
)
from rlpanel.analysis.text_measures import calls_and_results, numbers_of
from rlpanel.analysis.within_effects import WithinEffects, WithinSamples, effect_beyond, within_effects
from rlpanel.errors import SettingError
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.filter_syntax import quote
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.texts.final_answers import EQUAL, UNCLEAR, AnswerRule, answer_of, choose_rule, match_of

#: Most features that are named, and that are tested beyond those which are named already.
MAX_FEATURES, _CANDIDATES = 20, 400
#: Most samples of a named feature.
MAX_UIDS = 20
#: Seconds between two progress results, and samples that are read at once.
PULSE, _AT_ONCE = 0.25, 64
#: Ground truths by which the rule that reads answers is chosen.
_TRIED = 64
#: Name of the held-out score that is read from the texts.
MATCH = "match"
#: Numbers of texts that are behaviours above a value, with the words for them.
_BEHAVIOURS = {
    "loops": (0.1, "repeats sequences of four words"),
    "boxes": (1.5, "has several boxed answers"),
    "truth_in_results": (0.5, "gets the ground truth from a tool"),
    "equal_calls": (0.5, "repeats a call of a tool"),
    "empty_results": (0.5, "gets empty results of tools"),
    "unanswered": (0.5, "ends without an answer"),
}


@dataclass(frozen=True)
class PaidFeature:
    """A feature that the reward pays for.

    Attributes
    ----------
    kind : str
        ``word``, ``words``, ``opening``, ``tool`` or ``behaviour``.
    name : str
        Text, tool or behaviour.
    samples, prompts : int
        Samples with it, and prompts whose samples differ in it.
    reward_gap, held_gap : float
        Difference within groups of samples with and without it; the latter is NaN without a held-out score.
    excess, error, z : float
        Reward beyond the held-out score, its standard error, and the normal deviate of the test.
    share : float
        Share of the reward's variance within groups that it explains.
    where : str
        Filter for its samples; empty if there is none.
    uids : tuple of str
        Its samples, those with the highest reward above the held-out score first.
    """

    kind: str
    name: str
    samples: int
    prompts: int
    reward_gap: float
    held_gap: float
    excess: float
    error: float
    z: float
    share: float
    where: str
    uids: tuple[str, ...]


@dataclass(frozen=True)
class PaidFeatures:
    """The paid features so far.

    Attributes
    ----------
    features : tuple of PaidFeature
        By descending share; empty until all texts were read.
    held_out : str
        The score that was subtracted: a column or `MATCH`; empty without one.
    rule : str
        The rule that reads answers, if the score is `MATCH`.
    read, total, samples : int
        Samples that were read, are to be read, and have a reward.
    tried : int
        Features that were tested.
    least_z : float
        Least z of a named feature.
    unreadable, unscored, alone : int
        Samples whose line changed, whose held-out score is missing, and that are alone in their group.
    remarks : tuple of str
        What is approximated or missing.
    complete : bool
    """

    features: tuple[PaidFeature, ...] = ()
    held_out: str = ""
    rule: str = ""
    read: int = 0
    total: int = 0
    samples: int = 0
    tried: int = 0
    least_z: float = 0.0
    unreadable: int = 0
    unscored: int = 0
    alone: int = 0
    remarks: tuple[str, ...] = ()
    complete: bool = False


def paid_features(
    index: RunIndex, view: RunView, rows: np.ndarray, *, held_out: str = "", most: int = MAX_TEXTS
) -> Iterator[PaidFeatures]:
    """Read responses; yield progress, and last the features that the reward pays for.

    Parameters
    ----------
    index : RunIndex
    view : RunView
    rows : ndarray of int, shape (N,)
    held_out : str
        A column, or `MATCH`; by default ``valid_reward`` if it is logged, else `MATCH`.
    most : int
        Most samples to read: whole groups, chosen at random with a fixed seed.

    Raises
    ------
    SettingError
        If the run does not have the held-out column.
    """
    snapshot = view.snapshot
    if held_out and held_out != MATCH and not snapshot.has_number(held_out):
        raise SettingError(f"the run has no number column {held_out[:80]!r} that could be the held-out score")
    if not held_out and snapshot.has_number("valid_reward"):
        held_out = "valid_reward"
    grouped = group_rows(view, rows)
    chosen = _whole_groups(view, grouped, most)
    alone = int(np.count_nonzero(grouped.sizes == 1)) if len(grouped.rows) else 0
    state = PaidFeatures(total=len(chosen.rows), samples=len(grouped.rows), alone=alone)
    yield state
    corpus, last = _Corpus(chosen.rows), time.monotonic()
    for first in range(0, len(chosen.rows), _AT_ONCE):
        part = chosen.rows[first : first + _AT_ONCE]
        for position, texts in enumerate(texts_of(index, snapshot, part), start=first):
            corpus.add(position, texts)
        if time.monotonic() - last > PULSE:
            last = time.monotonic()
            yield replace(state, read=first + len(part))
    state = replace(state, read=len(chosen.rows), unreadable=corpus.unreadable)
    held, state = _held_out(view, chosen, corpus, held_out, state)
    yield _tested(view, chosen, corpus, held, state)


def _whole_groups(view: RunView, grouped: GroupRows, most: int) -> GroupRows:
    """Return the samples of some whole groups of two or more, in the order of the run."""
    if not len(grouped.rows):
        return grouped
    sizes = grouped.sizes
    drawn = np.random.default_rng(0).permutation(len(sizes))
    drawn = drawn[sizes[drawn] > 1]
    chars = np.full(len(grouped.rows), float(MAX_CHARS))
    if view.snapshot.has_number("response_chars"):
        chars = np.fmin(np.nan_to_num(view.snapshot.number("response_chars")[grouped.rows]), MAX_CHARS)
    of_group = np.bincount(grouped.group, chars)
    fits = (np.cumsum(sizes[drawn]) <= most) & (np.cumsum(of_group[drawn]) <= MAX_TEXT_CHARS)
    fits[:1] = most > 0
    inside = np.isin(grouped.group, drawn[fits])
    return _some(grouped, inside)


def _some(grouped: GroupRows, mask: np.ndarray) -> GroupRows:
    group = np.unique(grouped.group[mask], return_inverse=True)[1]
    return GroupRows(grouped.rows[mask], group, grouped.step[mask], grouped.is_grouped)


@dataclass
class _Corpus:
    """Words, behaviours, answers and truths of responses; positions count the rows that were chosen."""

    rows: np.ndarray
    words: TextFeatures = field(default_factory=TextFeatures)
    position: list[int] = field(default_factory=list)
    behaviours: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    pairs: dict[int, tuple[str, str]] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    unreadable: int = 0

    def add(self, position: int, texts: Mapping[str, Any] | None) -> None:
        """Add the texts of a sample."""
        if texts is None:
            self.unreadable += 1
            return
        response = str(texts.get("response") or "")
        shown = shown_text(response)
        self.position.append(position)
        self.texts[position] = shown
        self.words.add(shown)
        for name, value in numbers_of(texts, words_of(shown)).items():
            least, words = _BEHAVIOURS.get(name, (np.inf, ""))
            if value > least:
                self.behaviours.setdefault(("behaviour", words), []).append(position)
        for call in set(calls_and_results(texts.get("messages") or ())[0]):
            self.behaviours.setdefault(("tool", f"call {call[:200]}"), []).append(position)
        if truth := str(texts.get("ground_truth") or "").strip():
            self.pairs[position] = response, truth

    def matches(self, count: int) -> tuple[np.ndarray, AnswerRule | None]:
        """Return 1 where the answer equals the truth, 0 where not, NaN where this is not sure, shape (N,)."""
        found = np.full(count, np.nan)
        chosen = choose_rule(list(self.pairs.values())[:_TRIED])
        if chosen is None:
            return found, None
        for position, (response, truth) in self.pairs.items():
            answer = answer_of(response, chosen.rule)
            match = match_of(answer, truth)
            if match != UNCLEAR or answer is None:  # no answer at all is not right
                found[position] = float(match == EQUAL)
        return found, chosen.rule


def shown_text(response: str) -> str:
    """Return the part of a response whose words are used: of a long one, its begin and its end."""
    half = MAX_CHARS // 2
    return response if len(response) <= MAX_CHARS else f"{response[: half - 1]}\n{response[-half:]}"


def _held_out(
    view: RunView, chosen: GroupRows, corpus: _Corpus, wanted: str, state: PaidFeatures
) -> tuple[np.ndarray | None, PaidFeatures]:
    """Return the held-out score of each sample, and what is said about it."""
    count = len(chosen.rows)
    if wanted and wanted != MATCH:
        held = view.counted(wanted, chosen.rows).astype(float)
        held[~np.isfinite(held)] = np.nan
        return held, replace(state, held_out=wanted, unscored=int(np.isnan(held).sum()))
    held, rule = corpus.matches(count)
    if rule is None or not np.nanstd(held) > 0:
        why = (
            "no ground truth is logged"
            if not corpus.pairs
            else "no rule reads the answers"
            if rule is None
            else "no answers differ in their match"
        )
        return None, replace(
            state,
            remarks=(
                f"There is no held-out score: valid_reward is not logged, and {why}. So features are ranked "
                "by the reward within groups alone: the list also holds what a good reward should pay for.",
            ),
        )
    remark = (
        f"valid_reward is not logged. The match of answer and ground truth stands for it, read by rlpanel's "
        f"rule {rule.key}, not by the trainer."
    )
    return held, replace(
        state, held_out=MATCH, rule=rule.key, unscored=int(np.isnan(held).sum()), remarks=(remark,)
    )


def _tested(
    view: RunView, chosen: GroupRows, corpus: _Corpus, held: np.ndarray | None, state: PaidFeatures
) -> PaidFeatures:
    """Return the named features."""
    usable = np.zeros(len(chosen.rows), bool)
    usable[corpus.position] = True
    if held is not None:
        usable &= np.isfinite(held)
    known = _some(chosen, usable)
    if not known.is_grouped:
        note = "The run has no groups: samples are compared with others of their step."
        state = replace(state, remarks=(*state.remarks, note))
    if len(known.rows) < 2 * MIN_SAMPLES:
        note = f"Only {len(known.rows)} samples can be compared; {2 * MIN_SAMPLES} are needed."
        return replace(state, remarks=(*state.remarks, note), complete=True)
    number = np.cumsum(usable) - 1
    reward = known.centred(view.counted("reward", known.rows).astype(float))
    samples = WithinSamples(
        known.group,
        _clusters(view, known),
        reward,
        None if held is None else known.centred(held[usable]),
    )
    found: list[tuple[float, float, _Tested, int]] = []
    tried = 0
    for tested in _families(view, known, corpus, usable, number, samples):
        tried += tested.tried
        found += tested.candidates()
    least = threshold(tried)
    found = [each for each in found if each[1] >= least]
    found.sort(key=lambda each: (-round(each[0], 6), -each[2].size(each[3])))
    beyond = reward if samples.held is None else reward - samples.held
    texts = [corpus.texts[position] for position in np.flatnonzero(usable).tolist()]
    named: list[PaidFeature] = []
    controls = [] if samples.held is None else [samples.held]
    for _, z, tested, at in found[:_CANDIDATES]:
        if len(named) == MAX_FEATURES:
            break
        mask = np.zeros(len(known.rows), bool)
        mask[tested.samples_of(at)] = True
        column = known.centred(mask.astype(float))
        if named:  # the rest of its effect, beyond the features that are named already
            effect, error, clusters = effect_beyond(np.array([column, *controls]), samples)
            if not effect > 0 or normal_of_t(effect / error, float(clusters - 1)) < least:
                continue
        controls.append(column)
        named.append(_named(view, known, texts, tested, at, z, mask, beyond))
    return replace(state, features=tuple(named), tried=tried, least_z=least, complete=True)


def _clusters(view: RunView, known: GroupRows) -> np.ndarray:
    """Return the cluster of each sample: groups with the same prompt, at whatever step."""
    if not known.is_grouped or not view.snapshot.has_number("prompt_chars"):
        return known.group
    first = np.unique(known.group, return_index=True)[1]
    return np.unique(view.snapshot.prompts(known.rows[first]), return_inverse=True)[1][known.group]


@dataclass(frozen=True)
class _Tested:
    """Features of one kind with their effects."""

    family: FeatureFamily | None
    names: tuple[tuple[str, str], ...]
    feature: np.ndarray
    sample: np.ndarray
    effects: WithinEffects

    @property
    def _enough(self) -> np.ndarray:
        found = self.effects
        return (found.samples >= MIN_TEXTS) & (found.clusters >= MIN_SAMPLES) & np.isfinite(found.excess)

    @property
    def tried(self) -> int:
        """Number of features that enough prompts have."""
        return int(self._enough.sum())

    def candidates(self) -> list[tuple[float, float, _Tested, int]]:
        """Return share, z, and place of each feature that the reward pays for."""
        found = self.effects
        with np.errstate(all="ignore"):
            t = found.excess / found.error
        likely = np.flatnonzero(self._enough & (t >= threshold(1)))
        z = [normal_of_t(float(t[at]), float(found.clusters[at] - 1)) for at in likely.tolist()]
        return [(float(found.share[at]), each, self, at) for at, each in zip(likely.tolist(), z, strict=True)]

    def size(self, at: int) -> int:
        """Return the number of words of a feature."""
        return self.family.size_of(at) if self.family is not None else 0

    def samples_of(self, at: int) -> np.ndarray:
        """Return the samples with a feature."""
        return self.sample[self.feature == at]


def _families(
    view: RunView,
    known: GroupRows,
    corpus: _Corpus,
    usable: np.ndarray,
    number: np.ndarray,
    samples: WithinSamples,
) -> Iterator[_Tested]:
    """Yield all features by kind."""
    position = np.array(corpus.position, np.int64)
    for family in corpus.words.families():
        at = position[family.text]
        inside = usable[at]
        feature, sample = family.feature[inside], number[at[inside]]
        yield _Tested(family, (), feature, sample, within_effects(feature, sample, len(family), samples))
    others = {key: np.array(at, np.int64) for key, at in corpus.behaviours.items()}
    marks = {key: number[at[usable[at]]] for key, at in others.items()} | dict(_logged(view, known))
    marks = {key: at for key, at in marks.items() if 0 < len(at) < len(known.rows)}
    if marks:
        feature = np.repeat(np.arange(len(marks)), [len(at) for at in marks.values()])
        sample = np.concatenate(list(marks.values()))
        yield _Tested(
            None, tuple(marks), feature, sample, within_effects(feature, sample, len(marks), samples)
        )


def _logged(view: RunView, known: GroupRows) -> Iterator[tuple[tuple[str, str], np.ndarray]]:
    """Yield behaviours that columns hold, with the samples that have them."""
    snapshot = view.snapshot
    for name in snapshot.numbers:
        tool = name.startswith(("tool_calls.", "tool_errors."))
        if tool or name == "truncated":
            yield (
                ("tool" if tool else "behaviour", f"`{name}` > 0"),
                _where(snapshot.number(name)[known.rows] > 0),
            )
    for name in ("finish_reason", "status"):
        if name in snapshot.labels:
            codes, values = snapshot.label_codes(name)
            for code in np.unique(codes[known.rows]).tolist():
                if code >= 0:
                    text = f"`{name}` == {quote(values[code])}"
                    yield ("behaviour", text), _where(codes[known.rows] == code)
    length = next((name for name in ("response_tokens", "response_chars") if snapshot.has_number(name)), "")
    if length:
        beyond = known.centred(snapshot.number(length)[known.rows])
        yield ("behaviour", "is longer than the group's mean"), _where(beyond > 0)
        yield ("behaviour", "is shorter than the group's mean"), _where(beyond < 0)


def _where(mask: np.ndarray) -> np.ndarray:
    return np.flatnonzero(mask)


def _named(
    view: RunView,
    known: GroupRows,
    texts: Sequence[str],
    tested: _Tested,
    at: int,
    z: float,
    mask: np.ndarray,
    beyond: np.ndarray,
) -> PaidFeature:
    """Return a feature with its filter and samples."""
    effects, holders = tested.effects, np.flatnonzero(mask)
    order = holders[np.argsort(-beyond[holders], kind="stable")][:MAX_UIDS]
    if tested.family is None:
        kind, name = tested.names[at]
        where = name if name.startswith("`") else ""
    else:
        kind = tested.family.kind
        name, where = _shown(texts[holders[0]], tested.family.key(at), kind)
    return PaidFeature(
        kind=kind,
        name=name,
        samples=int(effects.samples[at]),
        prompts=int(effects.clusters[at]),
        reward_gap=float(effects.reward_gap[at]),
        held_gap=float(effects.held_gap[at]),
        excess=float(effects.excess[at]),
        error=float(effects.error[at]),
        z=z,
        share=float(effects.share[at]),
        where=where,
        uids=tuple(view.snapshot.uids(known.rows[order])),
    )


def _shown(text: str, key: tuple[str, ...], kind: str) -> tuple[str, str]:
    """Return a feature as a response has it, and the filter for its samples; empty if it cannot be found."""
    place = place_of(text, key)
    if place is None:
        return " ".join(key), ""
    start, end = place
    if kind == "opening":
        return text[start:end], f"response startswith {quote(text[:end])}"
    return text[start:end], f"response contains {quote(text[start:end])}"
