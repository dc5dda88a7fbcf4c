"""TRL's own log against our numbers, by the table of trainers' scalars: each row about TRL is proven here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlpanel import open_run
from rlpanel.metrics.engine.trainer_names import TABLE, rows_of
from rlpanel.panels.curves.trainer_scalars import LogComparison
from tests.train.conftest import Trained, logged, rollouts
from tests.trainer_log import all_comparisons

_ONE_MICRO_BATCH = {"gradient_accumulation_steps": 1, "per_device_train_batch_size": 8}
#: Runs by name: the trainer and its options.
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "grpo": ("grpo", {}),
    "grpo logged every other step": ("grpo", {"logging_steps": 2}),
    "grpo in three passes": ("grpo", {"num_iterations": 3, "max_steps": 6, **_ONE_MICRO_BATCH}),
    "grpo in halves": ("grpo", {"steps_per_generation": 4, "max_steps": 4}),
    "rloo": ("rloo", {}),
    "rloo in two passes": ("rloo", {"num_iterations": 2, "max_steps": 4}),
    "ppo": ("ppo", {}),
    "ppo with k3": ("ppo", {"kl_estimator": "k3"}),
    "tools": ("tools", {}),
}
_GROUPED = {
    "reward", "reward_std", "completions/mean_length", "completions/min_length", "completions/max_length",
    "completions/clipped_ratio", "rewards/score_length/mean", "rewards/score_length/std",
    "rewards/score_letters/mean", "rewards/score_letters/std",
}  # fmt: skip
_PPO = {"objective/scores", "objective/kl", "objective/entropy", "objective/non_score_reward",
        "objective/rlhf_reward"}  # fmt: skip
_TOOLS = {scalar for scalar in _GROUPED if "rewards/" not in scalar}
#: Scalars that equal a number of ours in each run, and those of which the board says why they do not.
EXPECTED: dict[str, tuple[set[str], set[str]]] = {
    "grpo": (_GROUPED | {"kl", "entropy"}, set()),
    "grpo logged every other step": (_GROUPED | {"kl", "entropy"}, set()),
    "grpo in three passes": (_GROUPED | {"kl", "entropy", "clip_ratio/region_mean"}, set()),
    "grpo in halves": (_GROUPED, {"kl", "entropy", "clip_ratio/region_mean"}),
    "rloo": (_GROUPED | {"kl", "entropy"}, {"clip_ratio/region_mean"}),
    "rloo in two passes": (_GROUPED | {"kl", "entropy"}, {"clip_ratio/region_mean"}),
    "ppo": (_PPO, set()),
    "ppo with k3": (_PPO, set()),
    "tools": (_TOOLS | {"rewards/score_calls/mean", "rewards/score_calls/std", "kl", "entropy"}, set()),
}


@pytest.fixture(scope="module")
def compared(trained: Trained) -> Any:
    """Return a function that returns the folder of one of `RUNS` and the comparisons with its log."""
    runs: dict[str, tuple[Path, list[LogComparison]]] = {}

    def compare(name: str) -> tuple[Path, list[LogComparison]]:
        if name not in runs:
            algo, options = RUNS[name]
            folder, _ = trained(algo, **options)
            with open_run(folder / "run", follow=False) as run:
                runs[name] = folder, all_comparisons(run.view)
        return runs[name]

    return compare


@pytest.mark.parametrize("name", RUNS)
def test_the_board_says_of_each_scalar_what_is_so(compared: Any, name: str) -> None:
    _, found = compared(name)
    assert [(c.scalar, c.curve, c.largest) for c in found if c.verdict == "differs"] == []
    equal, other = EXPECTED[name]
    assert {c.scalar for c in found if c.verdict == "equal"} == equal
    assert {c.scalar for c in found if c.verdict == "not comparable"} == other
    if "every other" in name:
        assert {c.window for c in found} == {2}


@pytest.mark.parametrize(("name", "estimator"), [("grpo", "k3"), ("rloo", "k1"), ("ppo with k3", "k3")])
def test_a_recording_names_what_decides_its_numbers(compared: Any, name: str, estimator: str) -> None:
    folder, _ = compared(name)
    facts = json.loads((folder / "run" / "run.json").read_text())
    assert (facts["algo"], facts["kl_estimator"]) == (name.partition(" ")[0], estimator)
    assert {"logging_steps", "gradient_accumulation_steps", "processes", "versions"} <= facts.keys()
    if name != "ppo with k3":
        assert {"num_iterations", "steps_per_generation"} <= facts.keys()
        assert {row["micro_batch"] for row in rollouts(folder)} == {0, 1}


def test_the_compared_share_of_clipped_tokens_is_not_always_zero(compared: Any) -> None:
    folder, _ = compared("grpo in three passes")
    assert max(logged(folder, "clip_ratio/region_mean").values()) > 0.01


def test_every_row_about_trl_is_equal_in_one_of_the_runs(compared: Any) -> None:
    equal = {(c.scalar, c.curve) for name in RUNS for c in compared(name)[1] if c.verdict == "equal"}
    proven = {row for scalar, curve in equal for row, ours in rows_of(scalar) if ours == curve}
    assert {row for row in TABLE if row.trainer.startswith("TRL")} - proven == set()
