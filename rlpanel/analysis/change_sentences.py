"""Sentences on what the change of a step comes from."""

from __future__ import annotations

from rlpanel.analysis.step_change import NOISE, ChangePart, StepChange
from rlpanel.metrics.engine.column_info import describe
from rlpanel.number_text import number

#: A rank, group or category stands out with at least this share of the change, and this many times its share
#: of the samples.
HALF, STANDS_OUT = 0.5, 1.5
#: If fewer samples than this carry the change, their rank and category are a coincidence.
_MANY = 3


def sentences(change: StepChange) -> list[str]:
    """Return what the change comes from, in a few sentences; only what stands out is named."""
    label, steps = describe(change.column).label, f"from step {change.since:,} to {change.step:,}"
    if not change.change:
        return [f"{label} did not change {steps}."]
    few = change.of_kind("samples")
    if change.is_noise:
        return [
            f"The change of {label} {steps} is smaller than {NOISE:g} standard errors: nothing stands out."
        ]
    found = [_few_sentence(change, few[0], label)] if few else []
    if not few or few[0].count >= _MANY:
        found += [text for kind in change.kinds if (text := _kind_sentence(change, kind, label))]
    return found or [
        f"The change of {label} {steps} comes from many samples; no group or category stands out."
    ]


def _few_sentence(change: StepChange, few: ChangePart, label: str) -> str:
    verb, them = ("carries", "it") if few.count == 1 else ("carry", "them")
    return (
        f"{few.name} samples {verb} {few.share:.0%} of the change of {label} at step {change.step:,}: "
        f"without {them} it is {number(few.without)}, not {number(change.value)}."
    )


def _kind_sentence(change: StepChange, kind: str, label: str) -> str:
    """Return a sentence about the first part of a kind; empty if it does not stand out."""
    first = change.of_kind(kind)[0]
    size = first.count / change.samples
    if (
        kind in ("sample", "samples")
        or first.share < HALF
        or first.share < STANDS_OUT * size
        or first.count < 2
    ):
        return ""
    name = f"{kind} {first.name}" if kind in ("rank", "group") else f"{kind} = {first.name}"
    text = f"{name} carries {first.share:.0%} of the change of {label}"
    if not first.count_before:
        return f"{text}: its {first.count:,} of {change.samples:,} samples have {number(first.value)}."
    if abs(size * (first.value - first.before)) < HALF * abs(first.contribution):
        size_before = first.count_before / change.samples_before
        return f"{text}: its share of the samples went from {size_before:.0%} to {size:.0%}."
    return (
        f"{text}: its {first.count:,} of {change.samples:,} samples have {number(first.value)}, after "
        f"{number(first.before)} at step {change.since:,}."
    )
