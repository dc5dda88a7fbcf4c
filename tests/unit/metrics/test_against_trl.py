"""The values that TRL logged during training, computed from the rollouts that it trained on.

The recorded runs carry the trainer's own scalar log; ours must agree with it step by step.
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlpanel.api.open_run import open_run
from rlpanel.api.run import Run


def ours(run: Run) -> pd.DataFrame:
    return run.steps.set_index("step")


@cache
def scalars(run: Path) -> pd.DataFrame:
    return pd.read_json(run / "scalars.jsonl", lines=True).set_index("step")


def logged(run: Run, key: str) -> pd.Series:
    """One scalar of the trainer's log, by step; its closing summary left out."""
    return scalars(run.path)[key].dropna()


@pytest.mark.parametrize(
    ("column", "key", "tolerance"),
    [
        ("log_ratio_sum_mean", "objective/kl", 1e-6),
        ("surprisal_sum_mean", "objective/entropy", 2e-6),
        ("reward_mean", "objective/scores", 1e-7),
        ("non_score_reward_mean", "objective/non_score_reward", 4e-7),  # token rewards have six digits
        ("rlhf_reward_mean", "objective/rlhf_reward", 4e-7),
    ],
)
def test_ppo(ppo: Run, column: str, key: str, tolerance: float) -> None:
    theirs = logged(ppo, key)
    np.testing.assert_allclose(ours(ppo)[column].loc[theirs.index], theirs, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(
    ("column", "key"),
    [
        ("reward_mean", "reward"),
        ("reward_std", "reward_std"),
        ("rewards/rhyme_reward_mean", "rewards/rhyme_reward/mean"),
        ("rewards/rhyme_reward_std", "rewards/rhyme_reward/std"),
        ("rewards/zh_only_bonus_mean", "rewards/zh_only_bonus/mean"),
        ("rewards/zh_only_bonus_std", "rewards/zh_only_bonus/std"),
        ("response_tokens_mean", "completions/mean_length"),
        ("response_tokens_max", "completions/max_length"),
        ("truncated_mean", "completions/clipped_ratio"),
    ],
)
def test_grpo(grpo: Run, column: str, key: str) -> None:
    theirs = logged(grpo, key)
    np.testing.assert_allclose(ours(grpo)[column].loc[theirs.index], theirs, rtol=1e-6, atol=1e-7)


def test_the_penalty_with_a_coefficient_that_was_given(
    ppo: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLPANEL_KL_COEF", "0.03")
    without = rewritten(ppo.path, tmp_path / "run", drop={"token_rewards"})
    theirs = logged(ppo, "objective/non_score_reward")
    np.testing.assert_allclose(
        ours(open_run(without, follow=False))["non_score_reward_mean"].loc[theirs.index], theirs, atol=8e-8
    )


def test_returns_and_advantages_follow_from_values_and_token_rewards(ppo: Run, tmp_path: Path) -> None:
    worked_out = open_run(rewritten(ppo.path, tmp_path / "run", drop={"returns", "advantages"}), follow=False)
    one, other = (run.samples().token_return_mean for run in (ppo, worked_out))
    np.testing.assert_allclose(other, one, atol=3e-6)
    uid = ppo.samples(step=60).uid[5]
    found = worked_out.sample(worked_out.samples(step=60).uid[5]).arrays()["returns"]
    np.testing.assert_allclose(found, ppo.sample(uid).returns, atol=3e-6)


def test_without_the_slot_after_the_end_returns_are_off(ppo: Run, tmp_path: Path) -> None:
    slot = {"returns", "advantages", "terminal_value", "terminal_reward"}
    worked_out = open_run(rewritten(ppo.path, tmp_path / "run", drop=slot), follow=False)
    apart = np.abs(ours(worked_out)["return_pooled"] - ours(ppo)["return_pooled"]).max()
    assert 1e-3 < apart < 0.1


def test_explained_variance_over_tokens(ppo: Run) -> None:
    lines = [json.loads(line) for path in ppo.path.glob("rollout*") for line in path.read_text().splitlines()]
    step = [one for one in lines if one["step"] == 40]
    g, v = (np.concatenate([one[name] for one in step]) for name in ("returns", "values"))
    found = ours(ppo).loc[40]
    assert found["var_explained"] == pytest.approx(1 - np.var(g - v) / np.var(g))
    assert (found["value_error"], found["value_pooled"]) == pytest.approx((np.mean((g - v) ** 2), v.mean()))


def test_the_advantages_of_grpo(grpo: Run) -> None:
    frame = grpo.samples()
    assert frame.advantage_less_grpo.abs().max() < 2e-3
    assert frame.advantage_less_rloo.abs().max() > 0.1


def test_a_token_mean_is_near_what_grpo_logs_by_micro_batch(grpo: Run) -> None:
    for column, key, most in (("kl_k3_pooled", "kl", 6.5e-2), ("entropy_pooled", "entropy", 6e-3)):
        theirs = logged(grpo, key)
        assert np.abs(ours(grpo)[column].loc[theirs.index] - theirs).max() < most


def test_groups_without_a_signal_are_counted_in_full(grpo: Run) -> None:
    # TRL compares in float32 and misses most of them: 4 % logged, 18 % true.
    mine, theirs = ours(grpo)["zero_variance_groups"], logged(grpo, "frac_reward_zero_std")
    assert (round(mine.mean(), 3), round(theirs.mean(), 3)) == (0.177, 0.042)


def rewritten(run: Path, folder: Path, drop: set[str]) -> Path:
    """A copy of a run whose lines lack some keys."""
    folder.mkdir()
    for path in run.glob("rollout*"):
        lines = (json.loads(line) for line in path.read_text().splitlines())
        kept = [{key: value for key, value in line.items() if key not in drop} for line in lines]
        (folder / path.name).write_text("".join(json.dumps(line) + "\n" for line in kept))
    return folder


def test_all_steps_were_compared(ppo: Run) -> None:
    assert logged(ppo, "objective/kl").index.tolist() == list(range(1, 61))


@pytest.mark.parametrize(("estimator", "kl"), [("k1", 0.5), ("k3", math.exp(-0.5) - 0.5)])
def test_without_token_rewards_the_penalty_follows_the_trainers_estimator(
    tmp_path: Path, estimator: str, kl: float
) -> None:
    """TRL PPO subtracts β times the KL of its estimator from each token's reward."""
    (tmp_path / "run.json").write_text(json.dumps({"kl_coef": 0.1, "kl_estimator": estimator}))
    row = {"step": 1, "prompt": "p", "reward": 1.0, "logprobs": [-1.0, -2.0], "ref_logprobs": [-1.5, -2.0]}
    (tmp_path / "rank_0.jsonl").write_text(json.dumps(row) + "\n")
    with open_run(tmp_path, follow=False) as run:
        assert run.samples()["non_score_reward"].tolist() == [pytest.approx(-0.1 * kl)]
