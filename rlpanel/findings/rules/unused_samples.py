"""Rules on samples that do not train the policy: failures of the environment, and discarded ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.row_batch import RowBatch
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.share_rule import ShareRule, share_finding
from rlpanel.findings.engine.signal import mark, signal
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
            advice="Choose the split discarded and read the status reasons: filters of groups without "
            "variance and limits of staleness discard samples, too.",
        ),
    )
