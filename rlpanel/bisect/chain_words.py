"""Sentences of a bisection, as templates with values, so that the page can show them in another language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

NOISE = "{number} shows no change beyond noise in {steps:,} steps."
LEAST = "{number} shows no change beyond noise in {steps:,} steps. A change of {least} would have been found."
SHORT = "There are too few complete steps for a comparison: a bisection needs four."
ALONE = (
    "{step}: {change}. Nothing that is logged explains it: of {tests:,} numbers, none changed before it in "
    "the samples that carry it."
)
ALONE_WITH = (
    "{step}: {change}. Of {tests:,} numbers, none explains it beyond two standard errors; "
    "{names} changed as well."
)
ALONE_IN_ALL = (
    "{step}: {change}. Of {tests:,} numbers, none explains it within the samples. These changed in all "
    "samples up to then, so that only the time speaks for them: {names}."
)
CHAIN = "{chain}"
REMOVED = "Without {names} ({count:,} of {of:,} samples), {without} is left ({before} before the change)."
REMOVED_ONE_BY_ONE = (
    "No label and no link undoes the change. Without the {count:,} of {of:,} samples with the most extreme "
    "values, {without} is left ({before} before the change): chosen by their values, they name no cause."
)
FEW_STEPS = "The run has {steps:,} complete steps: only large changes stand out from their noise."
TOGETHER = "The data do not show whether {one} or {two} came first: both begin within a step of {step:,}."
BY_TIME = "{name} holds for all samples of a step: only the order of time speaks for it."
UNEXPLAINED = "{share:.0%} of the change is not explained by the first link."
OUTSIDE = "The cause may lie outside of what is logged, such as weights, code or data."
BEFORE_FIRST = "What caused the first link lies outside of what is logged."
NO_GROUP = "Samples have no group: those of one prompt count as independent, and errors may be too small."
ONE_GROUP = "Each step has one group: errors come from the differences between steps alone."
NOT_WITHIN = "No group has samples with and without these changes: prompts may differ, too."
FEW_BEFORE = "There are {steps:,} steps before the change: small changes before it cannot be seen."
RESUMED = "The run was resumed at step {step:,}: the data do not separate its effects from others then."
NO_TEXTS = "Texts were not read."

#: All templates, for translators.
TEMPLATES = (
    *(
        NOISE,
        LEAST,
        SHORT,
        ALONE,
        ALONE_WITH,
        ALONE_IN_ALL,
        REMOVED,
        REMOVED_ONE_BY_ONE,
        FEW_STEPS,
        TOGETHER,
        BY_TIME,
        UNEXPLAINED,
    ),
    *(OUTSIDE, BEFORE_FIRST, NO_GROUP, ONE_GROUP, NOT_WITHIN, FEW_BEFORE, RESUMED, NO_TEXTS),
)
#: What a bisection does, in the order of its progress.
STAGES = ("comparing the steps", "reading texts", "comparing ranks and labels", "ordering the changes")


class Sentence(NamedTuple):
    """A template and its values.

    Attributes
    ----------
    template : str
    values : mapping
    """

    template: str
    values: Mapping[str, Any] = {}

    @property
    def text(self) -> str:
        """The sentence in English."""
        return self.template.format(**self.values)
