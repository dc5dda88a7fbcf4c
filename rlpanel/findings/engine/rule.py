"""Registry of rules: the `rule` decorator declares a rule for the check, the docs and the settings' help."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule_context import RuleContext

Check = Callable[[RuleContext], Iterator[Finding]]


@dataclass(frozen=True)
class Rule:
    """Declaration of a rule.

    Attributes
    ----------
    name, label : str
        Name of the check function, and the rule's title.
    check : callable
        Yields the findings for a context.
    thresholds : tuple of str
        Names of the settings that the rule uses.
    help : str
        Docstring of the check function, as one line.
    clock : bool
        True if the findings also depend on the current time, so that results must not be reused.
    """

    name: str
    label: str
    check: Check
    thresholds: tuple[str, ...]
    help: str
    clock: bool = False


RULES: dict[str, Rule] = {}


def rule(label: str, *thresholds: str, clock: bool = False) -> Callable[[Check], Check]:
    """Register the decorated check function under its own name.

    Raises
    ------
    ValueError
        If a rule of this name is already registered.
    """

    def register(check: Check) -> Check:
        name = check.__name__
        if name in RULES:
            raise ValueError(f"rule {name!r} is declared twice")
        description = " ".join((inspect.getdoc(check) or "").split())
        RULES[name] = Rule(name, label, check, thresholds, description, clock)
        return check

    return register
