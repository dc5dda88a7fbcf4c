"""What the responses themselves show: repeated ones, and characters that are none."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.contrast import by_category, within_groups
from rlpanel.findings.engine.finding import Finding, span
from rlpanel.findings.engine.rule import rule
from rlpanel.findings.engine.rule_context import RuleContext
from rlpanel.findings.engine.step_series import lasting

#: The steps at a run's start that later ones are compared with, and those that are looked at together.
_START = 5


@rule("responses repeat", "duplicate_share")
def duplicates(look: RuleContext) -> Iterator[Finding]:
    """At least this share of a step's responses was already said by another of them."""
    share = look.series("repeated_responses")
    if share is None:
        return
    mask = share >= look.thresholds.duplicate_share
    if mask.any():
        at = int(np.argmax(np.where(mask, share, -1)))
        yield Finding(
            "duplicates",
            "alarm" if lasting(mask, 3).any() else "warning",
            f"Most responses repeat another of the same step in {span(look.steps, mask)}.",
            (
                f"Step {look.steps[at]:,}: {1 - share[at]:.0%} of the responses are distinct.",
                "Short answers, such as a number, repeat honestly.",
            ),
            tuple(look.steps[mask].tolist()),
            "repeated_responses",
        )


@rule("invalid characters rise", "rise")
def invalid_text(look: RuleContext) -> Iterator[Finding]:
    """The share of responses with U+FFFD is above that of the first five steps by more than this.

    For five steps in a row, and by more than chance explains. U+FFFD stands for bytes that are no UTF-8.
    """
    share = look.series("invalid_text_share")
    if share is None or len(share) < 2 * _START:
        return
    if not (np.isfinite(share[:_START]).any() and np.isfinite(share[-_START:]).any()):
        return
    start = float(np.nanmean(share[:_START]))
    risen = lasting(_above_chance(look, share, start), _START)
    risen[:_START] = False
    if not risen.any():
        return
    last = float(np.nanmean(share[-_START:]))
    mostly = lasting(_running(share) > 0.5, _START)
    first = f"{look.steps[0]:,}–{look.steps[_START - 1]:,}"
    evidence = [
        f"Share of responses with U+FFFD: {start:.1%} in steps {first}, {last:.1%} in the last five steps.",
        f"Above chance in {span(look.steps, risen)}"
        + (f"; five-step mean above half in {span(look.steps, mostly)}." if mostly.any() else "."),
    ]
    rows = look.rows[risen[look.row_steps]]
    broken = look.snapshot.number("invalid_chars")[rows] > 0
    evidence += by_category(look.snapshot, rows, broken, "responses with U+FFFD")
    late = look.snapshot.place("step")[rows] >= np.median(look.steps[risen])
    for part, when in ((~late, "In the first half of these steps"), (late, "In the second half")):
        told = within_groups(look.view, rows[part], broken[part], "responses with U+FFFD")
        evidence += [f"{when}: {line}" for line in told]
    yield Finding(
        "invalid_text",
        "alarm" if last > 0.5 else "warning",
        f"The share of responses with invalid UTF-8 rises from {start:.0%} to {last:.0%}.",
        tuple(evidence),
        tuple(look.steps[risen].tolist()),
        "invalid_text_share",
        "invalid_chars > 0",
    )


def _running(share: np.ndarray) -> np.ndarray:
    """Mean of each step with the two before and the two after it, as far as there are any."""
    kernel = np.ones(_START)
    return np.convolve(share, kernel, "same") / np.convolve(np.ones(len(share)), kernel, "same")


def _above_chance(look: RuleContext, share: np.ndarray, start: float) -> np.ndarray:
    """Steps whose share is beyond the threshold and four standard errors above the start's, shape (S,)."""
    count = look.snapshot.steps.samples[: len(share)]
    usual = max(start, 1 / (_START * float(np.median(count))))
    error = np.sqrt(usual * (1 - usual) / count)
    with np.errstate(invalid="ignore"):
        return share > start + np.maximum(look.thresholds.rise, 4 * error)
