"""Orders the changes before a bad step into a chain, makes its links, and says what stays unknown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from rlpanel.analysis.change_causes import consequences
from rlpanel.analysis.reward_parts import PARTS
from rlpanel.bisect.bisection import (
    BEFORE_FIRST,
    BY_TIME,
    FEW_BEFORE,
    NO_GROUP,
    NO_TEXTS,
    NOT_WITHIN,
    ONE_GROUP,
    OUTSIDE,
    RESUMED,
    TOGETHER,
    UNEXPLAINED,
    Bisection,
    Link,
    Removal,
    SampleSet,
    Sentence,
    smallest_removal,
)
from rlpanel.bisect.carried_changes import (
    SETTINGS,
    UNKNOWN,
    BisectWindow,
    ExplainedShare,
    places_filter,
    places_text,
)
from rlpanel.bisect.run_changes import RunChange, changes, holds, is_visible, mean_of
from rlpanel.findings.engine.streams import TRAINERS, Stream
from rlpanel.metrics.engine.column_info import describe

# -- change links --------------------------------------------------------------------------------------
# Makes the links of a chain from changes of streams, and the sets of samples that carry them.


#: Roles of changes whose curves are shown.
_ON_CURVES = ("link", "target")
#: Quantile of the samples before beyond which a sample has the changed number.
_USUAL = 0.95


def name_of(change: RunChange) -> str:
    """Return the name of the number that changed, without its place."""
    stream = change.stream
    if stream.signal is not None and stream.place:
        return describe(stream.column).label
    return stream.name


def link_of(window: BisectWindow, change: RunChange, share: ExplainedShare, role: str) -> Link:
    """Return a change as a link of the chain, or beside it.

    Parameters
    ----------
    window : BisectWindow
    change : RunChange
    share : ExplainedShare
        What it explains of the target's change.
    role : str
        See `Link`.
    """
    stream, steps = change.stream, window.context.steps
    places = window.where(change) if role in ("link", "target") else ()
    values = window.values(change)
    if values is not None and stream.signal is not None:
        low, high = window.bounds(change.at)
        before, after = (mean_of(values[mask]) for mask in (low, high))
    else:
        before = mean_of(stream.values[max(window.first, change.at - 20) : change.at])
        after = mean_of(stream.values[change.at : min(change.at + 8, window.stop)])
    carried = window.carriers(change)
    rows = window.batch.rows[carried] if role == "link" and values is not None else np.empty(0, int)
    return Link(
        step=int(steps[change.at]),
        name=name_of(change),
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
        uids=tuple(window.context.snapshot.uids(rows[:20])) if len(rows) else (),
        count=len(rows),
        role=role,
        sudden=change.sudden,
        curve=tuple(stream.values[window.first : window.stop].tolist()) if role in _ON_CURVES else (),
    )


def sets_of(window: BisectWindow, chain: Sequence[RunChange], before: np.ndarray) -> Iterator[SampleSet]:
    """Yield the sets of samples that may be removed: of each rank and label, and of each change.

    Parameters
    ----------
    window : BisectWindow
    chain : sequence of RunChange
    before : ndarray of bool, shape (N,)
        The samples before the target's change.
    """
    for place in window.places:
        if place:
            yield SampleSet(place.text, place.where, window.inside(place))
    for change in chain:
        x = window.values(change)
        if x is None or (change.stream.signal is None and not change.stream.text):
            continue
        old = x[before & np.isfinite(x)]
        if not len(old):
            continue
        high = change.size > 0
        known = np.unique(x[np.isfinite(x)])
        flag = len(known) <= 2
        limit = float(known.mean()) if flag else float(np.quantile(old, _USUAL if high else 1 - _USUAL))
        mask = np.isfinite(x) & ((x > limit) if high else (x < limit))
        # The filter language knows columns; other numbers of samples are named by their uids.
        signal = change.stream.signal
        column = signal.column if signal is not None and not change.stream.text else ""
        is_column = column in window.context.snapshot.numbers and "`" not in column
        sign = ">" if high else "<"
        where = f"`{column}` {sign} {limit:.6g}" if is_column else ""
        yield SampleSet(f"{name_of(change)} {sign} {limit:.4g}", where, mask)


# -- chain limits --------------------------------------------------------------------------------------
# Limits of a bisection: what the data of a run cannot show about its chain, one sentence each.


#: Steps by which two onsets may differ while they count as simultaneous.
SIMULTANEOUS = 1
#: Steps from the onset in which a restart counts.
_NEAR_RESTART = 8
#: A first link that explains less than this share leaves a part open; fewer steps before show little.
_MAX_EXPLAINED, _FEW_BEFORE = 0.8, 12


def limits_of(
    window: BisectWindow, goal: RunChange, chain: Sequence[RunChange], links: Sequence[Link]
) -> Iterator[Sentence]:
    """Yield what the data cannot show.

    Parameters
    ----------
    window : BisectWindow
    goal : RunChange
        The target's change.
    chain : sequence of RunChange
        What leads to it, the first cause first.
    links : sequence of Link
        The same as links.
    """
    context, steps = window.context, window.context.steps
    for one, two in pairwise(chain):
        if abs(two.at - one.at) <= SIMULTANEOUS:
            yield Sentence(TOGETHER, {"one": name_of(one), "two": name_of(two), "step": int(steps[one.at])})
    yield from (Sentence(BY_TIME, {"name": link.name}) for link in links if link.by == "time")
    if links and links[0].share < _MAX_EXPLAINED:
        yield Sentence(UNEXPLAINED, {"share": max(0.0, 1 - links[0].share)})
    yield Sentence(BEFORE_FIRST if links else OUTSIDE)
    if not context.view.grouped:
        yield Sentence(NO_GROUP)
    elif _has_one_group(window):
        yield Sentence(ONE_GROUP)
    elif links and all(np.isnan(link.within) for link in links):
        yield Sentence(NOT_WITHIN)
    before = goal.at - window.first
    if before < _FEW_BEFORE:
        yield Sentence(FEW_BEFORE, {"steps": before})
    for each in context.snapshot.restarts:
        if abs(each - int(steps[goal.at])) <= _NEAR_RESTART:
            yield Sentence(RESUMED, {"step": each})
    if context.texts is None:
        yield Sentence(NO_TEXTS)


def _has_one_group(window: BisectWindow) -> bool:
    """Return True if no step that was looked at has a second group."""
    pairs = np.unique(np.stack([window.position, window.batch.group]), axis=1)
    return len(np.unique(pairs[0])) == pairs.shape[1]


# -- chain order ---------------------------------------------------------------------------------------
# Orders the changes before a bad step: the first cause, what it explains, and what explains nothing.


#: How long before the onset a cause may begin.
_CAUSE = 40
#: Share of the target that a change explains at least, and the part of the best share of the first cause.
_EXPLAINS, _OF_BEST = 0.2, 0.5
#: Correlation of two numbers of the same samples that are named once; most links and changes beside them.
_SAME, _MAX_LINKS, _MAX_ALSO, _MAX_UNKNOWN = 0.8, 5, 12, 4
#: Share of the samples that carry a change of all: then a setting of the trainer may be its cause.
_EVERYWHERE = 0.6
#: Steps after the onset of a slide in which a sudden change may have come first.
_SLIDE_STEPS = 5
#: Steps in which a setting may lead to a change of all samples.
_SETTING_STEPS = 10
#: Tabs of a sample that show texts which it is given, and the angle of a share that goes from 10 % to 90 %.
_GIVEN_TABS, _ALL_ANGLE = ("reference", "conversation"), 0.9
#: The tier of changes that are parts of the target's: they say in which part it fell, and not why.
_OF_TARGET = 4
#: The tier of what the policy does: lengths, KL, entropy.
_POLICY = 3
#: Numbers of the step that follow from the samples' rewards.
_FOLLOWS = ("groups of equal rewards", "correlation of length and reward")


class ChainOrder:
    """Orders the changes before the target's."""

    def __init__(
        self, window: BisectWindow, goal: RunChange, streams: Sequence[Stream], first: int, stop: int
    ) -> None:
        self._window, self._goal = window, goal
        self._context = window.context
        scalars = {f"{name}{TRAINERS}": name for name in window.context.snapshot.scalars.names}
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
            if each.at <= goal.at + SIMULTANEOUS and is_visible(each) and holds(each, goal.at)
        ]
        self._changes = sorted(found, key=lambda each: (each.at, -each.z))
        self._share = {id(each): window.explained(each, None, goal.at) for each in self._changes}

    def result(self) -> Bisection:
        """Return the chain."""
        chosen = self._links()
        settings = self._given(chosen)
        chain = [*settings, *chosen]
        target = link_of(self._window, self._goal, UNKNOWN, "target")
        links = []
        for each, after in zip(chain, [*chain, None][1:], strict=True):
            effect = self._window.explained(each, after, self._goal.at)
            links.append(
                replace(link_of(self._window, each, self._share[id(each)], "link"), of_next=effect.share)
            )
        also = self._also(chain)
        window = self._window
        return Bisection(
            window.target,
            None,
            "chain" if links else "alone",
            (*links, target),
            also,
            self._removal(chain),
            tuple(limits_of(self._window, self._goal, chain, links)),
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
        root = self._root(strong)
        rest = [each for each in causes if each is not root and each.at >= root.at]
        chosen = [root]
        for each in sorted(rest, key=lambda each: -self._share[id(each)].share):
            if len(chosen) >= _MAX_LINKS or any(self._is_same(each, other) for other in chosen):
                continue
            if self._window.explained(root, each, self._goal.at).is_clear:
                chosen.append(each)
        return sorted(chosen, key=lambda each: (each is not root, each.at, self._tier(each)))

    def _root(self, strong: Sequence[RunChange]) -> RunChange:
        """Return the first of the changes that explain most; what begins with it, or is less exact, competes.

        An earlier change that explains less than the best one must carry that one, too: a change beside the
        chain may go with the target by chance, and is then no step on the way.
        """
        best = max(strong, key=lambda each: self._share[id(each)].share)
        leading = [each for each in strong if each.at >= best.at - SIMULTANEOUS or self._carries(each, best)]
        first = min(leading, key=lambda each: each.at)
        within = SIMULTANEOUS if first.sudden else _SLIDE_STEPS
        return min((each for each in leading if each.at <= first.at + within), key=self._order)

    def _carries(self, cause: RunChange, effect: RunChange) -> bool:
        """Return False if a change is known to explain hardly anything of another."""
        found = self._window.explained(cause, effect, self._goal.at)
        return found.is_clear or np.isnan(found.share)

    def _given(self, chosen: Sequence[RunChange]) -> list[RunChange]:
        """Return what changed for all samples before what all samples do: only its time speaks for it.

        That is a setting of the trainer, a text that samples are given, such as the end of their prompts, or
        a part of the reward that is scored no more.
        """
        begin = chosen[0].at if chosen else self._goal.at
        if chosen and self._tier(chosen[0]) < _POLICY:
            return []
        if chosen and self._tier(chosen[0]) == _POLICY:
            _, after = self._window.bounds(chosen[0].at)
            carried = self._window.carriers(chosen[0]).sum() / max(int(after.sum()), 1)
            if carried < _EVERYWHERE and not self._window.moves_all(chosen[0]):
                return []
        found = [
            each
            for each in self._changes
            if begin - _SETTING_STEPS <= each.at <= begin
            and (self._is_setting(each) or self._is_given_to_all(each) or self._is_unscored(each))
        ]
        return [max(found, key=lambda each: (self._is_setting(each), each.size > 0, each.z))] if found else []

    def _is_setting(self, change: RunChange) -> bool:
        return bool(SETTINGS.search(self._scalars.get(change.stream.name, "")))

    def _is_given_to_all(self, change: RunChange) -> bool:
        """Return True for a text of prompts or tools that changed in all samples: none is left out."""
        stream, share = change.stream, self._share[id(change)]
        if not stream.text or stream.tab not in _GIVEN_TABS or share.by == "mix":
            return False
        return abs(change.size) >= _ALL_ANGLE if stream.scale == "share" else True

    def _is_unscored(self, change: RunChange) -> bool:
        """Return True for a part of the reward that all samples have, and then none; or the other way."""
        return change.stream.where.startswith(f"missing(`{PARTS}") and abs(change.size) >= _ALL_ANGLE

    def _order(self, change: RunChange) -> tuple[float, ...]:
        """Sort key of changes that begin together: what is given first, then the larger share."""
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

    def _removal(self, chain: Sequence[RunChange]) -> Removal | None:
        """Return the smallest set of samples that undoes the change: of a rank, a label or a link."""
        window = self._window
        before, after = window.bounds(self._goal.at)
        causes = [each for each in chain if self._tier(each) != _OF_TARGET]
        sets = list(sets_of(window, causes, before))
        return smallest_removal(window.y, before, after, window.batch.rows, sets)

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
            if share.is_clear or (share.by == "mix" and share.share >= _EXPLAINS):
                role = "follows"
            elif np.isnan(share.share) or share.by == "slope":
                role = "unknown"
            else:
                role = "nothing"
            found.append(link_of(self._window, each, share, role))
        unknown = sorted((each for each in found if each.role == "unknown"), key=lambda link: -link.z)
        found = [each for each in found if each not in unknown[_MAX_UNKNOWN:]]
        found.sort(key=lambda link: (("nothing", "unknown", "follows").index(link.role), link.step))
        return tuple(found[:_MAX_ALSO])


def _is_same_again(name: str) -> bool:
    """Return True for a trainer's scalar that only repeats rewards or lengths of the samples."""
    return name.endswith(TRAINERS) and name.startswith(("reward", "frac_reward", "completions/", "time"))
