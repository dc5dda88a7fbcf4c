"""Rules on prompts, texts, evaluations and scalars fire on a run that a public report describes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpanel.app.demo import Recording, write_recording
from rlpanel.findings.engine.finding import Finding
from tests.bench.finding_scores import check_folder
from tests.bench.reported_runs import fresh_kinds as fresh
from tests.bench.reported_runs import healthy_kinds as healthy
from tests.bench.reported_runs import listed_kinds as listed
from tests.bench.reported_runs import outside_agent_kinds, outside_healthy, outside_kinds
from tests.bench.reported_runs import unlisted_kinds as unlisted
from tests.bench.reported_runs.simulation import Breakage, Sample, Setup, Simulation
from tests.bench.reported_runs.task_texts import tokens_of


class GradientIsZero(Breakage):
    """All samples are masked, so that the gradient is 0."""

    words = ""

    def scalars(self, step: int, row: dict[str, Any], x: float) -> None:
        if x:
            row["grad_norm"] = 0.0


class ReferenceIsExact(Breakage):
    """The logprobs of the reference are those of the policy."""

    words = ""

    def measure(self, sample: Sample, x: float) -> None:
        if x:
            sample.arrays["ref_logprobs"] = sample.arrays["logprobs"]


class AnswersWithoutBox(Breakage):
    """Responses end without an answer."""

    words = ""

    def write(self, sample: Sample, x: float) -> None:
        if x and self.draw.random() < 0.6:
            sample.parts[-1] = "So this is what remains to be said about it."
            sample.right = False


class TruthNull(Breakage):
    """The true answer of half of the prompts is null."""

    words = ""

    def log(self, sample: Sample, x: float) -> None:
        if x and sample.prompt.number % 2:
            sample.line["ground_truth"] = None


class PaidPhrase(Breakage):
    """A third of the responses has a phrase that the judge likes."""

    words = ""

    def write(self, sample: Sample, x: float) -> None:
        if x and self.draw.random() < 0.35:
            sample.parts.insert(0, "as everyone agrees")
            sample.right = True
        elif x:
            sample.right = False


class FirstTokensMasked(Breakage):
    """The first token of each turn of the policy is left out of the loss."""

    words = ""
    setup = {"task": "search", "groups": 6, "logs": ("truth",)}

    def measure(self, sample: Sample, x: float) -> None:
        tokens, mask = [], []
        for message in sample.messages[1:]:
            new = tokens_of(f"{listed.json_call(message)}\n")
            tokens += new
            trained = message["role"] == "assistant"
            mask += [int(trained and not x), *[int(trained)] * (len(new) - 1)]
        sample.tokens, sample.arrays = tokens, {"loss_mask": np.array(mask)}


#: A run that breaks each rule.
REPORTED: dict[str, type[Breakage]] = {
    "mixed_groups": listed.GroupsMixed,
    "prompts_again": listed.OrderRepeated,
    "prompts_shared": unlisted.SamePromptsOnRanks,
    "evaluation_leak": listed.EvaluationLeak,
    "fewer_samples": listed.SamplesHalve,
    "label_mix": unlisted.OneSourceOnly,
    "missing_parts": listed.PartNull,
    "one_value": unlisted.JudgeTimesOut,
    "scalars_not_finite": listed.NaNGradients,
    "learning_rate_zero": unlisted.LearningRateZero,
    "gradient_grows": unlisted.GradientsExplode,
    "evaluation_falls": listed.EvaluationFalls,
    "evaluation_frozen": outside_kinds.EvaluationFrozen,
    "reward_jumps": listed.LenientJudge,
    "best_falls": listed.Sharpening,
    "loops": listed.LoopsInside,
    "several_answers": listed.SeveralBoxes,
    "truth_in_prompt": listed.AnswerInPrompt,
    "truth_missing": listed.TruthMissing,
    "truth_changed": unlisted.TruthsShifted,
    "tool_results": unlisted.EmptyResults,
    "equal_calls": listed.EqualCalls,
    "mask_on_results": listed.MaskShifted,
    "new_phrase": listed.MasterKeys,
    "new_result": unlisted.RateLimited,
    "prompt_template": listed.TemplateLost,
    "engine_change": listed.NucleusInEngine,
    "kl_falls": listed.ReferenceIsPolicy,
    "ratio_spread": listed.RatiosExplode,
    "lag_grows": listed.Staleness,
    "foreign_letters": listed.LanguageMixing,
    "wrong_grow": listed.WrongGrow,
    "cut_unmarked": fresh.FinishReasonLost,
    "class_unrewarded": fresh.ScorerFails,
    "right_unrewarded": fresh.VerifierBusy,
    "wrong_rewarded": listed.LenientJudge,
    "truth_form": fresh.TruthNotParsed,
    "no_answer": fresh.LastTurnCut,
    "single_groups": outside_kinds.EverySampleItsGroup,
    "samples_again": outside_kinds.RowsAgain,
    "sum_changes": outside_kinds.WeightsIgnored,
    "learning_rate_jumps": fresh.RateStartsAgain,
    "gradient_zero": GradientIsZero,
    "kl_zero": ReferenceIsExact,
    "answers_unclear": AnswersWithoutBox,
    "missing_as_zero": outside_kinds.UnscoredAsZero,
    "groups_incomplete": unlisted.LongOnesDropped,
}
#: Settings in which an effect of the reported size is significant.
LARGER = {
    "cut_unmarked": {"most_tokens": 55},
    "best_falls": {"groups": 16, "group_size": 8},
    "reward_jumps": {"groups": 12, "group_size": 8, "gain": 0.3, "start": -0.5},
    "truth_changed": {"prompts": 60, "steps": 24},
    "missing_as_zero": {"groups": 24},
}
#: Rules that find their effect in the usual size only; all others find it in a quarter of the samples.
USUAL = {*LARGER, "sum_changes"}
QUARTER = {"steps": 24, "groups": 4}
#: Of runs that must break nothing, the quarter is quick; the usual size could show smaller effects.
both_sizes = pytest.mark.parametrize(
    "usual", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["quarter", "usual"]
)


def look(
    folder: Path, kind: type[Breakage], *, usual: bool = False, **larger: float
) -> tuple[Simulation, list[Finding]]:
    """Write a run of a kind, of the usual size or of a quarter; return it, and its findings with symptoms."""
    sizes = {"steps": 48, "groups": 8, "group_size": 4} | ({} if usual else QUARTER)
    made = Simulation(Setup(**{**sizes, **kind.setup, **larger}), [1, *kind.__name__.encode()], kind)
    made.write(folder)
    found = check_folder(folder)
    return made, [each for finding in found for each in (finding, *finding.symptoms)]


@pytest.mark.parametrize("rule", REPORTED)
def test_a_rule_finds_what_a_report_describes_from_its_step_on(tmp_path: Path, rule: str) -> None:
    assert_finds_from_its_step_on(tmp_path, rule, usual=rule in USUAL, **LARGER.get(rule, {}))


@pytest.mark.slow
@pytest.mark.parametrize("rule", sorted(REPORTED.keys() - USUAL))
def test_a_rule_finds_it_in_a_run_of_the_usual_size(tmp_path: Path, rule: str) -> None:
    assert_finds_from_its_step_on(tmp_path, rule, usual=True)


def assert_finds_from_its_step_on(tmp_path: Path, rule: str, *, usual: bool, **sizes: float) -> None:
    """Check the first finding of a rule in a run that breaks it."""
    made, found = look(tmp_path / "run", REPORTED[rule], usual=usual, **sizes)
    (first,) = [each for each in found if each.rule == rule][:1]
    assert first.onset is not None
    assert abs(first.onset - made.step_of(made.onset)) <= REPORTED[rule].late
    assert first.sentence.endswith(".")
    assert first.advice


def test_a_mask_that_leaves_out_the_first_tokens_of_turns_is_found(tmp_path: Path) -> None:
    made, found = look(tmp_path / "run", FirstTokensMasked)
    (mask,) = [each for each in found if each.rule == "mask_on_results"]
    assert mask.onset == made.step_of(made.onset)
    assert "policy's turns" in mask.sentence


def test_right_answers_without_reward_are_compared_in_length(tmp_path: Path) -> None:
    _, found = look(tmp_path / "run", fresh.SlowChecksTimeOut, groups=12)
    (unpaid,) = [each for each in found if each.rule == "right_unrewarded"]
    assert any("longer than right answers with the reward" in text for text in unpaid.evidence)


def test_a_ground_truth_that_is_null_is_missing(tmp_path: Path) -> None:
    _, found = look(tmp_path / "run", TruthNull)
    assert "truth_missing" in {each.rule for each in found}


@pytest.mark.parametrize("name", ["grpo_calculator", "grpo_couplets", "ppo_couplets"])
def test_recorded_runs_break_none_of_the_rules_that_chance_or_tools_would_break(
    tmp_path: Path, name: Recording
) -> None:
    """In 4 groups prompts meet by chance; with a tool, wrong answers are shorter, then longer."""
    found = check_folder(write_recording(name, tmp_path / "run"))
    rules = {each.rule for finding in found for each in (finding, *finding.symptoms)}
    assert rules & {"wrong_grow", "prompts_shared", "label_mix", "reward_jumps"} == set()


def test_the_first_steps_of_a_recorded_run_break_none_of_them_either(tmp_path: Path) -> None:
    """The label ``episode`` has few values then, and the reward rises fast."""
    folder = write_recording("ppo_couplets", tmp_path / "run")
    lines = (folder / "rollout_data_rank_0.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    for steps in (5, 7, 13, 19):
        early = tmp_path / f"run-{steps}"
        early.mkdir()
        text = "".join(line for line in lines if json.loads(line)["step"] <= steps)
        (early / "rollout_data_rank_0.jsonl").write_text(text, encoding="utf-8")
        assert {each.rule for each in check_folder(early)} & {"label_mix", "reward_jumps"} == set()


def test_groups_that_the_log_put_together_are_no_alarm_and_their_turns_are_none(tmp_path: Path) -> None:
    recurring = [("a", "x"), ("b", "x"), ("a", "y"), ("b", "y")]
    turns = [("a", "x"), ("b", "x"), ("c", "y"), ("d", "y")]
    for name, samples in (("recurring", recurring), ("turns", turns)):
        (tmp_path / name).mkdir()
        lines = [
            {"step": step, "prompt": f"{prompt} {step}", "response": f"{prompt} {at}", "group": group}
            for step in range(6)
            for at, (prompt, group) in enumerate(samples)
        ]
        text = "".join(f"{json.dumps({**line, 'reward': 1.0})}\n" for line in lines)
        (tmp_path / name / "rollouts.jsonl").write_text(text, encoding="utf-8")
    mixed = [each for each in check_folder(tmp_path / "recurring") if each.rule == "mixed_groups"]
    assert [each.severity for each in mixed] == ["warning"]
    assert "groups mix prompts" not in mixed[0].sentence
    assert "mixed_groups" not in {each.rule for each in check_folder(tmp_path / "turns")}


def test_a_phrase_that_is_rewarded_is_quoted_with_its_reward(tmp_path: Path) -> None:
    _, found = look(tmp_path / "run", PaidPhrase)
    (phrase,) = [each for each in found if each.rule == "new_phrase"]
    assert phrase.severity == "warning"
    assert "as everyone agrees" in phrase.sentence
    assert "rewarded" in phrase.sentence


@both_sizes
@pytest.mark.parametrize("kind", [healthy.Plain, healthy.Agents, healthy.WarmUp])
def test_a_healthy_run_breaks_none_of_them(tmp_path: Path, kind: type[Breakage], usual: bool) -> None:
    _, found = look(tmp_path / "run", kind, usual=usual)
    assert [each.sentence for each in found if each.rule in REPORTED and each.severity != "info"] == []


@both_sizes
@pytest.mark.parametrize(
    "kind", [healthy.PlannedPenalty, healthy.Curriculum, healthy.OwnSources, outside_healthy.PenaltyAnneals]
)
def test_what_was_planned_is_an_info(tmp_path: Path, kind: type[Breakage], usual: bool) -> None:
    """A penalty that starts, harder data with labels, and a rank with its own source break nothing."""
    _, found = look(tmp_path, kind, usual=usual or kind is healthy.Curriculum)
    assert [each.sentence for each in found if each.severity != "info"] == []


def test_the_weights_before_and_now_are_named(tmp_path: Path) -> None:
    _, found = look(tmp_path / "run", outside_kinds.WeightsIgnored, usual=True)
    (changed,) = [each for each in found if each.rule == "sum_changes"]
    assert "1 × rewards/accuracy + 0.1 × rewards/style" in changed.evidence[0]
    assert "1 × rewards/accuracy + 1 × rewards/style" in changed.evidence[1]


class PartIsAdded(Breakage):
    """A part is logged and counts from a step on; its weight could not be known before."""

    words = ""

    def score(self, sample: Sample, x: float) -> None:
        if x:
            sample.rewards["style"] = round(float(self.draw.random()), 3)


class SecondEpochOfSureAnswers(Breakage):
    """Prompts come back every four steps, and a policy that is sure gives the same answers again."""

    words = ""
    setup = {"prompts": 32, "sentences": 1}

    def measure(self, sample: Sample, x: float) -> None:
        sample.arrays["logprobs"] = -0.001 * self.draw.random(len(sample.tokens))


@both_sizes
@pytest.mark.parametrize("kind", [PartIsAdded, SecondEpochOfSureAnswers, healthy.PlannedPenalty])
def test_new_parts_and_answers_that_a_sure_policy_gives_again_are_normal(
    tmp_path: Path, kind: type[Breakage], usual: bool
) -> None:
    _, found = look(tmp_path / "run", kind, usual=usual)
    assert {each.rule for each in found} & {"sum_changes", "samples_again", "single_groups"} == set()


@pytest.mark.parametrize("ranks", [1, 2])
def test_responses_of_one_seed_are_called_copies_and_no_rank_copies_another(
    tmp_path: Path, ranks: int
) -> None:
    _, found = look(tmp_path / "run", outside_agent_kinds.SameSeed, ranks=ranks)
    (fewer,) = [each for each in found if each.rule == "fewer_samples"]
    assert re.search(r"a step has \d+ samples that differ; \d+ more lines are copies", fewer.sentence)
    assert "seed" in fewer.advice
    assert "rank_repeats" not in {each.rule for each in found}


def test_samples_that_are_missing_are_not_called_copies(tmp_path: Path) -> None:
    _, found = look(tmp_path / "run", listed.SamplesHalve)
    (fewer,) = [each for each in found if each.rule == "fewer_samples"]
    assert "copies" not in fewer.sentence


class PenaltyOfMore(Breakage):
    """More and more samples have a penalty that is always the same."""

    words = ""
    ramp = 30

    def score(self, sample: Sample, x: float) -> None:
        sample.rewards["broken_format"] = -0.3 if self.draw.random() < 0.03 + 0.9 * x else 0.0


def test_a_penalty_that_more_and_more_samples_have_is_no_plan(tmp_path: Path) -> None:
    _, found = look(tmp_path, PenaltyOfMore)
    falls = [each for each in found if each.column == "rewards/broken_format"]
    assert "info" not in {each.severity for each in falls if each.rule == "sustained_change"}
    assert falls


def test_a_penalty_that_starts_is_named(tmp_path: Path) -> None:
    _, found = look(tmp_path, healthy.PlannedPenalty)
    assert any("rewards/length_penalty starts to vary" in each.sentence for each in found)
