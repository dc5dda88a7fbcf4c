"""Rule on groups without learning signal: all rewards of a group are the same."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.finding import Finding, span
from rlpanel.findings.engine.rule import rule
from rlpanel.findings.engine.rule_context import RuleContext
from rlpanel.findings.engine.step_series import long_stretches


@rule("Zero-variance groups", "zero_variance_share")
def zero_variance(context: RuleContext) -> Iterator[Finding]:
    """In at least this share of the groups all rewards are the same, for three steps in a row."""
    share = context.series("zero_variance_groups")
    if share is None:
        return
    mask = long_stretches(share >= context.thresholds.zero_variance_share, 3)
    if not mask.any():
        return
    evidence = [
        f"Groups with the same reward for all samples: {share[mask].min():.0%} to {share[mask].max():.0%}."
    ]
    low, high = context.series("zero_variance_low"), context.series("zero_variance_high")
    if low is not None and high is not None:
        evidence.append(
            f"On average, all samples fail (reward below a pass) in {np.nanmean(low[mask]):.0%} of the "
            f"groups, and all pass in {np.nanmean(high[mask]):.0%}."
        )
    yield Finding(
        severity="alarm",
        sentence=(
            f"Zero-variance groups: most groups carry no learning signal in {span(context.steps, mask)}."
        ),
        evidence=tuple(evidence),
        steps=tuple(context.steps[mask].tolist()),
        column="zero_variance_groups",
    )
