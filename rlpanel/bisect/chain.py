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

from rlpanel.analysis.change_causes import consequences
from rlpanel.analysis.curve_parts import curve_parts
from rlpanel.analysis.reward_split import PARTS
from rlpanel.analysis.step_texts import RunTexts
from rlpanel.bisect.bisection import Bisection, Link
from rlpanel.bisect.carried_changes import SETTINGS, BisectWindow, places_filter, places_text
from rlpanel.bisect.explained_share import UNKNOWN, ExplainedShare
from rlpanel.bisect.phrase_changes import phrase_streams
from rlpanel.bisect.run_changes import RunChange, changes, least_z, matrix, slices
from rlpanel.bisect.undoing_samples import SampleSet, smallest_removal
from rlpanel.errors import SettingError
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.streams import LEAST_SPREADS, PRIMARY, Stream, streams_of, texts_streams
from rlpanel.metrics.engine.column_info import describe
from rlpanel.settings import FindingSettings
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.filter_syntax import quote
from rlpanel.store.snapshot.run_view import RunView

#: Steps before the bad one that are looked at, those after it that show its level, and how long before the
#: onset a cause may begin.
_HISTORY, _AHEAD, _CAUSE = 72, 8, 40
#: Steps by which two onsets may differ while they count as simultaneous.
_TOGETHER = 1
#: A change explains the target if it explains this share; of the best one, the first cause explains this part.
_EXPLAINS, _OF_BEST = 0.2, 0.5
#: Correlation of two numbers of the same samples that are named once; most links and changes beside them.
_SAME, _MOST_LINKS, _MOST_ALSO, _MOST_UNKNOWN = 0.8, 5, 12, 4
#: Share of the samples that carry a change of all: then a setting of the trainer may be its cause.
_EVERYWHERE = 0.6
#: Steps in which a setting may lead to a change of all samples.
_SETTING_STEPS = 10
#: Tabs of a sample that show texts which it is given, and the angle of a share that goes from 10 % to 90 %.
_GIVEN_TABS, _ALL_ANGLE = ("reference", "conversation"), 0.9
_FEWEST_STEPS = 4
#: The tier of changes that are parts of the target's: they say in which part it fell, and not why.
_OF_TARGET = 4
#: The tier of what the policy does: lengths, KL, entropy.
_POLICY = 3
#: Steps at which the change of a number may begin that is known to be bad at a step.
_IN_QUESTION = 8
#: Roles of changes whose curves are shown.
_ON_CURVES = ("link", "target")
#: Numbers of the step that follow from the samples' rewards.
_FOLLOWS = ("groups of equal rewards", "correlation of length and reward")


