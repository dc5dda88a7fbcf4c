"""Findings of one cause are merged; those of other steps or places are not."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpanel.findings import rules  # noqa: F401  (importing them registers them)
from rlpanel.findings.check import CAUSES, merged
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RULES

STEPS = np.arange(1, 101)


def finding(rule: str, first: int, last: int = 100, **fields: Any) -> Finding:
    fields = {"severity": "warning", "sentence": rule} | fields
    return Finding(rule=rule, steps=tuple(range(first, last + 1)), ongoing=last == 100, **fields)


def names(findings: list[Finding]) -> list[tuple[str, list[str]]]:
    return [(lead.rule, [symptom.rule for symptom in lead.symptoms]) for lead in findings]


def test_the_cause_leads_its_symptoms() -> None:
    found = [finding("sustained_change", 42), finding("collapse", 44), finding("special_tokens", 40)]
    assert names(merged(found, STEPS)) == [("special_tokens", ["collapse", "sustained_change"])]


def test_missing_rewards_lead_missing_advantages_and_nan_leads_missing_rewards() -> None:
    advantages, rewards = finding("not_finite", 40, subject="advantage"), finding("missing_rewards", 40)
    assert names(merged([advantages, rewards], STEPS)) == [("missing_rewards", ["not_finite"])]
    logprobs = finding("not_finite", 40, subject="logprobs")
    assert names(merged([logprobs, rewards], STEPS)) == [("not_finite", ["missing_rewards"])]


def test_the_leading_finding_is_as_severe_as_its_worst_symptom() -> None:
    found = [finding("sustained_change", 42, severity="alarm"), finding("special_tokens", 40)]
    assert [lead.severity for lead in merged(found, STEPS)] == ["alarm"]


def test_findings_of_other_steps_stay_alone() -> None:
    found = [finding("special_tokens", 10, 20), finding("sustained_change", 40), finding("collapse", 80)]
    assert names(merged(found, STEPS)) == [
        ("special_tokens", []),
        ("collapse", []),
        ("sustained_change", []),
    ]


def test_findings_of_two_ranks_or_categories_stay_alone() -> None:
    ranks = [finding("engine", 40, rank=1), finding("rank_differs", 40, rank=2)]
    assert len(merged(ranks, STEPS)) == 2
    categories = [
        finding("empty_responses", 40, category="lang = zh"),
        finding("sustained_change", 40, category="lang = en"),
    ]
    assert len(merged(categories, STEPS)) == 2
    assert len(merged([categories[0], finding("sustained_change", 40)], STEPS)) == 1


def test_every_rule_has_a_place_between_causes_and_symptoms() -> None:
    clock = {rule.name for rule in RULES.values() if rule.clock}
    assert {each.partition(":")[0] for each in CAUSES} == set(RULES) - clock


def test_a_likely_cause_that_begins_later_is_a_symptom() -> None:
    found = [finding("special_tokens", 44), finding("sustained_change", 40, subject="reward")]
    assert names(merged(found, STEPS)) == [("special_tokens", ["sustained_change"])]
    found = [finding("special_tokens", 46), finding("sustained_change", 40, subject="reward")]
    assert names(merged(found, STEPS)) == [("sustained_change", ["special_tokens"])]


def test_groups_without_variance_do_not_lead_a_fallen_reward() -> None:
    found = [finding("zero_variance", 40), finding("sustained_change", 40, subject="reward")]
    assert names(merged(found, STEPS)) == [("sustained_change", ["zero_variance"])]


def test_the_first_outlying_steps_of_a_change_are_not_told_again() -> None:
    change = finding("sustained_change", 40, column="reward", sort="reward")
    after = finding("outlier", 45, 47, column="reward", sort="reward")
    assert names(merged([change, after], STEPS)) == [("sustained_change", [])]
    for other in (
        finding("outlier", 45, 47, column="reward", sort="-reward"),
        finding("outlier", 45, 47, column="kl_k3_mean", sort="reward"),
        finding("outlier", 70, 71, column="reward", sort="reward"),
    ):
        told = merged([change, other], STEPS)
        assert len(told) + sum(len(lead.symptoms) for lead in told) == 2


def test_a_rule_that_reads_some_samples_of_each_step_may_begin_later() -> None:
    found = [
        finding("new_phrase", 46, subject="response"),
        finding("duplicates", 42),
        finding("sustained_change", 40, subject="rewards/format"),
    ]
    assert names(merged(found, STEPS)) == [("new_phrase", ["duplicates", "sustained_change"])]


def test_a_kl_that_stays_high_is_a_symptom_of_the_fall_of_the_reward() -> None:
    found = [finding("kl_spike", 40, subject="lasting"), finding("sustained_change", 40, subject="reward")]
    assert names(merged(found, STEPS)) == [("sustained_change", ["kl_spike"])]


def test_few_samples_lead_advantages_that_are_not_centred() -> None:
    found = [finding("advantage_centre", 40), finding("fewer_samples", 40, subject="samples")]
    assert names(merged(found, STEPS)) == [("fewer_samples", ["advantage_centre"])]
