"""The result of a bisection: a chain's links and sentences, and samples whose removal undoes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from rlpanel.findings.engine.change import number, percent
from rlpanel.findings.engine.streams import TRAINERS

# -- chain words ---------------------------------------------------------------------------------------
# Sentences of a bisection, as templates with values, so that the page can show them in another language.


NOISE = "{number} shows no change beyond noise in {steps:,} steps."
LEAST = "{number} shows no change beyond noise in {steps:,} steps. A change of {least} would have been found."
SHORT = "There are too few complete steps for a comparison: a bisection needs four."
ALONE = (
    "{step}: {change}. Nothing that is logged explains it: of {tests:,} numbers, none changed before it in "
    "the samples that carry it."
)
ALONE_WITH = (
    "{step}: {change}. Of {tests:,} numbers, none explains it beyond two standard errors; "
    "{names} changed as well."
)
ALONE_IN_ALL = (
    "{step}: {change}. Of {tests:,} numbers, none explains it within the samples. These changed in all "
    "samples up to then, so that only the time speaks for them: {names}."
)
CHAIN = "{chain}"
REMOVED = "Without {names} ({count:,} of {of:,} samples), {without} is left ({before} before the change)."
REMOVED_ONE_BY_ONE = (
    "No label and no link undoes the change. Without the {count:,} of {of:,} samples with the most extreme "
    "values, {without} is left ({before} before the change): chosen by their values, they name no cause."
)
FEW_STEPS = "The run has {steps:,} complete steps: only large changes stand out from their noise."
TOGETHER = "The data do not show whether {one} or {two} came first: both begin within a step of {step:,}."
BY_TIME = "{name} holds for all samples of a step: only the order of time speaks for it."
UNEXPLAINED = "{share:.0%} of the change is not explained by the first link."
OUTSIDE = "The cause may lie outside of what is logged, such as weights, code or data."
BEFORE_FIRST = "What caused the first link lies outside of what is logged."
NO_GROUP = "Samples have no group: those of one prompt count as independent, and errors may be too small."
ONE_GROUP = "Each step has one group: errors come from the differences between steps alone."
NOT_WITHIN = "No group has samples with and without these changes: prompts may differ, too."
FEW_BEFORE = "There are {steps:,} steps before the change: small changes before it cannot be seen."
RESUMED = "The run was resumed at step {step:,}: the data do not separate its effects from others then."
NO_TEXTS = "Texts were not read."

#: All templates, for translators.
TEMPLATES = (
    *(
        NOISE,
        LEAST,
        SHORT,
        ALONE,
        ALONE_WITH,
        ALONE_IN_ALL,
        REMOVED,
        REMOVED_ONE_BY_ONE,
        FEW_STEPS,
        TOGETHER,
        BY_TIME,
        UNEXPLAINED,
    ),
    *(OUTSIDE, BEFORE_FIRST, NO_GROUP, ONE_GROUP, NOT_WITHIN, FEW_BEFORE, RESUMED, NO_TEXTS),
)
#: What a bisection does, in the order of its progress.
STAGES = ("comparing the steps", "reading texts", "comparing ranks and labels", "ordering the changes")


class Sentence(NamedTuple):
    """A template and its values.

    Attributes
    ----------
    template : str
    values : mapping
    """

    template: str
    values: Mapping[str, Any] = {}

    @property
    def text(self) -> str:
        """The sentence in English."""
        return self.template.format(**self.values)


# -- undoing samples -----------------------------------------------------------------------------------
# The smallest set of samples whose removal undoes a change: by label, by link, or one by one.


#: Share of the change that must vanish, most sets that are joined, and most of the samples that are removed.
UNDONE, _MAX_SETS, _MAX_REMOVED = 0.8, 3, 0.8


@dataclass(frozen=True)
class Removal:
    """Samples after a change without which most of it vanishes.

    Attributes
    ----------
    names : tuple of str
        What they have in common; empty if they were chosen by their value alone, so that they name no cause.
    where : str
        Filter expression for them; empty if they have none.
    rows : ndarray of int
        The samples.
    count, of : int
        Number of them, and of all samples of the window.
    undone : float
        Share of the change that vanishes.
    without, before : float
        Mean without them, and before the change.
    """

    names: tuple[str, ...]
    where: str
    rows: np.ndarray
    count: int
    of: int
    undone: float
    without: float
    before: float


@dataclass(frozen=True)
class SampleSet:
    """Samples that may be removed: a name, a filter, and their mask over the window."""

    name: str
    where: str
    mask: np.ndarray


def smallest_removal(
    y: np.ndarray, before: np.ndarray, after: np.ndarray, rows: np.ndarray, sets: Sequence[SampleSet]
) -> Removal | None:
    """Return the smallest set that undoes a change; None if the window has no samples.

    One set is tried first, then sets are joined greedily. Samples are chosen one by one, the most extreme
    first, only where no sets do: that always undoes a change.

    Parameters
    ----------
    y : ndarray of float, shape (N,)
    before, after : ndarray of bool, shape (N,)
    rows : ndarray of int, shape (N,)
    sets : sequence of SampleSet
    """
    after, before = after & np.isfinite(y), before & np.isfinite(y)
    count = int(after.sum())
    if not count or not before.any():
        return None
    old = float(y[before].mean())
    change = float(y[after].mean()) - old
    if not change:
        return None

    def undone(mask: np.ndarray) -> float:
        kept = after & ~mask
        return float(1 - (y[kept].mean() - old) / change) if kept.any() else -np.inf

    def made(names: tuple[str, ...], where: str, mask: np.ndarray) -> Removal:
        removed = after & mask
        rest = float(y[after & ~mask].mean())
        shown = rows[removed][np.argsort(np.sign(change) * -y[removed], kind="stable")]
        return Removal(names, where, shown, int(removed.sum()), count, undone(mask), rest, old)

    usable = [each for each in sets if 0 < (after & each.mask).sum() <= _MAX_REMOVED * count]
    enough = [each for each in usable if undone(each.mask) >= UNDONE]
    if enough:
        best = min(enough, key=lambda each: (int((after & each.mask).sum()), len(each.where)))
        return made((best.name,), best.where, best.mask)
    joined, names, wheres = np.zeros(len(y), bool), [], []
    for _ in range(_MAX_SETS):
        gains = [
            (undone(joined | each.mask) - undone(joined)) / max(int((after & each.mask & ~joined).sum()), 1)
            for each in usable
        ]
        if not gains or max(gains) <= 0:
            break
        chosen = usable[int(np.argmax(gains))]
        joined = joined | chosen.mask
        names.append(chosen.name)
        wheres.append(chosen.where)
        if (after & joined).sum() > _MAX_REMOVED * count:
            break
        if undone(joined) >= UNDONE:
            where = " or ".join(f"({each})" for each in wheres) if all(wheres) else ""
            return made(tuple(names), where, joined)
    order = np.flatnonzero(after)[np.argsort(np.sign(change) * -y[after], kind="stable")]
    left = np.cumsum(y[order][::-1])[::-1]
    means = left[1:] / np.arange(count - 1, 0, -1)
    reached = np.flatnonzero(1 - (means - old) / change >= UNDONE)
    if not len(reached):
        return None
    mask = np.zeros(len(y), bool)
    mask[order[: int(reached[0]) + 1]] = True
    return made((), "", mask)


# -- bisection -----------------------------------------------------------------------------------------
# The result of a bisection: links of a chain, what changed too, samples to remove, what is unknown.


#: chain: the links lead to the bad step; alone: the number changed, and no change explains it; noise: it did
#: not change beyond its noise; short: too few steps to say.
State = Literal["chain", "alone", "noise", "short"]
#: Changes of all samples that a sentence names.
_MAX_NAMED = 3


@dataclass(frozen=True)
class Link:
    """A change of the chain, or one beside it.

    Attributes
    ----------
    step : int
        First step after the change.
    name : str
        The number that changed, in words.
    column : str
        Its column; empty if it has none.
    place : str
        Ranks or labels that carry it, in words; empty for the whole run.
    where : str
        Filter expression for the samples that carry it; may be empty.
    before, after : float
        Its values.
    error : float
        Standard error of the difference.
    unit : str
        Unit of the values; ``%`` for shares from 0 to 1.
    z : float
        Difference in standard errors.
    share, share_error : float
        Share of the target's change that it explains, and the standard error of that; NaN if unknown.
    of_next : float
        Share of the next link's change that it explains; NaN if unknown.
    within : float
        Share of the target's change by differences within groups; NaN where groups have one value.
    by : str
        ``mix`` or ``slope``, see `ExplainedShare`; ``time`` if only the order of time is known.
    uids : tuple of str
        Samples that carry it.
    count : int
        Number of all samples that carry it, in the steps right after the change.
    role : str
        ``link``, ``target``, ``follows`` (changed with the chain) or ``nothing`` (explains nothing), or
        ``unknown``.
    sudden : bool
        False for a slide, whose onset is less exact.
    curve : tuple of float
        Its value at each step that was looked at, see `Bisection.all_steps`; NaN where it has none.
    """

    step: int
    name: str
    column: str
    place: str
    where: str
    before: float
    after: float
    error: float
    unit: str
    z: float
    share: float
    share_error: float
    of_next: float
    within: float
    by: str
    uids: tuple[str, ...]
    count: int
    role: str
    sudden: bool = True
    curve: tuple[float, ...] = ()

    @property
    def text(self) -> str:
        """The change in words, such as ``turns in rank 3: 4.9 → 2.5 (−49 %)``."""
        place = f" in {self.place}" if self.place and self.place not in self.name else ""
        return f"{self.name}{place} {self.effect}"

    @property
    def curve_name(self) -> str:
        """The column that changed, or the name of the trainer's scalar."""
        return self.column or self.name.removesuffix(TRAINERS)

    @property
    def effect(self) -> str:
        """Both levels, and the factor of a positive number."""
        if self.unit == "%":
            return f"{percent(self.before)} → {percent(self.after)}"
        relative = ""
        if self.before > 0 and self.after > 0 and self.name != "reward":
            relative = f" ({self.after / self.before - 1:+,.0%})"
        return f"{number(self.before)} → {number(self.after)}{relative}"