@dataclass(frozen=True)
class BisectProgress:
    """How far a bisection is.

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
    if size < _FEWEST_STEPS:
        yield Bisection(target, bad, "short", steps=size)
        return
    yield BisectProgress(0.05, "comparing the steps")
    streams = list(streams_of(context))
    goal = _goal(context, streams, target)
    wanted = _bad_step(findings, target) if bad is None else bad
    found = _target_change(context, goal, wanted)
    if found is None:
        yield _no_change(context, goal, target, wanted)
        return
    stop = min(size, found.at + _AHEAD)
    first = max(0, found.at - _HISTORY)
    yield BisectProgress(0.25, "reading texts")
    if index is not None:
        texts = RunTexts()
        texts.read(index, view.snapshot, context.steps[first:stop])
        context = replace(context, texts=texts)
        streams += [each for each in texts_streams(context) if not each.fades]
        streams += phrase_streams(texts, context.steps, first, stop)
    yield BisectProgress(0.5, "comparing ranks and labels")
    streams += slices(context, first, stop, target)
    yield BisectProgress(0.75, "ordering the changes")
    inside = (context.row_steps >= first) & (context.row_steps < stop)
    parts = curve_parts(view, target, context.rows[inside])
    y = np.full(int(inside.sum()), np.nan)
    at = np.searchsorted(context.rows[inside], parts.rows)
    with np.errstate(all="ignore"):
        y[at] = np.where(parts.weights > 0, parts.parts / parts.weights, np.nan)
    window = BisectWindow(context, first, stop, target, y)
    if found.stream.place:
        window.y, window.every_y = np.where(window.inside(found.stream.place), y, np.nan), y
    chain = _Chain(window, found, streams, first, stop)
    yield replace(chain.result(), bad=int(context.steps[found.at]) if wanted is None else wanted)


def _goal(context: RuleContext, streams: Sequence[Stream], target: str) -> Stream:
    """Return the stream of the target."""
    for each in streams:
        if each.signal is not None and each.signal.name == target and not each.place:
            return each
    values = context.series(target)
    if values is None:
        raise SettingError(f"{context.snapshot.name} has no value of {target!r} in its complete steps")
    known = values[np.isfinite(values)]
    spread = float(np.std(np.diff(known)) / np.sqrt(2)) if len(known) > 2 else 0.0
    return Stream(describe(target).label, values, "level", spread * LEAST_SPREADS, 0.0, PRIMARY, target)


def _bad_step(findings: Sequence[Finding], target: str) -> int | None:
    """Return the onset of the first finding on a number; findings are in the order of their urgency."""
    every = [each for lead in findings for each in (lead, *lead.symptoms)]
    return next((each.onset for each in every if each.column == target and each.onset is not None), None)


def _target_change(context: RuleContext, goal: Stream, bad: int | None) -> RunChange | None:
    """Return the target's change at or before the bad step; the largest one without a bad step."""
    size = len(context.steps)
    at = size - 1 if bad is None else int(np.searchsorted(context.steps, bad))
    stop = size if bad is None else min(size, at + _AHEAD)
    first = 0 if bad is None else max(0, at - _HISTORY)
    for part in ([goal], list(slices(context, first, stop, goal.column, 1))):
        # A step that somebody calls bad is no coincidence: few steps before it are in question.
        if bad is not None:
            part = [replace(each, least=each.least / 2) for each in part]
        lowest = first + 1 if bad is None else max(first + 1, at - _CAUSE)
        every = changes(part, first, stop, lowest, None if bad is None else _IN_QUESTION)
        every = [each for each in every if each.at <= at + 2 and (bad is None or _holds(each, at))]
        if every:
            return max(every, key=lambda each: each.z)
    return None


def _holds(change: RunChange, at: int) -> bool:
    """Return True if a change still holds around a position: half of it is left."""
    values = change.stream.scaled[max(change.at, at - 2) : at + 3]
    known = values[np.isfinite(values)]
    return (
        bool(len(known)) and (float(known.mean()) - change.before) / change.size >= 0.5
        if change.size
        else False
    )


def _is_visible(change: RunChange) -> bool:
    """Return True if the usual windows before and after a change show half of it, too."""
    values = change.stream.scaled
    old, new = values[max(change.at - 20, 0) : change.at], values[change.at : change.at + 8]
    return bool(change.size) and (_mean(new) - _mean(old)) / change.size >= 0.5


