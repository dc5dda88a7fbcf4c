"""Registry of the rules. The check, the docs and the help of the settings read it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import wraps

from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule_context import RuleContext

Check = Callable[[RuleContext], Iterator[Finding]]


@dataclass(frozen=True)
class Rule:
    """A registered rule.

    Attributes
    ----------
    name : str
        Name of the decorated function.
    label : str
        Title on the screen.
    check : callable
        Yields the findings of a run, with the rule's name filled in.
    thresholds : tuple of str
        Names of the settings that the rule reads.
    help : str
        The function's docstring.
    clock : bool
        True if its findings can change while no line is written.
    """

    name: str
    label: str
    check: Check
    thresholds: tuple[str, ...]
    help: str
    clock: bool = False


RULES: dict[str, Rule] = {}


def rule(label: str, *thresholds: str, clock: bool = False) -> Callable[[Check], Check]:
    """Register the decorated function under its own name; fill name and title into its findings.

    Parameters
    ----------
    label : str
        Title on the screen.
    thresholds : str
        Names of the settings that the rule reads.
    clock : bool
        True if its findings can change while no line is written.

    Raises
    ------
    ValueError
        If the name is taken.
    """

    def register(check: Check) -> Check:
        name = check.__name__
        if name in RULES:
            raise ValueError(f"rule {name!r} is declared twice")

        @wraps(check)
        def named(context: RuleContext) -> Iterator[Finding]:
            for finding in check(context):
                yield replace(finding, rule=name, title=label)

        description = " ".join((inspect.getdoc(check) or "").split())
        RULES[name] = Rule(name, label, named, thresholds, description, clock)
        return named

    return register
