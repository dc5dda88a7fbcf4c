"""Run every rule over a snapshot."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from rlpanel.findings import rules  # noqa: F401  (importing them registers them)
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RULES
from rlpanel.findings.engine.rule_context import RuleContext
from rlpanel.settings import FindingSettings
from rlpanel.store.snapshot.run_view import RunView

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CheckResult:
    """What the rules found in a run, and what of it holds while no step comes or grows."""

    found: list[Finding]
    of: tuple[int, int]
    steady: list[Finding]


def check(
    view: RunView, thresholds: FindingSettings, now: float, known: CheckResult | None = None
) -> CheckResult:
    """Run the rules; those that time alone does not move only where ``known`` is of other rows or steps.

    Parameters
    ----------
    view : RunView
    thresholds : FindingSettings
    now : float
        Seconds since the epoch; tells whether the last step is still being written, and for how long no line
        has come.
    known : CheckResult, optional
        An earlier look at the same run, with the same thresholds.

    Returns
    -------
    Checked
        Its findings with alarms first, newest first among equals. A rule that fails is logged and finds
        nothing: one wrong rule must not hide what the others see.
    """
    look = RuleContext(view, thresholds, now)
    of = view.snapshot.version, len(look.steps)
    steady = known.steady if known is not None and known.of == of else _found(look, clock=False)
    found = [*steady, *_found(look, clock=True)]
    return CheckResult(
        sorted(found, key=lambda f: (f.severity != "alarm", -max(f.steps, default=0))), of, steady
    )


def findings(view: RunView, thresholds: FindingSettings, now: float) -> list[Finding]:
    """What the rules find in a run; see `check`."""
    return check(view, thresholds, now).found


def _found(look: RuleContext, *, clock: bool) -> list[Finding]:
    found: list[Finding] = []
    if not len(look.steps):
        return found
    for rule in (rule for rule in RULES.values() if rule.clock == clock):
        try:
            found += rule.check(look)
        except Exception:
            logger.exception("the rule %s fails on %s", rule.name, look.snapshot.name)
    return found
