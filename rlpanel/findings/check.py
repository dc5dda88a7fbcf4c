"""Runs all rules over a snapshot."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from rlpanel.findings import rules  # noqa: F401  (importing them registers them)
from rlpanel.findings.causes import merged
from rlpanel.findings.engine.finding import SEVERITIES, Finding
from rlpanel.findings.engine.place_series import PlaceSeries
from rlpanel.findings.engine.rule import RULES
from rlpanel.findings.engine.rule_context import RuleContext
from rlpanel.findings.engine.step_blocks import BLOCK_ROWS
from rlpanel.settings import FindingSettings
from rlpanel.store.snapshot.run_view import RunView

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CheckResult:
    """Findings of a run.

    Attributes
    ----------
    findings : list of Finding
        All findings, alarms first, then by newest step.
    data_version : tuple of int
        Version of the snapshot and number of complete steps. While both stay the same, `steady` is reused.
    steady : list of Finding
        The findings of rules that do not depend on the clock.
    place_series : PlaceSeries, optional
        Means by place and step, which the next check reuses for steps that do not change.
    failed : bool
        True if a rule raised an error, so that its findings are missing in `steady`.
    """

    findings: list[Finding]
    data_version: tuple[int, int]
    steady: list[Finding]
    place_series: PlaceSeries | None = None
    failed: bool = False


def check(
    view: RunView, thresholds: FindingSettings, now: float, previous: CheckResult | None = None
) -> CheckResult:
    """Run the rules; findings that do not depend on the clock are reused from a previous result.

    Parameters
    ----------
    view : RunView
    thresholds : FindingSettings
    now : float
        Seconds since the epoch. Decides whether the last step is complete, and how old the newest line is.
    previous : CheckResult, optional
        An earlier result for the same run and thresholds. Reused if no row or complete step was added.

    Returns
    -------
    CheckResult
        Alarms come first, then the newest. A rule that raises an error is logged and reports nothing, so that
        the findings of the other rules are still shown.
    """
    context = RuleContext(view, thresholds, now, previous.place_series if previous is not None else None)
    data_version = view.snapshot.version, len(context.steps)
    if previous is not None and previous.data_version == data_version:
        steady, series, failed = previous.steady, previous.place_series, previous.failed
    else:
        found, failed = _run_rules(context, clock=False)
        steady = merged(found, context.steps)
        series = context.place_series.release() if len(context.steps) else None
    results = sorted([*steady, *_run_rules(context, clock=True)[0]], key=_urgency)
    return CheckResult(results, data_version, steady, series, failed)


def _urgency(finding: Finding) -> tuple[int, int]:
    """Sort key: alarms first, then the newest."""
    return SEVERITIES.index(finding.severity), -max(finding.steps, default=0)


def findings(view: RunView, thresholds: FindingSettings, now: float) -> list[Finding]:
    """Return the findings of a run; see `check`."""
    return check(view, thresholds, now).findings


def _run_rules(context: RuleContext, *, clock: bool) -> tuple[list[Finding], bool]:
    """Run the rules that depend on the clock, or those that do not; also return whether one failed."""
    results: list[Finding] = []
    failed = False
    if not len(context.steps):
        return results, failed
    for rule in (rule for rule in RULES.values() if rule.clock == clock):
        try:
            results += rule.check(context)
        except Exception:
            failed = True
            logger.exception("the rule %s failed on run %s", rule.name, context.snapshot.name)
        if len(context.rows) > BLOCK_ROWS:
            context.view.release()
    return results, failed
