"""Whether groups still teach."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.finding import Finding, span
from rlpanel.findings.engine.rule import rule
from rlpanel.findings.engine.rule_context import RuleContext
from rlpanel.findings.engine.step_series import lasting


@rule("groups without learning signal", "zero_variance_share")
def zero_variance(look: RuleContext) -> Iterator[Finding]:
    """At least this share of the groups has one and the same reward, three steps in a row."""
    share = look.series("zero_variance_groups")
    if share is None:
        return
    mask = lasting(share >= look.thresholds.zero_variance_share, 3)
    if not mask.any():
        return
    evidence = [f"Groups whose rewards are all the same: {share[mask].min():.0%} to {share[mask].max():.0%}."]
    low, high = look.series("zero_variance_low"), look.series("zero_variance_high")
    if low is not None and high is not None:
        evidence.append(
            f"On average {np.nanmean(low[mask]):.0%} of all groups fail together (below a pass), "
            f"{np.nanmean(high[mask]):.0%} pass together."
        )
    yield Finding(
        "zero_variance",
        "alarm",
        f"Most groups carry no learning signal in {span(look.steps, mask)}.",
        tuple(evidence),
        tuple(look.steps[mask].tolist()),
        "zero_variance_groups",
    )
