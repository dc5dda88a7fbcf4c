"""Merges findings that share steps and place: the likely cause leads, its symptoms are listed below it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rlpanel.findings.engine.finding import SEVERITIES, Finding

#: Rules, or a rule and the begin of its subject, from causes to symptoms; the longest that fits counts.
_CAUSES = (
    "rank_repeats",
    "rank_stale",
    "missing_rank",
    "shifted_logprobs",
    "not_finite",
    "odd_fields",
    "environment_errors",
    "tool_fails",
    "missing_rewards",
    "discarded_samples",
    "stale_samples",
    "not_finite:advantage",
    "engine",
    "ratio",
    "advantage_explodes",
    "advantage_sign",
    "advantage_centre",
    "advantage_scale",
    "special_tokens",
    "prompt_echo",
    "empty_responses",
    "invalid_text",
    "language_drift",
    "collapse",
    "sustained_change:surprisal",
    "truncated",
    "turns_collapse",
    "errors_rewarded",
    "duplicates",
    "sustained_change:kl",
    "kl_spike",
    "rank_differs",
    "sustained_change:response",
    "held_out",
    "length_reward",
    "critic_variance",
    "critic_error",
    "zero_variance",
    "negative_kl",
    "sustained_change:rewards/",
    "sustained_change",
    "outlier",
)
#: Onsets this close belong together: steps, and share of the run.
_NEAR_STEPS, _NEAR_SHARE = 4, 0.08
#: Smallest share of the shorter finding's steps that both findings have.
_OVERLAP = 0.5


def merged(findings: Sequence[Finding], steps: np.ndarray) -> list[Finding]:
    """Merge the findings of one cause.

    Parameters
    ----------
    findings : sequence of Finding
    steps : ndarray of int, shape (S,)
        The complete steps of the run.

    Returns
    -------
    list of Finding
        The leading findings, each with its symptoms. A leading finding is as severe as its worst symptom that
        goes on.
    """
    leading: list[list[Finding]] = []
    for finding in sorted(findings, key=_rank_of_cause):
        family = next((family for family in leading if _same_cause(family[0], finding, steps)), None)
        if family is None:
            leading.append([finding])
        else:
            family.append(finding)
    return [_lead(family) for family in leading]


def _rank_of_cause(finding: Finding) -> int:
    names = [each for each in _CAUSES if finding.key.startswith(each if ":" in each else f"{each}:")]
    return _CAUSES.index(max(names, key=len)) if names else len(_CAUSES)


def _same_cause(cause: Finding, finding: Finding, steps: np.ndarray) -> bool:
    """Return True if both begin together, last together, and hold in the same place."""
    if not cause.steps or not finding.steps:
        return False
    if cause.rank is not None and finding.rank is not None and cause.rank != finding.rank:
        return False
    if cause.category and finding.category and cause.category != finding.category:
        return False
    near = max(_NEAR_STEPS, _NEAR_SHARE * len(steps))
    first, second = (int(np.searchsorted(steps, each.steps[0])) for each in (cause, finding))
    shared = len(set(cause.steps) & set(finding.steps))
    return abs(first - second) <= near and shared >= _OVERLAP * min(len(cause.steps), len(finding.steps))


def _lead(family: list[Finding]) -> Finding:
    cause, *symptoms = family
    severity = min((each.severity for each in family), key=SEVERITIES.index)
    return replace(cause, severity=severity, symptoms=tuple(symptoms)) if symptoms else cause
