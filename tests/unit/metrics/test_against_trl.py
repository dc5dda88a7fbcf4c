"""The numbers that TRL logged while it trained, from the rollouts it trained on.

The recorded runs carry the trainer's own scalar log; ours must agree with it step by step.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlpanel.store.run import open_run


def ours(run: Path) -> pd.DataFrame:
    return open_run(run, follow=False).steps.set_index("step")


def logged(run: Path, key: str) -> pd.Series:
    """One scalar of the trainer's log, by step; its closing summary left out."""
    scalars = pd.read_json(run / "scalars.jsonl", lines=True).set_index("step")[key]
    return scalars.dropna()


@pytest.mark.parametrize(
    ("column", "key", "tolerance"),
    [
        ("log_ratio_sum_mean", "objective/kl", 1e-6),
        ("surprisal_sum_mean", "objective/entropy", 2e-6),
        ("reward_mean", "objective/scores", 1e-7),
    ],
)
def test_ppo(ppo_run: Path, column: str, key: str, tolerance: float) -> None:
    theirs = logged(ppo_run, key)
    np.testing.assert_allclose(
        ours(ppo_run)[column].loc[theirs.index], theirs, atol=tolerance, rtol=tolerance
    )


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
def test_grpo(grpo_run: Path, column: str, key: str) -> None:
    theirs = logged(grpo_run, key)
    np.testing.assert_allclose(ours(grpo_run)[column].loc[theirs.index], theirs, rtol=1e-6, atol=1e-7)


def test_all_steps_were_compared(ppo_run: Path) -> None:
    assert logged(ppo_run, "objective/kl").index.tolist() == list(range(1, 61))