def _no_change(context: RuleContext, goal: Stream, target: str, bad: int | None) -> Bisection:
    """Return that there is no change, and the smallest one that would have been found."""
    values = goal.values[np.isfinite(goal.values)]
    size, least = len(values), float("nan")
    unknown = []
    if size >= _FEWEST_STEPS:
        noise = float(np.median(np.abs(np.diff(values))) / 0.954)
        later, earlier = min(4, size // 2), min(20, size - min(4, size // 2))
        limit = float(least_z(np.array([goal.weight]), size)[0])
        least = limit * noise * float(np.sqrt(1 / later + 1 / earlier))
    if size < 16:
        unknown.append(f"The run has {size:,} complete steps: only large changes stand out from their noise.")
    return Bisection(
        target, bad, "noise", unknown=tuple(unknown), tests=1, steps=len(context.steps), least=least
    )


class _Chain:
    """Orders the changes before the target's."""

    def __init__(
        self, window: BisectWindow, goal: RunChange, streams: Sequence[Stream], first: int, stop: int
    ) -> None:
        self._window, self._goal = window, goal
        self._context = window.context
        scalars = {f"{name} of the trainer": name for name in window.context.snapshot.scalars.names}
        self._scalars = scalars
        same = consequences(window.context.view, window.target)
        same = {name for name in same if not name.startswith(PARTS)}
        tested = [
            each
            for each in streams
            if each.name != goal.stream.name
            and each.name not in _FOLLOWS
            and (each.column not in same or bool(each.place))
            and not (each.signal is None and each.column)
        ]
        self._tests = len(tested)
        # The first steps of the window have little to be compared with, unless the run itself is short.
        lowest = max(first + min(12, max(2, (goal.at - first) // 2)), goal.at - _CAUSE)
        found = [
            each
            for each in changes(tested, first, stop, lowest)
            if each.at <= goal.at + _TOGETHER and _is_visible(each) and _holds(each, goal.at)
        ]
        self._changes = sorted(found, key=lambda each: (each.at, -each.z))
        self._share = {id(each): window.explained(each, None, goal.at) for each in self._changes}

    def result(self) -> Bisection:
        """Return the chain."""
        chosen = self._links()
        settings = self._given(chosen)
        chain = [*settings, *chosen]
        target = self._link(self._goal, UNKNOWN, "target")
        links = []
        for each, after in zip(chain, [*chain, None][1:], strict=True):
            effect = self._window.explained(each, after, self._goal.at)
            links.append(replace(self._link(each, self._share[id(each)], "link"), of_next=effect.share))
        also = self._also(chain)
        window = self._window
        return Bisection(
            window.target,
            None,
            "chain" if links else "alone",
            (*links, target),
            also,
            self._removal(chain),
            tuple(self._unknown(chain, links)),
            self._tests,
            window.stop - window.first,
            len(window.batch),
            all_steps=tuple(self._context.steps[window.first : window.stop].tolist()),
        )

    # -- the links -------------------------------------------------------------------------------

    def _links(self) -> list[RunChange]:
        """Return the first cause that samples carry, and what it explains, in the order of time."""
        clear = [each for each in self._changes if self._share[id(each)].is_clear]
        parts = [each for each in clear if self._tier(each) == _OF_TARGET]
        causes = [each for each in clear if self._tier(each) != _OF_TARGET]
        best = max((self._share[id(each)].share for each in causes), default=0.0)
        strong = [each for each in causes if self._share[id(each)].share >= _OF_BEST * min(best, 1.0)]
        if not strong:
            return [max(parts, key=lambda each: self._share[id(each)].share)] if parts else []
        earliest = min(each.at for each in strong)
        pool = [each for each in strong if each.at <= earliest + _TOGETHER]
        root = min(pool, key=self._order)
        rest = [each for each in causes if each is not root and each.at >= root.at]
        chosen = [root]
        for each in sorted(rest, key=lambda each: -self._share[id(each)].share):
            if len(chosen) >= _MOST_LINKS or any(self._is_same(each, other) for other in chosen):
                continue
            if self._window.explained(root, each, self._goal.at).is_clear:
                chosen.append(each)
        return sorted(chosen, key=lambda each: (each is not root, each.at, self._tier(each)))

    def _given(self, chosen: Sequence[RunChange]) -> list[RunChange]:
        """Return what changed for all samples before what all samples do: only its time speaks for it.

        That is a setting of the trainer, or a text that samples are given, such as the end of their prompts.
        """
        begin = chosen[0].at if chosen else self._goal.at
        if chosen and self._tier(chosen[0]) < _POLICY:
            return []
        if chosen and self._tier(chosen[0]) == _POLICY:
            _, after = self._window.bounds(chosen[0].at)
            carried = self._window.carriers(chosen[0]).sum() / max(int(after.sum()), 1)
            if carried < _EVERYWHERE:
                return []
        found = [
            each
            for each in self._changes
            if begin - _SETTING_STEPS <= each.at <= begin
            and (self._is_setting(each) or self._is_given_to_all(each))
        ]
        return [max(found, key=lambda each: (self._is_setting(each), each.size > 0, each.z))] if found else []

    def _is_setting(self, change: RunChange) -> bool:
        return bool(SETTINGS.search(self._scalars.get(change.stream.name, "")))

    def _is_given_to_all(self, change: RunChange) -> bool:
        """Return True for a text of prompts or tools that changed in all samples, so that none is left out."""
        stream, share = change.stream, self._share[id(change)]
        if not stream.text or stream.tab not in _GIVEN_TABS or share.by == "mix":
            return False
        return abs(change.size) >= _ALL_ANGLE if stream.scale == "share" else True

    def _order(self, change: RunChange) -> tuple[float, ...]:
        """Sort key of changes that begin together: what is given before what follows, then the larger share."""
        return (
            self._tier(change),
            -round(self._share[id(change)].share, 1),
            bool(change.stream.place),
            -change.z,
        )

    def _tier(self, change: RunChange) -> int:
        stream = change.stream
        if stream.signal is None and stream.place:
            return 0  # the mix of a label
        if stream.column.startswith(PARTS) or stream.column == self._window.target:
            return _OF_TARGET
        if stream.column.startswith(
            ("response", "kl", "log_ratio", "surprisal", "entropy", "truncated", "ended")
        ):
            return _POLICY
        return 1 if stream.column.startswith(("prompt", "tool", "policy", "lag")) or stream.text else 2

    def _is_same(self, change: RunChange, other: RunChange) -> bool:
        """Return True if two changes are of the same column, or of numbers that are nearly the same."""
        if change.stream.column and change.stream.column == other.stream.column:
            return True
        x, y = self._window.values(change), self._window.values(other)
        if x is None or y is None:
            return False
        if change.stream.place.dimension and change.stream.place.dimension == other.stream.place.dimension:
            return True
        _, after = self._window.bounds(change.at, other.at)
        known = after & np.isfinite(x) & np.isfinite(y)
        if known.sum() < 8 or np.ptp(x[known]) == 0 or np.ptp(y[known]) == 0:
            return False
        return abs(float(np.corrcoef(x[known], y[known])[0, 1])) >= _SAME

    # -- beside the chain --------------------------------------------------------------------------

    def _also(self, chain: Sequence[RunChange]) -> tuple[Link, ...]:
        """Return what changed too, each number once: without an effect first."""
        found: list[Link] = []
        named = {(each.stream.column or each.stream.name) for each in chain}
        for each in sorted(self._changes, key=lambda each: -each.z):
            key = each.stream.column or each.stream.name
            if each in chain or key in named or self._tier(each) == _OF_TARGET or _is_same_again(key):
                continue
            named.add(key)
            share = self._share[id(each)]
            if share.is_clear or share.share >= _EXPLAINS:
                role = "follows"
            elif np.isnan(share.share) or share.by == "slope":
                role = "unknown"
            else:
                role = "nothing"
            found.append(self._link(each, share, role))
        unknown = sorted((each for each in found if each.role == "unknown"), key=lambda link: -link.z)
        found = [each for each in found if each not in unknown[_MOST_UNKNOWN:]]
        found.sort(key=lambda link: (("nothing", "unknown", "follows").index(link.role), link.step))
        return tuple(found[:_MOST_ALSO])

    def _link(self, change: RunChange, share: ExplainedShare, role: str) -> Link:
        window, stream, steps = self._window, change.stream, self._context.steps
        places = window.where(change) if role in ("link", "target") else ()
        values = window.values(change)
        if values is not None and stream.signal is not None:
            low, high = window.bounds(change.at)
            before, after = (_mean(values[mask]) for mask in (low, high))
        else:
            before = _mean(stream.values[max(window.first, change.at - 20) : change.at])
            after = _mean(stream.values[change.at : min(change.at + 8, window.stop)])
        carried = window.carriers(change)
        rows = window.batch.rows[carried] if role == "link" and values is not None else np.empty(0, int)
        name = self._name(change)
        return Link(
            step=int(steps[change.at]),
            name=name,
            column=stream.column,
            place=places_text(places),
            where=places_filter(places) or stream.where,
            before=before,
            after=after,
            error=abs(after - before) / change.z if change.z > 0 else float("nan"),
            unit="%" if stream.scale == "share" else describe(stream.column).unit if stream.column else "",
            z=change.z,
            share=share.share,
            share_error=share.error,
            of_next=float("nan"),
            within=share.within,
            by=share.by or "time",
            uids=tuple(self._context.snapshot.uids(rows[:20])) if len(rows) else (),
            count=len(rows),
            role=role,
            sudden=change.sudden,
            curve=tuple(stream.values[window.first : window.stop].tolist()) if role in _ON_CURVES else (),
        )

    def _name(self, change: RunChange) -> str:
        stream = change.stream
        if stream.signal is not None and stream.place:
            return describe(stream.column).label
        return stream.name

    def _removal(self, chain: Sequence[RunChange]) -> object:
        window = self._window
        before, after = window.bounds(self._goal.at)
        sets = [SampleSet(each.text, each.where, window.inside(each)) for each in window.places if each]
        for change in chain:
            x = window.values(change)
            if (
                x is None
                or (change.stream.signal is None and not change.stream.text)
                or self._tier(change) == _OF_TARGET
            ):
                continue
            old = x[before & np.isfinite(x)]
            if not len(old):
                continue
            high = change.size > 0
            known = np.unique(x[np.isfinite(x)])
            flag = len(known) <= 2
            limit = float(known.mean()) if flag else float(np.quantile(old, 0.95 if high else 0.05))
            mask = np.isfinite(x) & ((x > limit) if high else (x < limit))
            name = self._name(change)
            where = ""
            if change.stream.column and change.stream.signal is not None and not change.stream.text:
                column = change.stream.column
                where = f"`{column}` {'>' if high else '<'} {limit:.6g}" if "missing" not in name else ""
                where = where.replace(quote(""), "")
            sets.append(SampleSet(f"{name} {'>' if high else '<'} {limit:.4g}", where, mask))
        return smallest_removal(window.y, before, after, window.batch.rows, sets)

    def _unknown(self, chain: Sequence[RunChange], links: Sequence[Link]) -> Iterator[str]:
        """Yield what the data cannot show."""
        context, steps = self._context, self._context.steps
        for one, two in zip(chain, chain[1:], strict=False):
            if abs(two.at - one.at) <= _TOGETHER:
                yield (
                    f"The data do not show whether {self._name(one)} or {self._name(two)} came first: both "
                    f"begin within a step of {steps[one.at]:,}."
                )
        if any(np.isnan(link.share) for link in links):
            yield "A setting of the trainer holds for all samples of a step: only the order of time speaks for it."
        elif links and links[0].share < 0.8:
            yield f"{max(0.0, 1 - links[0].share):.0%} of the change is not explained by the first link."
        if not links:
            yield "The cause may lie outside of what is logged, such as weights, code or data."
        else:
            yield "What caused the first link lies outside of what is logged."
        if not context.view.grouped:
            yield "Samples have no group: samples of one prompt count as independent, and errors may be too small."
        elif links and all(np.isnan(link.within) for link in links):
            yield "No group has samples with and without these changes: prompts may differ, too."
        before = self._goal.at - self._window.first
        if before < 12:
            yield f"There are {before:,} steps before the change: small changes before it cannot be seen."
        restarts = [each for each in context.snapshot.restarts if abs(each - int(steps[self._goal.at])) <= 8]
        for each in restarts:
            yield f"The run was resumed at step {each:,}: the data do not separate its effects from others then."
        if context.texts is None:
            yield "Texts were not read."


def _is_same_again(name: str) -> bool:
    """Return True for a trainer's scalar that only repeats rewards or lengths of the samples."""
    return name.endswith("of the trainer") and name.startswith(
        ("reward", "frac_reward", "completions/", "time")
    )


def _mean(values: np.ndarray) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")
