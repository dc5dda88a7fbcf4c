"""Registry of lint rules, and the result of a rule: passed, failed or not checkable, with samples."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from rlpanel.schema import BY_NAME

# -- lint rule -----------------------------------------------------------------------------------------
# Registry of lint rules: a rule proves a statement for each sample, or the log lacks what it needs.
#
# A rule of *samples* reads their lines; a rule of *steps* reads the columns of whole steps. Both mark each
# sample: 1 fails, 0 passes, and NaN is not checkable. A rule with variants marks the samples once for each
# way in which a trainer may work, and the result keeps the variant that the run names, or that fits best.


Scope = Literal["samples", "steps"]
#: Parts in which rules are listed, in this order.
PARTS = ("tokens and text", "masks and turns", "groups and prompts", "advantages", "logprobs", "secrets")


@dataclass(frozen=True)
class Marks:
    """Marks that a rule gives to some samples.

    Attributes
    ----------
    values : ndarray of float, shape (N,)
        1 for a sample that fails, 0 for one that passes, NaN for one that is not checkable.
    details : dict of int to str
        What is wrong, for some of the samples that fail, by position.
    remark : str
        What to know of samples that pass.
    unclear : int
        Number of samples that may fail, which the log does not show: a rule with some does not pass.
    """

    values: np.ndarray
    details: Mapping[int, str] = field(default_factory=dict)
    remark: str = ""
    unclear: int = 0


@dataclass(frozen=True)
class LintRule:
    """Declaration of a rule.

    Attributes
    ----------
    name, title : str
        ``title`` is the statement that holds for a sample that passes.
    formula : str
        When a sample fails: the docstring without its line breaks.
    part : str
        One of `PARTS`.
    scope : str
        ``samples``: it reads the lines; ``steps``: it reads columns of whole steps.
    needs : tuple of str
        Fields that a sample must have to be checkable; ``a|b`` is either.
    otherwise : str
        What to log if all of these exist and no sample is checkable all the same.
    check : callable
        Takes `LintSamples` or `RowBatch`; returns `Marks`, or `Marks` by variant.
    most : float
        Largest share of the checked samples that may fail. With more, it is the way in which this trainer
        works or logs, so that a fault cannot be told from it.
    variants : callable or None
        Returns the variants that the run's algorithm allows, of the facts in ``run.json``; empty for all.
    beside : bool
        Whether a rule of steps looks at the steps beside each one.
    by_settings : bool
        Whether the check of a rule of steps takes the run's settings, too, by dotted name.
    """

    name: str
    title: str
    formula: str
    part: str
    scope: Scope
    needs: tuple[str, ...]
    otherwise: str
    check: Callable[..., Marks | Mapping[str, Marks]]
    most: float = 1.0
    variants: Callable[[Mapping[str, Any]], tuple[str, ...]] | None = None
    beside: bool = False
    by_settings: bool = False

    def is_checkable(self, fields: Collection[str]) -> bool:
        """Return False if none of the samples has a field that the rule needs."""
        return not any(names.isdisjoint(fields) for names in self._choices)

    @cached_property
    def _choices(self) -> tuple[frozenset[str], ...]:
        return tuple(frozenset(need.split("|")) for need in self.needs)


LINT_RULES: dict[str, LintRule] = {}


def lint_rule(
    title: str,
    part: str,
    *needs: str,
    otherwise: str,
    scope: Scope = "samples",
    most: float = 1.0,
    variants: Callable[[Mapping[str, Any]], tuple[str, ...]] | None = None,
    beside: bool = False,
    by_settings: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as a rule under its own name; its docstring is the formula.

    Raises
    ------
    ValueError
        If the name is taken.
    """

    def register(check: Callable[..., Any]) -> Callable[..., Any]:
        name = check.__name__
        if name in LINT_RULES:
            raise ValueError(f"lint rule {name!r} is declared twice")
        formula = " ".join((inspect.getdoc(check) or "").replace("``", "").split())
        LINT_RULES[name] = LintRule(
            name, title, formula, part, scope, needs, otherwise, check, most, variants, beside, by_settings
        )
        return check

    return register


# -- lint result ---------------------------------------------------------------------------------------
# Result of a lint rule: passed, failed or not checkable, with counts, samples, and what to log.


State = Literal["failed", "passed", "not checkable"]
STATES: tuple[State, ...] = ("failed", "passed", "not checkable")
#: Samples that fail and are named.
EXAMPLES = 10


@dataclass(frozen=True)
class Example:
    """A sample that fails, by row of the snapshot and by uid, and what is wrong with it."""

    row: int
    uid: str
    file: str
    line: int
    step: int
    detail: str = ""


