"""Rule on outlier steps: one or two steps far from those around them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.change import Change, number, span, standard_errors
from rlpanel.findings.engine.change_finding import finding_of
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.place_table import PlaceTable
from rlpanel.findings.engine.places import WHOLE_RUN
from rlpanel.findings.engine.reward_falls import spread as spread_of
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.signal import Signal, column_signal, long_stretches, running_median

#: Checked columns, besides the parts of the reward. KL has a rule of its own.
_WATCHED = ("reward", "ref_reward", "valid_reward", "response_tokens", "response_chars", "surprisal_mean")
#: Minimum number of earlier steps.
_LEAST = 8
#: Smallest distance in standard deviations of the samples of a step, and relative to the median.
_EFFECT, _RELATIVE = 1.0, 0.25
#: Smallest factor of a positive number.
_FACTOR = 1.6


@rule("Outlier step", "outlier_z")
def outlier(context: RuleContext) -> Iterator[Finding]:
    """One or two steps are more than this many errors from the median of the 15 steps before.

    The error is the largest of the step's standard error, clustered by group, and of the noise between steps.
    The distance must also exceed a standard deviation of a step's samples and a quarter of the median; of
    the response length, a factor of 1.6.
    """
    parts = [name for name in context.snapshot.numbers if name.startswith("rewards/")]
    for column in (*_WATCHED, *parts):
        if column == "response_chars" and context.snapshot.has_number("response_tokens"):
            continue
        which = column_signal(column, "positive" if column.startswith("response_") else "level")
        if context.available(which):
            yield from _outliers(context, column, which)


def _outliers(context: RuleContext, column: str, which: Signal) -> Iterator[Finding]:
    table = PlaceTable.of(context, which)
    values, error = table.scaled[0], table.error[0]
    median = running_median(values, _LEAST)
    spread = spread_of(context, column)
    distance = np.abs(values - median)
    if which.kind == "positive":
        far = distance > np.log(_FACTOR)
        shown = np.exp(median)
    else:
        far = distance > np.fmax(_EFFECT * spread, _RELATIVE * np.abs(median))
        shown = median
    with np.errstate(all="ignore"):
        z = distance / error
        mask = far & (z > context.thresholds.outlier_z)
    mask &= ~long_stretches(mask, 3)
    if not mask.any():
        return
    worst = int(np.argmax(np.where(mask, z, -1)))
    mean = table.mean[0]
    above = mean[worst] > shown[worst]
    change = Change(
        which,
        WHOLE_RUN,
        mask,
        bool(mask[-1]),
        float(shown[worst]),
        float(mean[worst]),
        mean,
        sign=1 if above else -1,
    )
    yield finding_of(
        context,
        change,
        f"In step {context.steps[worst]:,}, the mean of {context.label(column)} is {number(mean[worst])}, "
        f"far {'above' if above else 'below'} the median of the steps before ({number(shown[worst])}).",
        harmful=False,
        column=column,
        evidence=[
            f"The distance is {standard_errors(z[worst])}.",
            *([f"Also in {span(context.steps, mask)}."] if mask.sum() > 1 else []),
        ],
        advice="Read the samples of this step: another data source, a time-out, or a bug in the reward.",
        sort=f"-{column}" if above else column,
        subject=column,
    )
