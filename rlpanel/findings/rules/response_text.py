"""Rules on the text of responses: duplicates and invalid UTF-8."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.contrast import by_category, within_groups
from rlpanel.findings.engine.finding import Finding, span
from rlpanel.findings.engine.rule import rule
from rlpanel.findings.engine.rule_context import RuleContext
from rlpanel.findings.engine.step_series import long_stretches

#: Number of initial steps that later ones are compared with; also the window of the running mean.
_START = 5


@rule("Duplicate responses", "duplicate_share")
def duplicates(context: RuleContext) -> Iterator[Finding]:
    """At least this share of a step's responses duplicates another response of the step."""
    share = context.series("repeated_responses")
    if share is None:
        return
    mask = share >= context.thresholds.duplicate_share
    if mask.any():
        worst = int(np.argmax(np.where(mask, share, -1)))
        yield Finding(
            severity="alarm" if long_stretches(mask, 3).any() else "warning",
            sentence=(
                f"Duplicate responses: at least {context.thresholds.duplicate_share:.0%} of the responses "
                f"repeat another one of the same step in {span(context.steps, mask)}."
            ),
            evidence=(
                f"Step {context.steps[worst]:,}: only {1 - share[worst]:.0%} of the responses are distinct.",
                "For short answers, such as numbers, duplicates are normal.",
            ),
            steps=tuple(context.steps[mask].tolist()),
            column="repeated_responses",
        )


@rule("Invalid UTF-8", "rise")
def invalid_text(context: RuleContext) -> Iterator[Finding]:
    """The share of responses with U+FFFD exceeds that of the first five steps by more than this.

    It must do so for five steps in a row and by more than four standard errors. U+FFFD replaces bytes that
    are not valid UTF-8.
    """
    share = context.series("invalid_text_share")
    if share is None or len(share) < 2 * _START:
        return
    if not (np.isfinite(share[:_START]).any() and np.isfinite(share[-_START:]).any()):
        return
    start = float(np.nanmean(share[:_START]))
    risen = long_stretches(_above_chance(context, share, start), _START)
    risen[:_START] = False
    if not risen.any():
        return
    last = float(np.nanmean(share[-_START:]))
    mostly = long_stretches(_running_mean(share) > 0.5, _START)
    first = f"{context.steps[0]:,}–{context.steps[_START - 1]:,}"
    evidence = [
        f"Share of responses with U+FFFD: {start:.1%} in steps {first}, {last:.1%} in the last five steps.",
        f"Significantly above the start in {span(context.steps, risen)}"
        + (f"; five-step mean above 50% in {span(context.steps, mostly)}." if mostly.any() else "."),
    ]
    rows = context.rows[risen[context.row_steps]]
    broken = context.snapshot.number("invalid_chars")[rows] > 0
    evidence += by_category(context.snapshot, rows, broken, "responses with U+FFFD")
    late = context.snapshot.metadata("step")[rows] >= np.median(context.steps[risen])
    for part, when in ((~late, "In the first half of these steps"), (late, "In the second half")):
        contrast = within_groups(context.view, rows[part], broken[part], "responses with U+FFFD")
        evidence += [f"{when}: {line}" for line in contrast]
    yield Finding(
        severity="alarm" if last > 0.5 else "warning",
        sentence=(
            f"Invalid UTF-8: the share of affected responses rises from {start:.0%} to {last:.0%} since step "
            f"{context.steps[risen][0]:,}."
        ),
        evidence=tuple(evidence),
        steps=tuple(context.steps[risen].tolist()),
        column="invalid_text_share",
        where="invalid_chars > 0",
    )


def _running_mean(share: np.ndarray) -> np.ndarray:
    """Return the centred mean over five steps, shape (S,); over fewer steps at both ends."""
    kernel = np.ones(_START)
    return np.convolve(share, kernel, "same") / np.convolve(np.ones(len(share)), kernel, "same")


def _above_chance(context: RuleContext, share: np.ndarray, start: float) -> np.ndarray:
    """Return a mask of steps above the initial share by threshold and four standard errors, shape (S,)."""
    count = context.snapshot.steps.samples[: len(share)]
    expected = max(start, 1 / (_START * float(np.median(count))))
    error = np.sqrt(expected * (1 - expected) / count)
    with np.errstate(invalid="ignore"):
        return share > start + np.maximum(context.thresholds.rise, 4 * error)
