"""Rule on a reward that rises while a held-out reward or one of its parts falls."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.change import Change, at_place, number, since, span, standard_errors
from rlpanel.findings.engine.change_finding import affected_rows, finding_of
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.reward_falls import fall, parts, rises_meanwhile
from rlpanel.findings.engine.rule import RuleContext, rule


@rule("Reward up, held-out down", "change_z")
def held_out(context: RuleContext) -> Iterator[Finding]:
    """The held-out reward or a part of the reward falls while the reward rises.

    The fall is tested as in "Sustained change"; the reward must rise by four standard errors meanwhile.
    """
    for column in parts(context):
        change = fall(context, column)
        if change is None:
            continue
        rise = rises_meanwhile(context, change)
        if rise is None:
            continue
        label = "held-out reward" if column == "valid_reward" else column
        old, new = rise
        yield finding_of(
            context,
            change,
            f"{since(context.steps, change)}, the mean of {label}{at_place(change)} falls from "
            f"{number(change.before)} to {number(change.after)} while the reward rises from {number(old)} to "
            f"{number(new)}.",
            harmful=column == "valid_reward" or change.after < change.before / 2,
            column=column,
            evidence=[
                f"The fall is {standard_errors(change.z)} in {span(context.steps, change.mask)}.",
                _correlation(context, change, column),
            ],
            advice="Read samples with a high reward and a low value of the other: the policy may exploit the "
            "reward.",
            sort=column,
            subject=column,
        )


def _correlation(context: RuleContext, change: Change, column: str) -> str:
    """Return a sentence on the correlation of both rewards in the affected samples."""
    rows = affected_rows(context, change)
    a, b = rows.number("reward"), rows.number(column)
    known = np.isfinite(a) & np.isfinite(b)
    if known.sum() < 3 or not a[known].std() or not b[known].std():
        return "The affected samples do not have both numbers."
    return f"Correlation of both in the affected samples: {np.corrcoef(a[known], b[known])[0, 1]:.2f}."
