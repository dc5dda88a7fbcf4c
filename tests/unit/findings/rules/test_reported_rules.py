"""Rules on prompts, texts, evaluations and scalars fire on a run that a public report describes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlpanel.findings.engine.finding import Finding
from tests.bench.finding_scores import check_folder
from tests.bench.reported_runs import healthy_kinds as healthy
from tests.bench.reported_runs import listed_kinds as listed
from tests.bench.reported_runs import unlisted_kinds as unlisted
from tests.bench.reported_runs.simulation import Breakage, Setup, Simulation

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
}
#: Settings in which an effect of the reported size is significant.
LARGER = {
    "best_falls": {"groups": 12, "group_size": 8, "steps": 60},
    "reward_jumps": {"group_size": 8, "gain": 0.3, "start": -0.5},
    "truth_changed": {"prompts": 60},
}


def look(folder: Path, kind: type[Breakage], **larger: float) -> tuple[Simulation, list[Finding]]:
    """Write a small run of a kind; return it, and its findings with their symptoms."""
    small = {"steps": 48, "groups": 8, "group_size": 4}
    made = Simulation(Setup(**{**small, **kind.setup, **larger}), [1, *kind.__name__.encode()], kind)
    made.write(folder)
    found = check_folder(folder)
    return made, [each for finding in found for each in (finding, *finding.symptoms)]


@pytest.mark.parametrize("rule", REPORTED)
def test_a_rule_finds_what_a_report_describes_from_its_step_on(tmp_path: Path, rule: str) -> None:
    made, found = look(tmp_path / "run", REPORTED[rule], **LARGER.get(rule, {}))
    (first,) = [each for each in found if each.rule == rule][:1]
    assert first.onset is not None
    assert abs(first.onset - made.step_of(made.onset)) <= REPORTED[rule].late
    assert first.sentence.endswith(".")
    assert first.advice


@pytest.mark.parametrize("kind", [healthy.Plain, healthy.Agents])
def test_a_healthy_run_breaks_none_of_them(tmp_path: Path, kind: type[Breakage]) -> None:
    _, found = look(tmp_path / "run", kind)
    assert [each.sentence for each in found if each.rule in REPORTED and each.severity != "info"] == []


@pytest.mark.parametrize("kind", [healthy.PlannedPenalty, healthy.Curriculum, healthy.OwnSources])
def test_what_was_planned_is_an_info(tmp_path: Path, kind: type[Breakage]) -> None:
    """A penalty that starts, harder data with labels, and a rank with its own source break nothing."""
    _, found = look(tmp_path, kind)
    assert [each.sentence for each in found if each.severity != "info"] == []


def test_a_penalty_that_starts_is_named(tmp_path: Path) -> None:
    _, found = look(tmp_path, healthy.PlannedPenalty)
    assert any("rewards/length_penalty starts to vary" in each.sentence for each in found)
