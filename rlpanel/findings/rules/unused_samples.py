"""Rules on samples that do not train the policy, failed or discarded, or that an outdated policy wrote."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rlpanel.findings.engine.change import number, percent
from rlpanel.findings.engine.change_finding import finding_of_rows
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.share_rule import ShareRule, share_finding
from rlpanel.findings.engine.signal import RowBatch, mark, signal
from rlpanel.store.columns.splits import discarded_split

_FAILED = "environment_error"


@signal("environment_error")
def _environment_error(rows: RowBatch) -> np.ndarray:
    failed, known = _failed(rows)
    return mark(failed, known)


@signal("discarded")
def _discarded(rows: RowBatch) -> np.ndarray:
    failed, _ = _failed(rows)
    return mark(rows.view.snapshot.discarded[rows.rows] & ~failed, np.ones(len(rows), bool))


def _failed(rows: RowBatch) -> tuple[np.ndarray, np.ndarray]:
    """Return masks of the rows whose environment failed, and of those with a status."""
    snapshot = rows.view.snapshot
    if "status" not in snapshot.labels:
        return np.zeros(len(rows), bool), np.zeros(len(rows), bool)
    codes, names = snapshot.label_codes("status")
    code = names.index(_FAILED) if _FAILED in names else -2
    return codes[rows.rows] == code, codes[rows.rows] >= 0


def _over_all_samples(context: RuleContext, tested: ShareRule) -> Iterator[Finding]:
    """Test a share of all samples, also the discarded ones; the finding leads to the split that holds these.

    It names no sample: its example may be one that was used.
    """
    found = share_finding(context.with_discarded, tested)
    if found is not None:
        yield replace(found, uid="", split=discarded_split(context.snapshot.split))


@rule("Environment errors", "rise", "change_z")
def environment_errors(context: RuleContext) -> Iterator[Finding]:
    """The share of rollouts that the environment ended with an error rises by this much, or is above 30%.

    A rise is tested by two windows of steps with errors clustered by group.
    """
    if "status" not in context.snapshot.labels:
        return
    yield from _over_all_samples(
        context,
        ShareRule(
            signal=_environment_error,
            verb="end with an error of the environment",
            noun="rollouts with an error of the environment",
            of="of the rollouts",
            rise=context.thresholds.rise,
            limit=0.3,
            where=f'status == "{_FAILED}"',
            column="environment_error_share",
            tab="conversation",
            advice="Choose the split discarded and read the status reasons. These samples do not count in "
            "the means of training.",
        ),
    )


@rule("Discarded samples", "rise", "change_z")
def discarded_samples(context: RuleContext) -> Iterator[Finding]:
    """The share of samples that the trainer did not use rises by this much; environment errors are left out.

    A rise is tested by two windows of steps with errors clustered by group.
    """
    if not len(context.snapshot.discarded_steps.values):
        return
    yield from _over_all_samples(
        context,
        ShareRule(
            signal=_discarded,
            verb="were not trained on",
            noun="samples that were not trained on",
            of="of the samples",
            rise=context.thresholds.rise,
            harmful=0.5,
            column="discarded_share",
            tab="conversation",
            advice="Choose the split discarded and read the status reasons: filters of groups without "
            "variance and limits of staleness discard samples, too.",
        ),
    )


#: Names of the bound in ``run.json``: rlpanel's, prime-rl's and tinker-cookbook's.
_NAMES = ("max_lag", "max_off_policy_steps", "max_steps_off_policy")


@rule("Stale samples", "max_lag")
def stale_samples(context: RuleContext) -> Iterator[Finding]:
    """Samples are older than the bound of `run.json` (`max_lag`, or the trainer's name), else than this."""
    bound, source = _bound(context)
    if bound is None or not context.snapshot.has_number("lag"):
        return
    lag = context.column("lag")
    stale = np.isfinite(lag) & (lag > bound)
    if not stale.any():
        return
    known = np.isfinite(lag) & np.isin(context.row_steps, context.row_steps[stale])
    share = stale.sum() / known.sum()
    yield finding_of_rows(
        context,
        stale,
        f"In {{steps}}, samples{{place}} were written by a policy that is up to {number(lag[stale].max())} "
        f"versions old; the bound is {number(bound)}.",
        harmful=True,
        evidence=[
            f"{int(stale.sum()):,} samples, {percent(share)} of those of these steps whose lag is known.",
            f"The bound is {source}.",
        ],
        advice="Off-policy samples bias the update: look at the ratio and its clipping in these steps.",
        column="lag",
        where=f"lag > {bound:g}",
    )


def _bound(context: RuleContext) -> tuple[float | None, str]:
    """Return the bound and where it is from; None if none is known."""
    logged = context.snapshot.constants.logged
    for name in _NAMES:
        value = logged.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value), f"{name} in run.json"
    return context.thresholds.max_lag, "the setting RLPANEL_MAX_LAG"
