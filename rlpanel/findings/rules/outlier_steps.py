"""Rule on outlier steps: a step's value deviates from the running median of the steps before."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.finding import Finding, span
from rlpanel.findings.engine.rule import rule
from rlpanel.findings.engine.rule_context import RuleContext
from rlpanel.findings.engine.step_series import WINDOW, deviations

#: Checked columns, besides every component of the reward.
_WATCHED = (
    "reward",
    "ref_reward",
    "valid_reward",
    "kl_k3_mean",
    "surprisal_pooled",
    "entropy_pooled",
    "response_tokens",
    "value_error",
    "approxkl",
    "clipfrac",
    "engine_kl",
)
#: Minimum number of earlier steps.
_LEAST = 8
#: Columns that start at 0 and climb, so that every early step deviates from the median. They need a full
#: window of earlier steps. Their deviation within a step is ignored, since a few tokens dominate it.
_CLIMBING = frozenset({"kl_k3_mean"})
#: Smallest deviation of interest, relative to the median and to the standard deviation within a step.
_EFFECT = 0.25


@rule("Outlier step", "outlier_z")
def outlier(context: RuleContext) -> Iterator[Finding]:
    """A step's value is more than this many robust deviations from the median of the 15 steps before.

    A robust deviation is 1.4826 times the median absolute deviation. The difference must also exceed a
    quarter of the median and a quarter of the samples' standard deviation within the step.
    """
    parts = [name for name in context.snapshot.numbers if name.startswith("rewards/")]
    for column in (*_WATCHED, *parts):
        values = context.series(column)
        if values is None:
            continue
        spread = 0.0 if column in _CLIMBING else _spread(context, column)
        z, median = deviations(values, WINDOW if column in _CLIMBING else _LEAST)
        effect = np.abs(values - median) > _EFFECT * np.fmax(np.abs(median), spread)
        mask = (np.abs(z) > context.thresholds.outlier_z) & effect
        if mask.any():
            worst = int(np.argmax(np.where(mask, np.abs(z), -1)))
            yield Finding(
                severity="warning",
                sentence=(
                    f"Outlier step: {context.label(column)} is far from the median of the steps before in "
                    f"{span(context.steps, mask)}."
                ),
                evidence=(
                    f"Step {context.steps[worst]:,}: {values[worst]:.4g}, {abs(z[worst]):.0f} robust "
                    f"deviations {'above' if z[worst] > 0 else 'below'} the median of the steps before "
                    f"({median[worst]:.4g}).",
                ),
                steps=tuple(context.steps[mask].tolist()),
                column=column,
                subject=column,
            )


def _spread(context: RuleContext, column: str) -> np.ndarray:
    """Return the standard deviation within each step, shape (S,); 0 for columns without sample values."""
    steps = context.snapshot.steps
    if column not in steps.columns:
        return np.zeros(len(context.steps))
    return np.nan_to_num(steps.std(column)[: len(context.steps)])
