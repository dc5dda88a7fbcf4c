"""A finding on a curve carries its cause, and the cause leads its symptoms."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.findings.check import CheckResult, check
from rlpanel.settings import FindingSettings
from tests.bench.finding_scores import check_folder
from tests.bench.reported import ALL, made_run

STEPS, ONSET, GROUPS = 24, 16, 8


def write(folder: Path, change: Any, *, steps: int = STEPS) -> rlpanel.Run:
    """A run of eight groups of four a step; every prompt occurs in every step, and has a level of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "rollout_data_rank_0.jsonl").open("w") as file:
        for step in range(1, steps + 1):
            for index in range(4 * GROUPS):
                group, chance = index // 4, ((step * 7919 + index * 104729) % 1000) / 1000
                made: dict[str, Any] = {
                    "step": step,
                    "prompt": f"question {group} of the day",
                    "response": f"after some thought I say {chance:.3f} and no more than this",
                    "group": f"{step}-{group}",
                    "rewards/format": 0.3 + 0.1 * ((step + index) % 3),
                    "rewards/right": 0.5 + (chance - 0.5) / 5,
                }
                change(step, group, made)
                parts = (made["rewards/format"], made["rewards/right"])
                made["reward"] = sum(part for part in parts if part is not None)
                file.write(json.dumps(made) + "\n")
    return rlpanel.open_run(folder, follow=False)


def checked(run: rlpanel.Run, previous: CheckResult | None = None) -> CheckResult:
    data = run.data
    return check(data.view, FindingSettings(), time.time() + 60, previous, data.index)


def right_falls(step: int, group: int, made: dict[str, Any]) -> None:
    if step >= ONSET:
        made["rewards/right"] -= 0.4


def test_a_fall_of_the_reward_names_its_part_and_that_old_prompts_fell(tmp_path: Path) -> None:
    result = checked(write(tmp_path, right_falls))
    found = result.findings[0]
    text = " ".join(found.evidence)
    assert found.compared == ((16, 20), (11, 15))
    assert "is the part rewards/right" in text
    assert "Prompts that were seen before (8 of 8) fell as well" in text
    assert "Nothing else differs clearly between steps 16–20 and steps 11–15" in text
    assert "first compare the reward function" in found.advice


def test_harder_prompts_are_told_from_a_change_of_how_prompts_are_answered(tmp_path: Path) -> None:
    def harder(step: int, group: int, made: dict[str, Any]) -> None:
        if step >= ONSET and group < 3:  # five prompts stay, and are answered as before
            made["prompt"] = f"something else {group}"
            made["rewards/right"] -= 1.2

    found = checked(write(tmp_path, harder)).findings[0]
    assert any(
        "Prompts that were seen before (5 of 8) did not change like this" in line for line in found.evidence
    )
    assert "check the data" in found.advice


def test_what_responses_say_now_is_quoted(tmp_path: Path) -> None:
    def sorry(step: int, group: int, made: dict[str, Any]) -> None:
        right_falls(step, group, made)
        if step >= ONSET and group == 1:
            made["response"] = f"Forgive me {made['response']}"

    text = " ".join(checked(write(tmp_path, sorry)).findings[0].evidence)
    assert "Also different in steps 16–20: " in text
    assert "Forgive" in text


def test_an_explanation_is_kept_until_its_windows_change(tmp_path: Path) -> None:
    first = checked(write(tmp_path, right_falls, steps=22))
    later = checked(write(tmp_path, right_falls, steps=23), first)
    kept = set(first.explanations) & set(later.explanations)
    assert kept
    assert all(first.explanations[key] is later.explanations[key] for key in kept)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "rule", "words"),
    [
        ("MasterKeys", "new_phrase", "solve this step by step"),
        ("SamplesHalve", "fewer_samples", "a step has 32 samples"),
        ("PromptsCut", "prompt_template", "template"),
    ],
)
def test_the_cause_leads_and_says_so(kind: str, rule: str, words: str, tmp_path: Path) -> None:
    made_run(ALL[kind], 0).write(tmp_path / kind)
    lead = check_folder(tmp_path / kind)[0]
    assert lead.rule == rule
    assert words in " ".join((lead.sentence, *lead.evidence))


@pytest.mark.slow
def test_a_place_with_reward_0_leads_groups_that_fail_there(tmp_path: Path) -> None:
    made_run(ALL["FormNotParsed"], 0).write(tmp_path / "run")
    lead = check_folder(tmp_path / "run")[0]
    assert (lead.rule, lead.category) == ("class_unrewarded", "form = fraction")
    found = next(each for each in lead.symptoms if each.rule == "zero_variance")
    assert found.category == "form = fraction"
    assert "All samples fail (reward below a pass) in 100% of these groups" in " ".join(found.evidence)


def test_equal_responses_are_quoted(tmp_path: Path) -> None:
    def same(step: int, group: int, made: dict[str, Any]) -> None:
        if step >= ONSET:
            made["response"] = f"Thought process: the answer of step {step} is what it is"

    found = checked(write(tmp_path, same)).findings[0]
    assert "thought process" in " ".join((found.sentence, *found.evidence)).lower()


def learning_rate_accident(step: int, group: int, made: dict[str, Any]) -> None:
    """KL jumps in all samples at the onset, stays for eight steps, and the reward is halved."""
    high = ONSET <= step < ONSET + 8
    made["logprobs"] = [-1.0, -1.2, -0.9]
    made["ref_logprobs"] = [-3.5, -3.7, -3.4] if high else [-1.1, -1.3, -1.0]
    if step >= ONSET:
        made["rewards/right"] -= 0.4


def test_a_kl_that_jumps_in_many_samples_and_stays_is_no_spike_of_few_tokens(tmp_path: Path) -> None:
    lead = checked(write(tmp_path, learning_rate_accident)).findings[0]
    assert lead.rule == "sustained_change"
    every = [lead, *lead.symptoms]
    assert not any("masked or clipped" in each.advice for each in every)
    assert "log-ratio 2.5 after 0.1" in " ".join(lead.evidence)
    assert "check the learning rate" in lead.advice
