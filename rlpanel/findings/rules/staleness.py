"""Rule on samples of a policy that is older than the trainer allows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.change import number, percent
from rlpanel.findings.engine.change_finding import finding_of_rows
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RuleContext, rule

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
    share = stale.sum() / np.isfinite(lag).sum()
    yield finding_of_rows(
        context,
        stale,
        f"In {{steps}}, samples{{place}} were written by a policy that is up to {number(lag[stale].max())} "
        f"versions old; the bound is {number(bound)}.",
        harmful=True,
        evidence=[
            f"{int(stale.sum()):,} samples, {percent(share)} of those whose lag is known.",
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
