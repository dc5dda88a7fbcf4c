"""The training constants (β, γ, λ, ε, …) as rows of the settings, with the source of each value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rlpanel.metrics.engine.constants import DECLARED, DeclaredConstant, KnownConstant
from rlpanel.number_text import number
from rlpanel.store.snapshot.run_view import RunView

#: Constant → step metric computed from it. A default value is listed only if the run has that metric.
_USED_BY = {
    "gamma": "return_pooled",
    "lam": "return_pooled",
    "epsilon": "clipfrac",
    "pass_reward": "pass_at_1",
}


def constant_rows(view: RunView) -> list[dict[str, Any]]:
    """Return a fact of a `rlpanel.panels.inputs.form.Form` for each constant that is used."""
    return [
        {"name": f"constant:{declared.name}", "label": declared.label, "kind": "fact"}
        for declared, _ in _used(view)
    ]


def constant_facts(view: RunView) -> dict[str, list[str]]:
    """Return the value and the help of each row; those of an inferred constant change with the steps."""
    facts = {}
    for declared, constant in _used(view):
        value = number(constant.value) if isinstance(constant.value, float) else str(constant.value)
        facts[f"constant:{declared.name}"] = [
            f"{value} ({constant.origin})",
            f"{declared.help} {constant}",
        ]
    return facts


def _used(view: RunView) -> Iterator[tuple[DeclaredConstant, KnownConstant]]:
    for declared in DECLARED:
        constant = view.constants.by_name.get(declared.name)
        if constant is None or (
            constant.origin == "usual" and _USED_BY.get(constant.name) not in view.step_metrics
        ):
            continue
        yield declared, constant