@dataclass(frozen=True)
class Bisection:
    """Answer of a bisection.

    Attributes
    ----------
    number : str
        The target.
    bad : int or None
        The bad step; None if the run has no step.
    state : str
    links : tuple of Link
        From the first cause to the target.
    also : tuple of Link
        What changed too: with the chain, without an effect, or with an unknown one.
    removal : Removal, optional
    unknown : tuple of Sentence
        What the data cannot show.
    tests : int
        Streams that were tested.
    steps, samples : int
        Steps and samples that were looked at.
    all_steps : tuple of int
        The steps that were looked at.
    least : float
        Smallest change of the target that would have been found, in its unit; NaN if it is not known.
    """

    number: str
    bad: int | None
    state: State
    links: tuple[Link, ...] = ()
    also: tuple[Link, ...] = ()
    removal: Removal | None = None
    unknown: tuple[Sentence, ...] = ()
    tests: int = 0
    steps: int = 0
    samples: int = 0
    least: float = float("nan")
    all_steps: tuple[int, ...] = ()

    @property
    def first(self) -> Link | None:
        """The first cause; None without a chain."""
        return self.links[0] if self.state == "chain" else None

    @property
    def sentence(self) -> Sentence:
        """The chain in one line, or why there is none."""
        if self.state == "chain":
            return Sentence(CHAIN, {"chain": " → ".join(f"{link.step}: {link.text}" for link in self.links)})
        if self.state == "alone":
            target = self.links[-1]
            values: dict[str, object] = {"step": target.step, "change": target.text, "tests": self.tests}
            everywhere = [each for each in self.also if each.role == "unknown" and each.step <= target.step]
            if everywhere:
                names = ", ".join(f"{each.step}: {each.text}" for each in everywhere[:_MAX_NAMED])
                return Sentence(ALONE_IN_ALL, values | {"names": names})
            names = ", ".join(each.name for each in self.also if each.role == "follows")
            return Sentence(ALONE_WITH, values | {"names": names}) if names else Sentence(ALONE, values)
        if self.state == "short":
            return Sentence(SHORT)
        values = {"number": self.number, "steps": self.steps}
        if self.least == self.least:
            return Sentence(LEAST, values | {"least": number(self.least)})
        return Sentence(NOISE, values)

    @property
    def removed(self) -> Sentence | None:
        """The smallest set of samples whose removal undoes the change, in words; None without one."""
        removal = self.removal
        if removal is None:
            return None
        values = {name: getattr(removal, name) for name in ("count", "of")}
        values |= {name: number(getattr(removal, name)) for name in ("without", "before")}
        if not removal.names:
            return Sentence(REMOVED_ONE_BY_ONE, values)
        return Sentence(REMOVED, values | {"names": " / ".join(removal.names)})
