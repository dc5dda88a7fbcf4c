"""Lint rules on answers: in the prompt, a verifier's secret in the prompt, another sample's ground truth."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from rlpanel.analysis.text_measures import has_word
from rlpanel.lint.lint_rule import Marks, lint_rule
from rlpanel.lint.lint_samples import DETAILED, LintSamples
from rlpanel.metrics.engine.segments import NO_GROUP
from rlpanel.sources.records.record_types import Record
from rlpanel.texts.shorten import shorten

_PART = "secrets"
#: Length of a ground truth that is not in a prompt by chance.
_LONG = 40
#: Characters before the ground truth in which a word introduces an answer.
_BEFORE = 32
_ANSWER = re.compile(
    r"(?:answer|ground[ _]?truth|solution|expected(?: output)?|correct(?: (?:answer|result))?|label|gold)"
    r"[^\w\n]{0,3}(?:is|are|was)?[^\w\n]{0,8}$",
    re.IGNORECASE,
)
_SECRET = re.compile(
    r"secret|canary|hidden|private|flag$|verifier|checker|expected|unit_?tests?", re.IGNORECASE
)
#: Length of a secret that is not in a prompt by chance.
_SECRET_CHARS = 8
#: Characters of ground truths that are compared.
_COMPARED = 200


@lint_rule(
    "The answer is not in the prompt",
    _PART,
    "ground_truth",
    "prompt",
    otherwise="ground_truth of two characters or more",
)
def answer_hidden(batch: LintSamples) -> Marks:
    """The prompt has the ground truth after a word such as "answer is", or one of 40 characters or more."""

    def check(record: Record) -> str | None:
        truth, prompt = record.texts.get("ground_truth", "").strip(), record.texts.get("prompt")
        if not truth or not prompt:
            return None
        if len(truth) >= _LONG:
            return f"the ground truth {shorten(truth, 40)!r} is in the prompt" if truth in prompt else ""
        if not has_word(prompt, truth):
            return ""
        at = prompt.find(truth)
        while at >= 0:
            if found := _ANSWER.search(prompt, max(at - _BEFORE, 0), at):
                return f"the prompt has {found[0] + truth!r}"
            at = prompt.find(truth, at + 1)
        return ""

    return batch.each(check)


@lint_rule(
    "The verifier's secret is not in the prompt",
    _PART,
    "prompt",
    otherwise="what only the verifier knows under a key such as secret, hidden_tests or expected_output",
)
def secret_hidden(batch: LintSamples) -> Marks:
    """The prompt has a text of 8 characters or more that is logged under a key such as ``secret``."""

    def check(record: Record) -> str | None:
        prompt, secrets = record.texts.get("prompt"), list(_secrets(record))
        if not prompt or not secrets:
            return None
        return next((f"the value of {key} is in the prompt" for key, text in secrets if text in prompt), "")

    return batch.each(check)


def _secrets(record: Record) -> Iterator[tuple[str, str]]:
    """Yield the texts that only the verifier knows, with their keys."""
    for fields in (record.extra, record.labels):
        for key, value in fields.items():
            if _SECRET.search(key.rpartition("/")[2]):
                yield from ((key, text) for text in _texts(value) if len(text) >= _SECRET_CHARS)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value.strip()
    elif isinstance(value, (list, tuple)):
        for each in value[:32]:
            yield from _texts(each)
    elif isinstance(value, dict):
        for each in list(value.values())[:32]:
            yield from _texts(each)


@lint_rule(
    "A group has one ground truth",
    _PART,
    "ground_truth",
    "group|prompt",
    otherwise="ground_truth of groups: several samples of a prompt in a step",
)
def one_truth(batch: LintSamples) -> Marks:
    """The ground truth differs from that of the group's first sample: it is another sample's.

    A group is an id, or without ids a prompt, within a step.
    """
    values, details = np.full(len(batch), np.nan), {}
    first = batch.facts.truths.setdefault(batch.step, {})
    for at, (record, group) in enumerate(zip(batch.records, batch.columns["group"].tolist(), strict=True)):
        truth = record.texts.get("ground_truth")
        if not truth or group == NO_GROUP:
            continue
        other = first.setdefault(group, truth[:_COMPARED])
        values[at] = other != truth[:_COMPARED]
        if values[at] and len(details) < DETAILED:
            details[at] = f"{shorten(truth, 40)!r}, and {shorten(other, 40)!r} in a sample before"
    return Marks(values, details)
