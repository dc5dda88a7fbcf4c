"""The result of a bisection: links of a chain, what changed too, samples to remove, what is unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rlpanel.bisect.chain_words import (
    ALONE,
    ALONE_IN_ALL,
    ALONE_WITH,
    CHAIN,
    LEAST,
    NOISE,
    REMOVED,
    REMOVED_ONE_BY_ONE,
    SHORT,
    Sentence,
)
from rlpanel.bisect.undoing_samples import Removal
from rlpanel.findings.engine.change import number, percent
from rlpanel.findings.engine.streams import TRAINERS

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
