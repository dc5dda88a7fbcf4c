"""Result of a lint rule: passed, failed or not checkable, with counts, samples, and what to log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rlpanel.lint.lint_rule import LintRule
from rlpanel.schema import BY_NAME

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
