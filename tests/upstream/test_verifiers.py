"""Episodes that verifiers' own classes write, for its evaluations and for prime-rl."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.upstream.reading import read, splits

Written = Callable[[str], Path]


@pytest.mark.case("verifiers", "evaluation")
@pytest.mark.case("verifiers", "failure")
def test_an_evaluation_has_step_0_and_its_failures_no_reward(written: Written) -> None:
    folder = written("verifiers.evaluation")
    assert splits(folder) == {"discarded eval": 1, "eval": 3}
    frame, _ = read(folder, "eval")
    assert frame["step"].tolist() == [0, 0, 0]
    assert frame["reward"].fillna(-1.0).tolist() == [1.0, 0.0, -1.0]
    assert frame["status"].tolist() == ["ok", "ok", "timeout"]
    _, (failed,) = read(folder, "discarded eval")
    assert (failed.status, failed.status_reason) == ("environment_error", "SandboxError: died")


@pytest.mark.case("verifiers", "data sets")
@pytest.mark.case("prime-rl", "data sets")
def test_environments_of_a_batch_are_told_apart(written: Written) -> None:
    evaluated, _ = read(written("verifiers.evaluation"), "eval")
    assert evaluated["env"].tolist() == ["gsm8k", "gsm8k", "aime"]
    trained, _ = read(written("verifiers.training"))
    assert set(trained["env"]) == {"gsm8k", "aime"}
    assert trained.groupby("env")["group"].nunique().to_dict() == {"gsm8k": 1, "aime": 1}


@pytest.mark.case("prime-rl", "evaluation")
@pytest.mark.case("prime-rl", "failure")
def test_an_evaluation_and_a_failure_are_no_samples_of_training(written: Written) -> None:
    """The failed episode has no trace at all."""
    folder = written("verifiers.training")
    assert splits(folder) == {"train": 10, "discarded": 6, "eval": 2}
    frame, samples = read(folder, "discarded")
    reasons = {(each.status, each.status_reason) for each in samples if each.step == 2}
    assert ("environment_error", "SandboxError: died") in reasons
    assert frame["reward"].isna().sum() == 4, "timeouts and failures"


@pytest.mark.case("prime-rl", "fork")
def test_a_plan_that_two_answers_share_is_trained_once(written: Written) -> None:
    _, samples = read(written("verifiers.training"))
    first, second = [each for each in samples if each.step == 1 and "I plan" in (each.response or "")]
    assert first.loss_mask is None or first.loss_mask[:4].all()
    assert second.loss_mask is not None
    assert second.loss_mask.sum() == 1, "the last token alone"


@pytest.mark.case("prime-rl", "compaction")
@pytest.mark.case("verifiers", "compaction")
def test_a_summary_that_the_agent_did_not_use_is_not_trained(written: Written) -> None:
    folder = written("verifiers.training")
    unused = [each.response for each in read(folder, "discarded")[1] if "UNUSED" in (each.response or "")]
    used = [each.response for each in read(folder)[1] if "SUMMARY" in (each.response or "")]
    assert (len(unused), len(used)) == (2, 2), "one for each step"


def test_the_calls_of_verifiers_own_judges_are_read_with_their_verdicts(written: Written) -> None:
    """Two judges score four rollouts at each of two steps; the strict one says "maybe" once."""
    frame, samples = read(written("verifiers.judged"))
    assert frame["judge_calls"].tolist() == [2.0] * 8
    calls = [call for each in samples for call in each.judge_calls]
    assert {(call.name, call.model) for call in calls} == {
        ("lenient", "judge-lenient"),
        ("strict", "judge-strict"),
    }
    assert {(call.prompt_tokens, call.answer_tokens) for call in calls} == {(90.0, 1.0)}
    assert all(call.request for call in calls)
    assert sum(call.answer == "maybe" for call in calls) == 2, "one at each step"
    assert frame["judge_disagreement"].fillna(-1.0).tolist() == [0.0, 0.0, 1.0, -1.0] * 2
