"""Registry of lint rules: a rule proves a statement for each sample, or the log lacks what it needs.

A rule of *samples* reads their lines; a rule of *steps* reads the columns of whole steps. Both mark each
sample: 1 fails, 0 passes, and NaN is not checkable. A rule with variants marks the samples once for each way
in which a trainer may work, and the result keeps the variant that the run names, or that fits best.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

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
