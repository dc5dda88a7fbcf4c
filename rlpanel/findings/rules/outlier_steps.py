"""Steps that stand out from those before them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.finding import Finding, span
from rlpanel.findings.engine.rule import rule
from rlpanel.findings.engine.rule_context import RuleContext
from rlpanel.findings.engine.step_series import BACK, deviations

#: What is looked at, beside every part of the reward.
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
#: How many steps there must be to look back on.
_LEAST = 8
#: What begins at 0 and climbs to its level stands out from its past at first: a full look back is needed. Its
#: samples' spread is made by a few tokens and says nothing.
_CLIMBING = frozenset({"kl_k3_mean"})
#: Smaller moves, as a share of the usual value or of the samples' own spread, matter to nobody.
_EFFECT = 0.25


@rule("a step stands out", "outlier_z")
def outlier(look: RuleContext) -> Iterator[Finding]:
    """A step's number is more than this many robust deviations from the median of the 15 steps before.

    A robust deviation is 1.4826 times the median absolute deviation. It must also differ by a quarter of the
    median and of the samples' own spread.
    """
    parts = [name for name in look.snapshot.numbers if name.startswith("rewards/")]
    for column in (*_WATCHED, *parts):
        values = look.series(column)
        if values is None:
            continue
        spread = 0.0 if column in _CLIMBING else _spread(look, column)
        z, usual = deviations(values, BACK if column in _CLIMBING else _LEAST)
        effect = np.abs(values - usual) > _EFFECT * np.fmax(np.abs(usual), spread)
        mask = (np.abs(z) > look.thresholds.outlier_z) & effect
        if mask.any():
            at = int(np.argmax(np.where(mask, np.abs(z), -1)))
            yield Finding(
                "outlier",
                "warning",
                f"{look.label(column)} stands out in {span(look.steps, mask)}.",
                (
                    f"Step {look.steps[at]:,}: {values[at]:.4g}, {abs(z[at]):.0f} robust deviations "
                    f"{'above' if z[at] > 0 else 'below'} the median of the steps before ({usual[at]:.4g}).",
                ),
                tuple(look.steps[mask].tolist()),
                column,
                subject=column,
            )


def _spread(look: RuleContext, column: str) -> np.ndarray:
    """Deviation of each step's samples, shape (S,); 0 where the column is no sample's."""
    steps = look.snapshot.steps
    if column not in steps.columns:
        return np.zeros(len(look.steps))
    return np.nan_to_num(steps.std(column)[: len(look.steps)])
