"""Declare a rule once; the check, the docs and the settings' help read the declaration."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule_context import RuleContext

Check = Callable[[RuleContext], Iterator[Finding]]


@dataclass(frozen=True)
class Rule:
    """What is known of a rule.

    ``help`` is its function's docstring, ``thresholds`` names of settings; ``clock`` says that it finds other
    things while nothing but time goes on.
    """

    name: str
    label: str
    check: Check
    thresholds: tuple[str, ...]
    help: str
    clock: bool = False


RULES: dict[str, Rule] = {}


def rule(label: str, *thresholds: str, clock: bool = False) -> Callable[[Check], Check]:
    """Register the decorated function under its own name.

    Raises
    ------
    ValueError
        If the name is taken.
    """

    def register(check: Check) -> Check:
        name = check.__name__
        if name in RULES:
            raise ValueError(f"rule {name!r} is declared twice")
        told = " ".join((inspect.getdoc(check) or "").split())
        RULES[name] = Rule(name, label, check, thresholds, told, clock)
        return check

    return register
