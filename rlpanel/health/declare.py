"""Declare a rule once; the check, the docs and the settings' help read the declaration."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rlpanel.health.finding import Finding
from rlpanel.health.look import Look

Check = Callable[[Look], Iterator[Finding]]


@dataclass(frozen=True)
class Rule:
    """What is known of a rule; ``help`` is its function's docstring, ``thresholds`` names of settings."""

    name: str
    label: str
    check: Check
    thresholds: tuple[str, ...]
    help: str


RULES: dict[str, Rule] = {}


def rule(label: str, *thresholds: str) -> Callable[[Check], Check]:
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
        RULES[name] = Rule(name, label, check, thresholds, " ".join((inspect.getdoc(check) or "").split()))
        return check

    return register
