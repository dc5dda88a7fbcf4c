"""Prompts over the steps, compared with pandas."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import rlpanel
from rlpanel.api.run import Run
from rlpanel.store.snapshot.prompts import samples_of_prompt, unsolved_prompts
from tests.factories import append, line

#: prompt → rewards by step (several samples a step), the reference's reward
REWARDS = {
    "stuck": ({1: [0.0, 0.2], 2: [0.1], 4: [0.3, 0.3]}, 0.5),
    "worse": ({1: [-2.0], 2: [-3.0], 3: [-1.0]}, 0.0),
    "reached once": ({1: [0.0], 2: [0.9], 3: [0.0]}, 0.5),
    "twice only": ({1: [0.0], 2: [0.0]}, 0.5),
    "one of two lucky": ({1: [0.0], 2: [0.9, 0.0], 3: [0.1]}, 0.5),
}


def run_of(folder: Path, *, reference: bool) -> Run:
    folder.mkdir()
    seen = [
        (step, prompt, reward, ref)
        for prompt, (steps, ref) in REWARDS.items()
        for step, rewards in steps.items()
        for reward in rewards
    ]
    lines = [
        line(
            step,
            prompt=prompt,
            reward=reward,
            drop=() if reference else ("ref_reward",),
            **_ref(reference, ref),
        )
        for step, prompt, reward, ref in sorted(seen, key=lambda one: one[0])
    ]
    append(folder / "rollout_data_rank_0.jsonl", *lines)
    return rlpanel.open_run(folder, follow=False)


def _ref(reference: bool, value: float) -> dict[str, float]:
    return {"ref_reward": value} if reference else {}


def named(run: Run, least: int) -> dict[str, tuple[int, int, float, float, float]]:
    found = unsolved_prompts(run.snapshot, least)
    return {
        str(run.sample(run.snapshot.uid(one.row)).prompt): (
            one.steps,
            one.samples,
            one.target,
            one.best,
            one.last,
        )
        for one in found
    }


def test_prompts_that_never_reach_the_reference_worst_first(tmp_path: Path) -> None:
    found = named(run_of(tmp_path / "run", reference=True), 3)
    assert list(found) == ["worse", "stuck", "one of two lucky"]
    assert found["stuck"] == pytest.approx((3, 5, 0.5, 0.3, 0.3))
    assert found["worse"] == pytest.approx((3, 3, 0.0, -1.0, -1.0))


def test_how_often_a_prompt_must_be_seen_is_asked(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", reference=True)
    assert "twice only" in named(run, 2)
    assert named(run, 4) == {}


def test_without_a_reference_a_prompt_is_measured_by_its_first_step(tmp_path: Path) -> None:
    found = named(run_of(tmp_path / "run", reference=False), 2)
    assert list(found) == ["twice only"]


def run_with(folder: Path, rewards: dict[str, list[float]], references: tuple[float, ...] = ()) -> Run:
    """A run with one sample of each prompt at each step, with the step's reference if there is one."""
    lines = [
        line(
            step,
            prompt=prompt,
            reward=by_step[step],
            drop=() if references else ("ref_reward",),
            **(_ref(True, references[step]) if references else {}),
        )
        for step in range(3)
        for prompt, by_step in rewards.items()
    ]
    append(folder / "rollout_data_rank_0.jsonl", *lines)
    return rlpanel.open_run(folder, follow=False)


def test_a_prompt_that_is_solved_at_every_step_is_not_listed(tmp_path: Path) -> None:
    run = run_with(tmp_path, {"solved": [1.0] * 3, "failed": [0.0] * 3, "half": [0.5] * 3})
    assert set(named(run, 2)) == {"failed", "half"}


@pytest.mark.parametrize(("reward", "listed"), [(0.0, True), (1.0, False)])
def test_if_all_rewards_are_equal_the_pass_threshold_tells_what_is_solved(
    tmp_path: Path, reward: float, listed: bool
) -> None:
    assert bool(named(run_with(tmp_path, {"all": [reward] * 3}), 2)) == listed


def test_from_a_given_pass_threshold_on_a_prompt_is_solved(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"pass_reward": 0.5}')
    run = run_with(tmp_path, {"best": [2.0] * 3, "passed": [0.5] * 3, "failed": [0.4] * 3})
    assert set(named(run, 2)) == {"failed"}


def test_the_target_is_the_mean_of_references_that_are_answered_anew(tmp_path: Path) -> None:
    rewards = {"above once": [0.5, 0.2, 0.2], "below": [0.1, 0.2, 0.2]}
    found = named(run_with(tmp_path, rewards, references=(0.0, 0.8, 0.1)), 2)
    assert found == {"below": pytest.approx((3, 3, 0.3, 0.2, 0.2))}


def test_the_row_given_is_the_newest(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", reference=True)
    assert {run.snapshot.metadata("step")[one.row] for one in unsolved_prompts(run.snapshot, 3)} == {3, 4}


def test_a_history_is_the_prompts_samples_by_step(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", reference=True)
    whole = run.samples(text=True)
    mine = whole[whole.prompt == "stuck"]
    found = samples_of_prompt(run.snapshot, int(mine.index[3]))
    assert run.snapshot.uids(found.rows) == mine.uid.tolist()
    steps, means = found.means(found.reward)
    assert dict(zip(steps.tolist(), means.tolist(), strict=True)) == pytest.approx(
        mine.groupby("step").reward.mean().to_dict()
    )


def test_a_run_without_rewards_has_no_such_prompts(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    append(folder / "rollout_data_rank_0.jsonl", *(line(step, drop=("reward",)) for step in (1, 2, 3)))
    run = rlpanel.open_run(folder, follow=False)
    assert unsolved_prompts(run.snapshot, 1) == []
    assert np.isnan(samples_of_prompt(run.snapshot, 0).reward).all()
    assert math.isfinite(samples_of_prompt(run.snapshot, 0).length[0])