@dataclass
class Tally:
    """Counts of one rule, or of one of its variants.

    Attributes
    ----------
    checked, failed : int
    first : int or None
        First step with a sample that fails.
    examples : list of (step, row, detail)
        The first samples that fail.
    remark : str
    error : str
        Why the rule raised an error, so that it says nothing; empty if it did not.
    unclear : int
        Samples that may fail, which the log does not show.
    """

    checked: int = 0
    failed: int = 0
    first: int | None = None
    examples: list[tuple[int, int, str]] = field(default_factory=list)
    remark: str = ""
    error: str = ""
    unclear: int = 0

    def add(self, other: Tally) -> None:
        """Add the counts of later samples."""
        self.checked += other.checked
        self.failed += other.failed
        self.unclear += other.unclear
        if other.first is not None:
            self.first = other.first if self.first is None else min(self.first, other.first)
        if len(self.examples) < EXAMPLES or other.examples[:1] < self.examples[-1:]:
            self.examples = sorted([*self.examples, *other.examples])[:EXAMPLES]
        self.remark = other.remark or self.remark
        self.error = self.error or other.error


@dataclass(frozen=True)
class RuleResult:
    """Result of one rule for a run.

    Attributes
    ----------
    rule : LintRule
    state : str
        ``failed``, ``passed`` or ``not checkable``.
    samples, checked, failed : int
        Number of samples that were read, that the rule could check, and that fail.
    first : int or None
        First step with a sample that fails.
    examples : tuple of Example
    log : str
        What to log so that the rule can check, and the reason; empty if it could check every sample.
    remark : str
        What to know beyond the state, such as the formula that fits.
    error : str
        Why the rule itself failed; empty if it did not.
    """

    rule: LintRule
    state: State
    samples: int
    checked: int
    failed: int
    first: int | None = None
    examples: tuple[Example, ...] = ()
    log: str = ""
    remark: str = ""
    error: str = ""

    @property
    def share(self) -> float:
        """Share of the checked samples that fail; NaN without any."""
        return self.failed / self.checked if self.checked else float("nan")

    def as_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return {
            "rule": self.rule.name,
            "title": self.rule.title,
            "part": self.rule.part,
            "state": self.state,
            "samples": self.samples,
            "checked": self.checked,
            "failed": self.failed,
            "share": self.share if self.checked else None,
            "first_step": self.first,
            "log": self.log,
            "remark": self.remark,
            "formula": self.rule.formula,
            "examples": [
                {"uid": e.uid, "file": e.file, "line": e.line, "step": e.step, "detail": e.detail}
                for e in self.examples
            ],
        }


def judged(
    rule: LintRule,
    tallies: Mapping[str, Tally],
    samples: int,
    fields: Counter[str],
    logged: Mapping[str, Any],
) -> tuple[Tally, State, str, str]:
    """Return the tally that counts, the state, what to log, and a remark.

    Parameters
    ----------
    rule : LintRule
    tallies : mapping of str to Tally
        By variant; an empty name for a rule without variants.
    samples : int
        Number of samples that were read.
    fields : Counter
        Number of samples that have each field.
    logged : mapping
        Content of ``run.json``.
    """
    named = rule.variants(logged) if rule.variants is not None else ()
    names = [name for name in tallies if not named or name in named] or list(tallies)
    best = min(names, key=lambda name: _share(tallies[name]), default="")
    tally = tallies.get(best, Tally())
    remark = f"{best}, {'as named' if named else 'which fits most samples'}" if best else tally.remark
    if error := next((each.error for each in tallies.values() if each.error), ""):
        return tally, "not checkable", f"the rule failed, which is a fault of rlpanel: {error}", ""
    if not tally.checked and not tally.unclear:
        # Rules of steps alone read no lines, so that no fields were counted: any may be the one that lacks.
        texts = (missing_text(rule, fields), *([] if fields else [rule.otherwise]))
        return tally, "not checkable", "; ".join(texts), ""
    if not named and tally.failed and _share(tally) > rule.most:
        return tally, "not checkable", rule.otherwise, f"{tally.failed:,} of {tally.checked:,} samples"
    if tally.unclear and not tally.failed:
        counts = f"{tally.unclear:,} of {tally.checked + tally.unclear:,} samples"
        return tally, "not checkable", rule.otherwise, counts
    partly = missing_text(rule, fields, samples) if fields and tally.checked < samples else ""
    return tally, "failed" if tally.failed else "passed", partly, remark


def _share(tally: Tally) -> float:
    return tally.failed / tally.checked if tally.checked else 2.0


def missing_text(rule: LintRule, fields: Counter[str], samples: int = 0) -> str:
    """Return what to log: the fields that no sample has, or that some of ``samples`` lack."""
    least = samples or 1
    lacking = [need for need in rule.needs if max(fields[name] for name in need.split("|")) < least]
    if not lacking:
        return rule.otherwise if not samples else ""
    return "; ".join(map(_described, lacking))


def _described(need: str) -> str:
    names = need.split("|")
    known = BY_NAME.get(names[0])
    text = f" ({known.help.rstrip('.')})" if known is not None and len(names) == 1 else ""
    return f"{' or '.join(names)}{text}"
