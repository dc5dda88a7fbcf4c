"""Each rule fires on a run with its problem, and not on the same run without it."""

from __future__ import annotations

import json
import pickle
import random
import statistics
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlpanel
from docs.generate import FOLDER
from rlpanel.app.demo import write_recording
from rlpanel.errors import SettingError
from rlpanel.findings.check import check, findings
from rlpanel.findings.engine.change import span
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RULES
from rlpanel.settings import FindingSettings
from rlpanel.store.snapshot.run_view import RunView
from tests.unit.findings.rules.test_reported_rules import REPORTED

STEPS, SAMPLES = 24, 32
#: Seconds a step takes.
PACE = 30.0
#: First step with an artificial problem.
FROM = 20

Change = Callable[[int, int, dict[str, Any]], None]


def reward_of(step: int, index: int) -> float:
    return random.Random(f"reward {step}-{index}").gauss(1.0, 0.3)


def advantage_of(step: int, index: int) -> float:
    """GRPO's advantage in a group of four."""
    rewards = [reward_of(step, index // 4 * 4 + member) for member in range(4)]
    return (reward_of(step, index) - statistics.mean(rewards)) / (statistics.stdev(rewards) + 1e-4)


def rank_of(index: int) -> int:
    """Groups alternate between two ranks."""
    return index // 4 % 2


def healthy(step: int, index: int) -> dict[str, Any]:
    """A sample of a run that nothing is wrong with; a new object, which a test may change."""
    return dict(pickle.loads(_healthy(step, index)[1]))


@cache
def _healthy(step: int, index: int) -> tuple[str, bytes]:
    """Return the line of a healthy sample without its end, and its pickled object."""
    chance = random.Random(f"{step}-{index}")
    count = chance.randint(10, 16)
    logprobs = [-chance.uniform(0.5, 1.5) for _ in range(count)]
    returns = [chance.gauss(0.5, 0.3) for _ in range(count)]
    row = {
        "step": step,
        "prompt": f"Write down as many numbers of the list as you like, then their sum: list {index // 4}",
        "response": "sum " + " ".join(str(chance.randint(0, 99)) for _ in range(count)),
        "response_tokens": [f" {at}" for at in range(count)],
        "group": str(index // 4),
        "reward": reward_of(step, index),
        "advantage": advantage_of(step, index),
        "logprobs": logprobs,
        "ref_logprobs": [logprob - chance.gauss(0.3, 0.3) for logprob in logprobs],
        "rollout_logprobs": [logprob + chance.gauss(0.0, 0.005) for logprob in logprobs],
        "old_logprobs": logprobs,
        "new_logprobs": [logprob + chance.gauss(0.0, 0.02) for logprob in logprobs],
        "values": [each + chance.gauss(0.0, 0.1) for each in returns],
        "returns": returns,
        "finish_reason": "stop",
        "lang": "zh" if index >= SAMPLES // 2 else "en",
    }
    return json.dumps(row)[:-1], pickle.dumps(row)


def look(folder: Path, change: Change | None = None, *, now: float | None = None) -> list[Finding]:
    """Return the findings of a run with two ranks whose samples ``change`` modified."""
    folder.mkdir(parents=True, exist_ok=True)
    begun = time.time() - STEPS * PACE  # its last line is written now
    files = [(folder / f"rollout_data_rank_{rank}.jsonl").open("w") for rank in (0, 1)]
    for step in range(1, STEPS + 1):
        for index in range(SAMPLES):
            text, data = _healthy(step, index)
            before = pickle.loads(data) | {"time": begun + step * PACE}
            row = pickle.loads(data) | {"time": before["time"]}
            if change is not None:
                change(step, index, row)
            if row == before:
                files[rank_of(index)].write(f'{text}, "time": {row["time"]!r}}}\n')
            elif row:
                files[rank_of(index)].write(json.dumps(row) + "\n")
    for file in files:
        file.close()
    run = rlpanel.open_run(folder)
    try:
        written = run.snapshot.newest_line
        return findings(run.view, FindingSettings(max_lag=4), written + 5 if now is None else written + now)
    finally:
        run.close()


def cut(step: int, index: int, row: dict[str, Any]) -> None:
    row["finish_reason"] = "length" if step >= FROM else "stop"


def long_is_good(step: int, index: int, row: dict[str, Any]) -> None:
    if step >= 10:
        row["reward"] = len(row["response_tokens"]) / 10


def same_rewards(step: int, index: int, row: dict[str, Any]) -> None:
    if step >= FROM:
        row["reward"] = 0.0


def kl_leaps(step: int, index: int, row: dict[str, Any]) -> None:
    if step == FROM and index == 3:
        row["ref_logprobs"][0] += 6.0


def reference_is_surer(step: int, index: int, row: dict[str, Any]) -> None:
    if step >= FROM:
        row["ref_logprobs"] = [logprob + 0.3 for logprob in row["logprobs"]]


def entropy_falls(step: int, index: int, row: dict[str, Any]) -> None:
    if step >= FROM:
        for name in ("logprobs", "ref_logprobs", "rollout_logprobs", "old_logprobs", "new_logprobs"):
            row[name] = [logprob / 20 for logprob in row[name]]


def update_too_large(step: int, index: int, row: dict[str, Any]) -> None:
    if step >= FROM:
        row["new_logprobs"] = [logprob + 1.0 for logprob in row["old_logprobs"]]


def engine_differs(step: int, index: int, row: dict[str, Any]) -> None:
    if step >= FROM:
        row["rollout_logprobs"] = [logprob - 0.2 for logprob in row["logprobs"]]


def engine_is_shifted(step: int, index: int, row: dict[str, Any]) -> None:
    if step >= FROM:
        row["rollout_logprobs"] = [*row["logprobs"][1:], -0.7]


def repeats(step: int, index: int, row: dict[str, Any]) -> None:
    if step >= FROM:
        row["response"] = f"always the same response {index % 4}"


def breaks_characters(step: int, index: int, row: dict[str, Any]) -> None:
    if step >= 10 and row["lang"] == "zh":
        row["response"] += " \ufffd"


def says_nothing(step: int, index: int, row: dict[str, Any]) -> None:
    if step >= FROM and index % 4:
        row["response"], row["finish_reason"] = "", "stop"


def ends_at_once(step: int, index: int, row: dict[str, Any]) -> None:
    """The end token is all that is sampled, and it is decoded."""
    if step >= FROM and index % 4:
        row["response"], row["finish_reason"] = "<|im_end|>", "stop"


def leaks_template(step: int, index: int, row: dict[str, Any]) -> None:
    if step >= FROM and row["lang"] == "zh":
        row["response"] = f"{row['response']}<|im_end|><|im_start|>user"


def repeats_prompt(step: int, index: int, row: dict[str, Any]) -> None:
    if step >= FROM:
        row["response"] = f"{row['prompt']} {row['response']}"


def changes_language(step: int, index: int, row: dict[str, Any]) -> None:
    if step >= FROM and row["lang"] == "zh":
        row["response"] = "\u7b54\u6848\u662f " + row["response"]


def reward_jumps(step: int, index: int, row: dict[str, Any]) -> None:
    if step == FROM:
        row["reward"] += 5.0


def reward_falls(step: int, index: int, row: dict[str, Any]) -> None:
    if step >= FROM:
        row["reward"] -= 0.8


def reward_is_missing(step: int, index: int, row: dict[str, Any]) -> None:
    if step >= FROM and index % 3 == 0:
        row["reward"] = None


def held_out_falls(step: int, index: int, row: dict[str, Any]) -> None:
    row["valid_reward"] = row["reward"]
    if step >= FROM:
        row["reward"] += 0.6
        row["valid_reward"] -= 0.6


def advantage_flips(step: int, index: int, row: dict[str, Any]) -> None:
    if step >= FROM:
        row["advantage"] = -row["advantage"]


def advantage_moves(step: int, index: int, row: dict[str, Any]) -> None:
    if step >= FROM:
        row["advantage"] += 2.0


def advantage_shrinks(step: int, index: int, row: dict[str, Any]) -> None:
    if step >= FROM:
        row["advantage"] *= 0.3


def advantage_grows(step: int, index: int, row: dict[str, Any]) -> None:
    if step >= FROM and index // 4 == 2:
        row["advantage"] *= 1000


def critic_fails(step: int, index: int, row: dict[str, Any]) -> None:
    if step >= FROM:
        row["values"] = [1.0 - value for value in row["values"]]


def critic_errs(step: int, index: int, row: dict[str, Any]) -> None:
    if step >= FROM:
        row["values"] = [value + 1.5 for value in row["values"]]


def holds_nan(step: int, index: int, row: dict[str, Any]) -> None:
    if step == FROM and index == 3:
        row["values"][2] = float("nan")


def too_few_values(step: int, index: int, row: dict[str, Any]) -> None:
    if step == FROM and index == 3:
        row["values"] = row["values"][:-1]


def rank_stops(step: int, index: int, row: dict[str, Any]) -> None:
    if step >= FROM and rank_of(index):
        row.clear()


def rank_is_worse(step: int, index: int, row: dict[str, Any]) -> None:
    if step >= FROM and rank_of(index):
        row["reward"] -= 0.9


def rank_copies_rank(step: int, index: int, row: dict[str, Any]) -> None:
    if step >= FROM and rank_of(index):
        row |= healthy(step, index - 4)


def rank_copies_step(step: int, index: int, row: dict[str, Any]) -> None:
    if step >= FROM and rank_of(index):
        row |= healthy(FROM, index) | {"step": step}


def talk(row: dict[str, Any], results: list[str]) -> None:
    """Make the response one of several turns, each but the last with a call and its result."""
    turns: list[dict[str, Any]] = []
    for result in results:
        call = {"name": "search", "arguments": "{}"}
        turns += [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": result},
        ]
    row["response"] = [*turns, {"role": "assistant", "content": row["response"]}]


def turns_fall(step: int, index: int, row: dict[str, Any]) -> None:
    talk(row, ["found"] * (1 + index % 3 if step < FROM else 0))


def search_fails(step: int, index: int, row: dict[str, Any]) -> None:
    fails = (step * 7 + index) % 10 < (6 if step >= FROM else 1)
    talk(row, ["Error: no connection" if fails else "found"])


def errors_pay(step: int, index: int, row: dict[str, Any]) -> None:
    fails = (step + index) % 4 == 0
    talk(row, ["Error: no connection" if fails else "found"])
    row["reward"] += 0.5 * fails
    del row["advantage"]  # it would no longer be the reward's


def environment_fails(step: int, index: int, row: dict[str, Any]) -> None:
    fails = (step * 7 + index) % 10 < (6 if step >= FROM else 1)
    row["status"] = "environment_error" if fails else "ok"


def batches_shrink(step: int, index: int, row: dict[str, Any]) -> None:
    fails = (step * 7 + index) % 10 < (6 if step >= FROM else 1)
    row["split"] = "discarded" if fails else "train"


def samples_age(step: int, index: int, row: dict[str, Any]) -> None:
    row |= {"policy_version": step - (9 if step >= FROM and index % 5 == 3 else 1), "trainer_version": step}


BROKEN: dict[str, Change] = {
    "truncated": cut,
    "length_reward": long_is_good,
    "zero_variance": same_rewards,
    "kl_spike": kl_leaps,
    "negative_kl": reference_is_surer,
    "collapse": entropy_falls,
    "ratio": update_too_large,
    "engine": engine_differs,
    "shifted_logprobs": engine_is_shifted,
    "duplicates": repeats,
    "invalid_text": breaks_characters,
    "empty_responses": says_nothing,
    "special_tokens": leaks_template,
    "prompt_echo": repeats_prompt,
    "language_drift": changes_language,
    "outlier": reward_jumps,
    "sustained_change": reward_falls,
    "missing_rewards": reward_is_missing,
    "held_out": held_out_falls,
    "advantage_sign": advantage_flips,
    "advantage_centre": advantage_moves,
    "advantage_scale": advantage_shrinks,
    "advantage_explodes": advantage_grows,
    "critic_variance": critic_fails,
    "critic_error": critic_errs,
    "not_finite": holds_nan,
    "odd_fields": too_few_values,
    "missing_rank": rank_stops,
    "rank_differs": rank_is_worse,
    "rank_repeats": rank_copies_rank,
    "rank_stale": rank_copies_step,
    "turns_collapse": turns_fall,
    "tool_fails": search_fails,
    "errors_rewarded": errors_pay,
    "environment_errors": environment_fails,
    "discarded_samples": batches_shrink,
    "stale_samples": samples_age,
}
#: Rules that name one step.
ONE_STEP = {"kl_spike", "outlier", "not_finite", "odd_fields"}
#: Where a rule is about one rank, or its scenario about one category.
RANK_1 = {"missing_rank", "rank_differs", "rank_repeats", "rank_stale"}
ZH = {"invalid_text", "special_tokens", "language_drift"}


def flat(found: list[Finding]) -> list[Finding]:
    """The findings and their symptoms."""
    return [each for finding in found for each in (finding, *finding.symptoms)]


def test_a_healthy_run_has_no_findings(tmp_path: Path) -> None:
    assert look(tmp_path / "run") == []


@pytest.mark.parametrize("rule", BROKEN)
def test_a_rule_finds_what_breaks_it_and_where(tmp_path: Path, rule: str) -> None:
    found = [finding for finding in flat(look(tmp_path / "run", BROKEN[rule])) if finding.rule == rule]
    assert len(found) == 1
    if rule == "errors_rewarded":  # it is about the whole run
        assert (found[0].steps, found[0].where) == ((), "`tool_errors.search` > 0")
        return
    first = 10 if rule in {"length_reward", "invalid_text"} else FROM + (rule == "rank_stale")
    last = FROM if rule in ONE_STEP else STEPS
    assert (found[0].onset, found[0].last) == (first, last)
    assert found[0].ongoing == (last == STEPS)
    assert found[0].evidence
    assert found[0].rank == (1 if rule in RANK_1 else None)
    assert (found[0].category or "lang = zh") == "lang = zh"
    assert rule not in ZH or found[0].category or found[0].rank


def test_a_response_that_is_only_an_end_token_is_empty(tmp_path: Path) -> None:
    [found] = [each for each in flat(look(tmp_path / "run", ends_at_once)) if each.rule == "empty_responses"]
    assert found.sentence.startswith(f"From step {FROM} on, 75% of the responses are empty")
    assert "response_chars <= 10" in found.where


def some_fail_always(step: int, index: int, row: dict[str, Any]) -> None:
    """One in ten calls and environments fails, from the start."""
    talk(row, ["Error: no connection" if (step * 7 + index) % 10 == 0 else "found"])
    row["status"] = "environment_error" if (step * 7 + index) % 10 == 5 else "ok"


def turns_fall_a_little(step: int, index: int, row: dict[str, Any]) -> None:
    talk(row, ["found"] * (4 if step < FROM else 3))


def hard_prompts_pay(step: int, index: int, row: dict[str, Any]) -> None:
    """Prompts with a higher reward have more errors; within a group errors do not matter."""
    hard = index // 8 % 2 == 1
    talk(row, ["Error: no connection" if (step + index) % 4 < (2 if hard else 1) else "found"])
    row["reward"] += 1.0 * hard


def old_enough(step: int, index: int, row: dict[str, Any]) -> None:
    row |= {"policy_version": step - 4, "trainer_version": step}


def test_the_trainers_own_bound_of_the_lag_counts(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text('{"max_off_policy_steps": 3}')
    (found,) = look(folder, old_enough)
    assert found.rule == "stale_samples"
    assert found.sentence.endswith("were written by a policy that is up to 4 versions old; the bound is 3.")


@pytest.mark.parametrize("odd", [some_fail_always, turns_fall_a_little, hard_prompts_pay, old_enough])
def test_an_odd_but_healthy_run_of_an_agent_has_no_findings(tmp_path: Path, odd: Change) -> None:
    found = look(tmp_path / "run", odd)
    assert [each for each in found if each.rule != "something_changed" or each.severity != "info"] == []


@pytest.mark.parametrize(
    ("policy", "reference", "rules"),
    [(-12.0, -0.5, ["kl_spike"]), (-0.5, -40.0, [])],
    ids=["held unlikely by the policy", "held impossible by the reference"],
)
def test_one_token_makes_a_kl_spike_if_the_policy_held_it_unlikely(
    tmp_path: Path, policy: float, reference: float, rules: list[str]
) -> None:
    def change(step: int, index: int, row: dict[str, Any]) -> None:
        if (step, index) == (FROM, 3):
            row["logprobs"][0], row["ref_logprobs"][0] = policy, reference

    found = [finding for finding in look(tmp_path / "run", change) if finding.rule == "kl_spike"]
    assert [finding.rule for finding in found] == rules
    for finding in found:
        assert "token that the policy held very unlikely and the reference did not" in finding.evidence[1]
        assert finding.evidence[0].startswith("1 of 32 samples carries 100% of the change of KL k3")


def test_every_rule_is_broken_once() -> None:
    # In test_unnamed_changes, test_distillation and test_shares_and_evaluations.
    others = {"quiet", "something_changed", "teacher_scores", "evaluation_run"}
    assert {*BROKEN, *REPORTED, *others} == set(RULES)


def test_a_quiet_run_is_reported_for_a_limited_time(tmp_path: Path) -> None:
    said = [[f.rule for f in look(tmp_path / str(now), now=now)] for now in (60.0, 120.0, 7200.0)]
    assert said == [[], ["quiet"], []]  # a step took 30 s


def test_each_silence_is_a_finding_of_its_own(tmp_path: Path) -> None:
    def earlier(step: int, index: int, row: dict[str, Any]) -> None:
        row["time"] += 4 * PACE
        if step > STEPS - 4:
            row.clear()

    found = look(tmp_path / "then", earlier, now=120.0), look(tmp_path / "now", now=120.0)
    assert [finding.key for silence in found for finding in silence] == [
        f"quiet:after step {STEPS - 4}",
        f"quiet:after step {STEPS}",
    ]


@pytest.mark.parametrize(
    ("behind", "seconds", "named"), [(2, 2.0, 0), (3, 2.0, 0), (4, 2.0, 1), (2, 100.0, 1)]
)
def test_a_rank_that_writes_some_steps_later_is_missing_only_after_three(
    tmp_path: Path, behind: int, seconds: float, named: int
) -> None:
    def change(step: int, index: int, row: dict[str, Any]) -> None:
        if step > STEPS - behind and rank_of(index):
            row.clear()

    found = [each for each in look(tmp_path / "run", change, now=seconds) if each.rule == "missing_rank"]
    assert len(found) == named
    assert [len(each.steps) for each in found] == [behind] * named


def test_the_first_steps_of_a_critic_do_not_count_however_short_the_run_is_so_far(tmp_path: Path) -> None:
    def untrained(step: int, index: int, row: dict[str, Any]) -> None:
        if step > 8:
            row.clear()
        else:
            row["values"] = [1.0 - value for value in row["values"]]

    assert "critic_variance" not in {each.rule for each in look(tmp_path / "run", untrained)}


def test_a_copied_log_is_not_taken_for_one_that_fell_silent(tmp_path: Path) -> None:
    def change(step: int, index: int, row: dict[str, Any]) -> None:
        row["time"] -= 86_400

    assert look(tmp_path / "run", change, now=120.0) == []


def test_while_only_time_goes_on_the_rows_are_not_looked_at_again(tmp_path: Path) -> None:
    look(tmp_path / "run", cut)
    with rlpanel.open_run(tmp_path / "run", follow=False) as run:
        snapshot = run.snapshot
    first = check(RunView(snapshot), FindingSettings(), snapshot.newest_line + 5)
    again = check(RunView(snapshot), FindingSettings(), snapshot.newest_line + 60, first)
    assert again.steady is first.steady
    late = check(
        RunView(snapshot), FindingSettings(), snapshot.newest_line + 110, again
    )  # once: it is overdue
    again = check(RunView(snapshot), FindingSettings(), snapshot.newest_line + 120, late)
    assert again.steady is late.steady
    assert [finding.rule for finding in again.findings] == ["truncated", "quiet"]
    assert check(RunView(snapshot), FindingSettings(), snapshot.newest_line + 120).findings == again.findings


def test_invalid_text_evidence_names_category_and_reward_difference(tmp_path: Path) -> None:
    """Most are in one language, and within groups they are not rewarded more."""

    def change(step: int, index: int, row: dict[str, Any]) -> None:
        row["reward"] = (2.0 if row["lang"] == "zh" else 1.0) + 0.01 * (index // 4)
        share = 2 if row["lang"] == "zh" else 8
        if step >= 10 and (index // 2 + step) % share == 0:
            row["response"] += " \ufffd"
            row["reward"] -= 0.5

    found = next(f for f in flat(look(tmp_path / "run", change)) if f.rule == "invalid_text")
    assert found.category == ""
    told = " ".join(found.evidence)
    assert "By lang, responses with invalid characters: zh 50% of 240, en 12% of 240." in told
    # Zh is rewarded 1 more than en, and a broken answer half a point less than its neighbour.
    assert "−0.50 ± 0.00 (2 s.e.) within" in told


@pytest.mark.parametrize(("slope", "rules"), [(0.1, ["length_reward"]), (-0.1, [])])
def test_longer_responses_must_score_higher_within_groups_too(
    tmp_path: Path, slope: float, rules: list[str]
) -> None:
    """Prompts with long answers are rewarded more; among the answers to one prompt long or short ones are."""

    def change(step: int, index: int, row: dict[str, Any]) -> None:
        count = 2 + 20 * (index // 4) + index % 4
        for name in [name for name, value in row.items() if isinstance(value, list)]:
            row[name] = (row[name] * count)[:count]
        if step > 5:
            row["reward"] = index // 4 + slope * (index % 4)

    found = [each for each in flat(look(tmp_path / "run", change)) if each.rule == "length_reward"]
    assert [each.rule for each in found] == rules
    for each in found:
        assert "then up to 0.99." in each.evidence[0] or "then up to 1.00." in each.evidence[0]
        assert each.evidence[1].startswith("Among responses to the same prompt: 1.00;")


def test_thresholds_are_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLPANEL_OUTLIER_Z", "1e5")
    assert FindingSettings.from_environment().outlier_z == 1e5
    monkeypatch.setenv("RLPANEL_RISE", "2")
    with pytest.raises(SettingError, match="rise"):
        FindingSettings.from_environment()


@pytest.fixture(scope="module")
def recorded(grpo_run: Path, ppo_run: Path) -> dict[str, list[Finding]]:
    """Findings of the two real runs, by name."""
    found = {}
    for name, folder in (("grpo", grpo_run), ("ppo", ppo_run)):
        run = rlpanel.open_run(folder)
        found[name] = findings(run.view, FindingSettings(), time.time() + 86400)
        run.close()
    return found


def test_the_collapse_of_the_grpo_run_is_found(recorded: dict[str, list[Finding]]) -> None:
    """Share of responses with U+FFFD by step, counted in the file: 0-5 % at first, 50-97 % at the end."""
    first = recorded["grpo"][0]
    assert (first.rule, first.severity, first.category) == ("invalid_text", "alarm", "lang = zh")
    assert first.sentence == (
        "From step 11 on, 80% of the responses with lang = zh contain invalid characters (12% before), "
        "while the reward rose from 0.993 to 1.61."
    )
    assert first.ongoing
    assert first.sentence in (FOLDER / "findings.md").read_text("utf-8")
    assert "−0.09 ± 0.04 (2 s.e.) within the 230 groups" in first.evidence[1]
    assert not any("hack" in " ".join((f.sentence, *f.evidence)) for f in recorded["grpo"])


def test_the_failure_of_the_recorded_calculator_leads_its_symptoms(tmp_path: Path) -> None:
    """From step 21 on, a call fails with a probability of 0.8; see `tests/train/calculator.py`."""
    folder = write_recording("grpo_calculator", tmp_path / "run")
    with rlpanel.open_run(folder, follow=False) as run:
        found = findings(run.view, FindingSettings(), time.time() + 86400)
    first = found[0]
    assert (first.rule, first.severity, first.subject) == ("tool_fails", "alarm", "add")
    assert first.sentence == (
        "From step 21 on, 75% of the rollouts that call add have an error of add (0% before), while the "
        "reward fell from 0.837 to 0.179."
    )
    assert "sustained_change" in {each.rule for each in first.symptoms}
    assert not {"turns_collapse", "errors_rewarded"} & {each.rule for each in flat(found)}


def test_the_ppo_run_has_no_findings(recorded: dict[str, list[Finding]]) -> None:
    """It learns, and nothing is wrong with it."""
    assert recorded["ppo"] == []


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        ([0, 1, 0, 0, 0, 0], "step 3"),
        ([1, 1, 1, 0, 0, 0], "steps 1–5"),
        ([1, 0, 1, 0, 1, 1], "steps 1, 5 and 9–11"),
    ],
)
def test_steps_in_words(mask: list[int], words: str) -> None:
    assert span(np.array([1, 3, 5, 7, 9, 11]), np.array(mask, bool)) == words


def test_many_runs_of_steps_are_cut_short() -> None:
    mask = np.arange(20) % 2 == 0
    assert span(np.arange(20), mask) == "steps 0, 2, 4, 6 and 6 more"
