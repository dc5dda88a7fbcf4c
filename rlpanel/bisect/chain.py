"""Finds the chain of changes that leads to a bad step.

1. The onset of the target's change at or before the bad step.
2. All changes before it: of streams, and of their slices by rank and label, corrected for their number.
3. Each change's share of the target's: how much of it vanishes if the samples that carry it are left out.
4. The first of those that explain it leads, and what it explains in turn follows in the order of time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rlpanel.analysis.step_texts import RunTexts
from rlpanel.analysis.step_windows import curve_parts
from rlpanel.bisect.bisection import FEW_STEPS, STAGES, Bisection, Sentence
from rlpanel.bisect.carried_changes import BisectWindow
from rlpanel.bisect.chain_order import ChainOrder
from rlpanel.bisect.run_changes import RunChange, changes, dated_later, holds, least_z, phrase_streams, slices
from rlpanel.errors import SettingError
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.streams import MIN_SPREADS, PRIMARY, Stream, streams_of, texts_streams
from rlpanel.metrics.engine.column_info import describe
from rlpanel.settings import FindingSettings
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView

#: Steps before the bad one that are looked at, and those after it that show its level.
_HISTORY, _AHEAD = 72, 8
#: How long before the bad step its change may begin.
_CAUSE = 40
_MIN_STEPS = 4
#: Most changes of the target, of which the first that is explained is the answer.
_CANDIDATES = 3
#: Progress at which the changes of the target are known.
_BEGUN = 0.2
#: Steps at which the change of a number may begin that is known to be bad at a step.
_IN_QUESTION = 8


@dataclass(frozen=True)
class BisectProgress:
    """Progress of a bisection.

    Attributes
    ----------
    done : float
        From 0 to 1.
    text : str
    """

    done: float
    text: str


def bisect_run(
    index: RunIndex | None,
    view: RunView,
    target: str = "reward",
    bad: int | None = None,
    findings: Sequence[Finding] = (),
    now: float = 0.0,
) -> Iterator[BisectProgress | Bisection]:
    """Yield the progress, and at last the chain of changes that leads to a bad step.

    Parameters
    ----------
    index : RunIndex, optional
        Through which texts are read; without it, texts are not compared.
    view : RunView
    target : str
        The number that went wrong: a number column, or a step metric that is a mean over samples or tokens.
    bad : int, optional
        The bad step; by default the onset of the worst finding on the number, or its largest change.
    findings : sequence of Finding
        What the rules found.
    now : float
        Seconds since the epoch: whether the last step is complete.

    Raises
    ------
    SettingError
        If the run does not have the step or the number.
    """
    context = RuleContext(view, FindingSettings.from_environment(), now)
    size = len(context.steps)
    if size:
        curve_parts(view, target, context.rows[:1])  # raises if the number cannot be split
    if bad is not None and bad not in set(context.steps.tolist()):
        raise SettingError(f"{view.snapshot.name} has no complete step {bad}")
    if size < _MIN_STEPS:
        yield Bisection(target, bad, "short", steps=size)
        return
    yield BisectProgress(_BEGUN / 4, STAGES[0])
    streams = list(streams_of(context))
    goal = _goal(context, streams, target)
    wanted = _bad_step(findings, target) if bad is None else bad
    candidates = _target_changes(context, goal, wanted)
    if not candidates:
        yield _no_change(context, goal, target, wanted)
        return
    alone: Bisection | None = None
    texts, since = RunTexts(), -1
    for number, found in enumerate(candidates):  # what nothing explains may be chance, or dated too early
        if found.at < since:  # texts know what is new in a step only by the steps that were read before it
            texts = RunTexts()
        answer, since = None, found.at
        for answer in _chain_to(found, index, view, context, streams, target, texts):
            if isinstance(answer, BisectProgress):
                done = _BEGUN + (1 - _BEGUN) * (number + answer.done) / len(candidates)
                yield replace(answer, done=done)
        assert isinstance(answer, Bisection)
        answer = replace(answer, bad=int(context.steps[found.at]) if wanted is None else wanted)
        if answer.state == "chain":
            yield answer
            return
        alone = alone or answer
    assert alone is not None
    yield alone


def _chain_to(
    found: RunChange,
    index: RunIndex | None,
    view: RunView,
    context: RuleContext,
    numbers: Sequence[Stream],
    target: str,
    texts: RunTexts,
) -> Iterator[BisectProgress | Bisection]:
    """Yield the progress, and at last the chain of changes that leads to a change of the target.

    Texts are read of the steps that were not read before.
    """
    streams, size = list(numbers), len(context.steps)
    stop = min(size, found.at + _AHEAD)
    first = max(0, found.at - _HISTORY)
    yield BisectProgress(0.0, STAGES[1])
    if index is not None:
        texts.read(index, view.snapshot, context.steps[first:stop])
        context = replace(context, texts=texts)
        streams += [each for each in texts_streams(context) if not each.fades]
        streams += phrase_streams(texts, context.steps, first, stop)
    yield BisectProgress(0.4, STAGES[2])
    streams += slices(context, first, stop, target)
    yield BisectProgress(0.7, STAGES[3])
    inside = (context.row_steps >= first) & (context.row_steps < stop)
    parts = curve_parts(view, target, context.rows[inside])
    y = np.full(int(inside.sum()), np.nan)
    at = np.searchsorted(context.rows[inside], parts.rows)
    with np.errstate(all="ignore"):
        y[at] = np.where(parts.weights > 0, parts.parts / parts.weights, np.nan)
    window = BisectWindow(context, first, stop, target, y)
    if found.stream.place:
        window.y, window.other_y = np.where(window.inside(found.stream.place), y, np.nan), y
    elif places := window.where(found):
        inside_places = np.any([window.inside(each) for each in places], axis=0)
        window.other_y = np.where(inside_places, y, np.nan)
    chain = ChainOrder(window, found, streams, first, stop)
    yield chain.result()


def _goal(context: RuleContext, streams: Sequence[Stream], target: str) -> Stream:
    """Return the stream of the target."""
    for each in streams:
        if each.signal is not None and each.signal.column == target and not each.place:
            return each
    values = context.series(target)
    if values is None:
        raise SettingError(f"{context.snapshot.name} has no value of {target!r} in its complete steps")
    known = values[np.isfinite(values)]
    spread = float(np.std(np.diff(known)) / np.sqrt(2)) if len(known) > 2 else 0.0
    return Stream(describe(target).label, values, "level", spread * MIN_SPREADS, 0.0, PRIMARY, target)


def _bad_step(findings: Sequence[Finding], target: str) -> int | None:
    """Return the onset of the first finding on a number; findings are in the order of their urgency."""
    every = [each for lead in findings for each in (lead, *lead.symptoms)]
    return next((each.onset for each in every if each.column == target and each.onset is not None), None)


def _target_changes(context: RuleContext, goal: Stream, bad: int | None) -> list[RunChange]:
    """Return the target's changes at or before the bad step, the one to be explained first.

    Without a bad step it is the largest one. Further ones are tried if nothing explains the first: the same
    number dated right before the bad step, and the largest changes of other ranks and labels.
    """
    size = len(context.steps)
    at = size - 1 if bad is None else int(np.searchsorted(context.steps, bad))
    stop = size if bad is None else min(size, at + _AHEAD)
    first = 0 if bad is None else max(0, at - _HISTORY)
    best: RunChange | None = None
    others: list[RunChange] = []
    for part in ([goal], list(slices(context, first, stop, goal.column, 1))):
        # A step that somebody calls bad is no coincidence: few steps before it are in question.
        if bad is not None:
            part = [replace(each, least=each.least / 2) for each in part]
        lowest = first + 1 if bad is None else max(first + 1, at - _CAUSE)
        every = changes(part, first, stop, lowest, None if bad is None else _IN_QUESTION)
        every = [each for each in every if each.at <= at + 2 and (bad is None or holds(each, at))]
        found = max(every, key=lambda each: each.z, default=None)
        # A slide of the whole run is dated roughly: a sudden change of a rank or label shows more.
        if found is not None and (best is None or (found.sudden and found.z > best.z)):
            best = found
        if best is not None and best.sudden:
            break
        others = every
    if best is None:
        return []
    late = None if bad is None else dated_later(best, at - _IN_QUESTION, at)
    others = sorted((each for each in others if each.stream is not best.stream), key=lambda each: -each.z)
    return [best, *([] if late is None else [late]), *(others if best.stream.place else [])][:_CANDIDATES]


def _no_change(context: RuleContext, goal: Stream, target: str, bad: int | None) -> Bisection:
    """Return that there is no change, and the smallest one that would have been found."""
    values = goal.values[np.isfinite(goal.values)]
    size, least = len(values), float("nan")
    unknown = []
    if size >= _MIN_STEPS:
        noise = float(np.median(np.abs(np.diff(values))) / 0.954)
        later, earlier = min(4, size // 2), min(20, size - min(4, size // 2))
        limit = float(least_z(np.array([goal.weight]), size)[0])
        least = limit * noise * float(np.sqrt(1 / later + 1 / earlier))
    if size < 16:
        unknown.append(Sentence(FEW_STEPS, {"steps": size}))
    return Bisection(
        target,
        bad,
        "noise",
        unknown=tuple(unknown),
        tests=1,
        steps=len(context.steps),
        samples=len(context.rows),
        least=least,
    )
