"""Step metrics of a run: availability, incremental updates, and equality with a full computation."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlpanel.api.open_run import open_run
from rlpanel.api.run import Run
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import append, line, write_run


def caught_up(index: RunIndex) -> Snapshot:
    index.rescan()
    while index.read():
        pass
    return index.snapshot


def scratch(folder: Path) -> Snapshot:
    return open_run(folder, follow=False).snapshot


def same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    assert set(one.columns) == set(other.columns)
    pd.testing.assert_frame_equal(one, other[one.columns], rtol=1e-9, atol=1e-12)


def test_what_is_kept_up_to_date_is_what_is_made_from_scratch(tmp_path: Path) -> None:
    index = RunIndex(write_run(tmp_path / "run", steps=4, ranks=2), "run")
    RunView(caught_up(index)).step_frame()
    for step in (2, 4, 5, 5):
        new = line(step, index=step * 31, group="0-1", reward=9.0)
        append(tmp_path / "run" / "rollout_data_rank_1.jsonl", new)
        same(RunView(caught_up(index)).step_frame(), RunView(scratch(tmp_path / "run")).step_frame())


def test_a_file_that_goes_takes_its_samples_out_of_the_steps(tmp_path: Path) -> None:
    index = RunIndex(write_run(tmp_path / "run", ranks=2), "run")
    RunView(caught_up(index)).step_frame()
    (tmp_path / "run" / "rollout_data_rank_0.jsonl").unlink()
    left = caught_up(index)
    same(RunView(left).step_frame(), RunView(scratch(tmp_path / "run")).step_frame())


def test_the_order_of_the_ranks_changes_nothing(tmp_path: Path) -> None:
    for name, order in (("a", (0, 1, 2)), ("b", (2, 0, 1))):
        for place, rank in enumerate(order):
            lines = [line(s, rank=rank, index=i) for s in (1, 2, 3) for i in range(8)]
            write_run(tmp_path / name, steps=0)
            append(tmp_path / name / f"part_{place}.jsonl", *lines)
    same(RunView(scratch(tmp_path / "a")).step_frame(), RunView(scratch(tmp_path / "b")).step_frame())


def test_a_long_run_is_looked_at_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(tmp_path / "run", steps=7, ranks=2)
    whole = RunView(scratch(run)).step_frame()
    monkeypatch.setattr("rlpanel.store.snapshot.step_metric_cache.ROWS", 20)
    same(RunView(scratch(run)).step_frame(), whole)


def test_step_metrics_are_offered_exactly_where_their_fields_are(tmp_path: Path) -> None:
    with_tokens = scratch(write_run(tmp_path / "tokens"))
    without = scratch(write_run(tmp_path / "texts", tokens=False))
    assert {"kl_k1_pooled", "var_explained", "win_share"} <= RunView(with_tokens).step_metrics
    assert (RunView(without).has("win_share"), RunView(without).has("kl_k1_pooled")) == (True, False)


def test_nothing_is_offered_that_has_no_value_anywhere(tmp_path: Path) -> None:
    quiet = scratch(write_run(tmp_path / "run", ranks=1, values=[0.0] * 3, token_rewards=[0.0] * 3))
    assert RunView(quiet).step_metrics.isdisjoint(
        {"var_explained", "kl_coef_fit", "reward_rank_spread", "clipfrac"}
    )


CRITIC = {"value", "token_reward", "token_return", "token_advantage", "non_score_reward", "rlhf_reward"}


@pytest.mark.parametrize("step_2", [[0.0] * 3, [0.0, 0.5, 0.0]], ids=["never", "from step 2 on"])
def test_zeros_tell_something_only_where_the_run_has_other_values(
    tmp_path: Path, step_2: list[float]
) -> None:
    tokens = {"response_tokens": list("abc"), "logprobs": [-1] * 3, "ref_logprobs": [-1] * 3}
    for step, filled in ((1, [0.0] * 3), (2, step_2)):
        lines = [
            line(step, index=i, reward=i % 2, **tokens, values=filled, token_rewards=filled) for i in range(4)
        ]
        append(tmp_path / "rank_0.jsonl", *lines)
    shot = scratch(tmp_path)
    names = {
        *shot.numbers,
        *RunView(shot).step_frame().columns,
        *RunView(shot).frame(shot.alive_rows).columns,
        *RunView(shot).step_metrics,
    }
    critic = {name for name in names if name.startswith(("value", *CRITIC)) or "return" in name}
    if any(step_2):
        assert {"value_mean", "token_reward_sum", "return_pooled", "value_error"} <= critic
        assert RunView(shot).step_values("value_mean").tolist() == pytest.approx([0, 0.5 / 3])
    else:
        assert critic == set()


def test_sums_that_are_there_to_be_pooled_are_shown_nowhere(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path / "run"), follow=False)
    names = {*run.snapshot.numbers, *run.samples().columns, *run.steps.columns}
    assert [name for name in names if name.startswith("_") or name.endswith("_count")] == ["group_count"]


def test_samples_of_one_prompt_are_a_group_where_no_id_was_logged(tmp_path: Path) -> None:
    named = RunView(scratch(write_run(tmp_path / "named", ranks=2))).step_frame()
    unnamed = RunView(scratch(write_run(tmp_path / "unnamed", ranks=2, drop=["group"]))).step_frame()
    np.testing.assert_allclose(unnamed.reward_group_std, named.reward_group_std)


def test_a_prompt_drawn_twice_by_chance_makes_no_groups(tmp_path: Path) -> None:
    for at in range(8):
        append(tmp_path / "x.jsonl", line(1, index=at, prompt=f"p{max(at, 1)}", drop=["group"]))
    snapshot = scratch(tmp_path)
    assert (RunView(snapshot).derived, RunView(snapshot).has("group_count")) == ((), False)


def test_advantages_of_groups_are_columns_of_the_sample(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path / "run", ranks=2), follow=False)
    frame = run.samples()
    groups = frame.groupby(["step", "group"]).reward
    wanted = (frame.reward - groups.transform("mean")) / (groups.transform("std") + 1e-4)
    np.testing.assert_allclose(frame.grpo_advantage, wanted)
    one = run.samples(step=2)
    np.testing.assert_array_equal(one.grpo_advantage, frame.grpo_advantage[frame.step == 2])
    assert run.sample(one.uid[3]).columns["grpo_advantage"] == one.grpo_advantage[3]


def test_a_missing_reward_is_missing_in_its_own_row(tmp_path: Path) -> None:
    append(tmp_path / "x.jsonl", *(line(1, index=i, reward=None if i == 1 else float(i)) for i in range(4)))
    snapshot = scratch(tmp_path)
    found = RunView(snapshot).values("dr_grpo_advantage", snapshot.alive_rows)
    np.testing.assert_allclose(found, [-5 / 3, np.nan, 1 / 3, 4 / 3])


# -- constants ---------------------------------------------------------------------------------------


def returns(snapshot: Snapshot) -> list[float]:
    return RunView(snapshot).step_values("return_pooled").tolist()


FLAT = {"values": [1.0] * 3, "token_rewards": [0.0, 0.0, 1.0]}


def test_rows_are_made_again_when_the_runs_constants_become_known(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=1, **FLAT)  # type: ignore[arg-type]
    index = RunIndex(run, "run")
    before = returns(caught_up(index))
    (run / "run.json").write_text(json.dumps({"algo": "ppo", "gamma": 1.0, "lam": 0.0, "cliprange": 0.1}))
    after = caught_up(index)
    assert before == pytest.approx([1.0])
    assert (returns(after), after.samples) == (pytest.approx([1.0]), 8)
    (run / "run.json").write_text(json.dumps({"gamma": 0.5, "lam": 0.0}))
    # Returns with λ = 0 are r + γ V': 0.5, 0.5, 1.
    assert returns(caught_up(index)) == pytest.approx([2 / 3])


def test_a_pass_is_another_one_at_once(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=1, reward=0.5)
    index = RunIndex(run, "run")
    before = RunView(caught_up(index)).step_values("pass_at_1")
    (run / "run.json").write_text('{"pass_reward": 0.5}')
    assert (before.tolist(), RunView(caught_up(index)).step_values("pass_at_1").tolist()) == ([0], [1])


@pytest.mark.parametrize(
    "text", ['{"beta": 0.1', "[1]", '{"beta": "much"}', '{"beta": true}', '{"beta": NaN}', ""]
)
def test_a_run_file_that_makes_no_sense_is_as_good_as_none(tmp_path: Path, text: str) -> None:
    run = write_run(tmp_path / "run")
    (run / "run.json").write_text(text)
    assert "kl_coef" not in scratch(run).constants


def test_the_coefficient_is_inferred_and_says_how_well(ppo: Run) -> None:
    known = ppo.view.constants.by_name["kl_coef"]
    assert (round(known.value, 6), known.origin) == (0.03, "inferred")
    assert "R² ≥ 1.0000 in 59 of 60 steps" in str(known)


def test_no_coefficient_is_inferred_from_rewards_that_are_no_penalty(tmp_path: Path) -> None:
    assert "kl_coef" not in RunView(scratch(write_run(tmp_path / "run"))).constants


def penalized(folder: Path, beta: float, *, steps: int = 2) -> Path:
    """A run of RLOO with β Σ log-ratio in the reward, which logs token rewards and no ``run.json``."""
    folder.mkdir(exist_ok=True)
    chance = np.random.default_rng(0)
    for step in range(1, steps + 1):
        logprobs, reference = -chance.exponential(size=(2, 4, 6))
        scores = chance.normal(size=4)
        token_rewards = -beta * (logprobs - reference)
        token_rewards[:, -1] += scores
        rewards = token_rewards.sum(1)
        advantages = [reward - np.delete(rewards, at).mean() for at, reward in enumerate(rewards)]
        lines = [
            line(
                step,
                prompt="p",
                group="g",
                tokens=False,
                reward=scores[index],
                advantage=advantages[index],
                logprobs=logprobs[index].tolist(),
                ref_logprobs=reference[index].tolist(),
                token_rewards=token_rewards[index].tolist(),
            )
            for index in range(4)
        ]
        append(folder / "rollout_data_rank_0.jsonl", *lines)
    return folder


def test_formulas_use_the_coefficient_that_was_inferred(tmp_path: Path) -> None:
    view = RunView(scratch(penalized(tmp_path, 0.03)))
    assert view.constants.by_name["kl_coef"].origin == "inferred"
    assert abs(view.number("advantage_less_rloo")).max() < 1e-6
    np.testing.assert_allclose(view.number("rloo_kl_advantage"), view.number("advantage"), atol=1e-6)
    assert abs(view.number("rloo_advantage") - view.number("advantage")).max() > 0.01


def test_a_missing_logprob_does_not_cost_the_inferred_coefficient(tmp_path: Path) -> None:
    run = penalized(tmp_path, 0.05)
    text = (run / "rollout_data_rank_0.jsonl").read_text().splitlines(keepends=True)
    row = json.loads(text[0])
    row["logprobs"][2] = math.nan
    (run / "rollout_data_rank_0.jsonl").write_text("".join([json.dumps(row) + "\n", *text[1:]]))
    view = RunView(scratch(run))
    assert view.step_values("kl_coef_r2").tolist() == pytest.approx([1.0, 1.0])
    assert view.constants["kl_coef"] == pytest.approx(0.05)


def test_a_coefficient_that_changes_is_not_inferred(tmp_path: Path) -> None:
    penalized(tmp_path, 0.03, steps=1)
    later = penalized(tmp_path / "later", 0.06).joinpath("rollout_data_rank_0.jsonl").read_text()
    with (tmp_path / "rollout_data_rank_0.jsonl").open("a") as file:
        file.writelines(row for row in later.splitlines(keepends=True) if json.loads(row)["step"] == 2)
    view = RunView(scratch(tmp_path))
    assert view.step_values("kl_coef_fit").tolist() == pytest.approx([0.03, 0.06])
    assert "kl_coef" not in view.constants


def test_a_sample_has_the_returns_that_follow(tmp_path: Path) -> None:
    index = RunIndex(write_run(tmp_path / "run", steps=1, **FLAT), "run")  # type: ignore[arg-type]
    snapshot = caught_up(index)
    sample = fetch(index, RunView(snapshot), 0)
    np.testing.assert_allclose(sample.arrays()["returns"], [1, 1, 1])
    assert (sample.returns, snapshot.number("token_return_mean")[0]) == (None, pytest.approx(1))


def test_values_at_some_steps_are_those_of_all_steps(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=5, ranks=2)
    index = RunIndex(run, "run")
    caught_up(index)
    names = [*index.view.step_metrics, "reward"]
    for steps in ((0, 1), (4, 4), (2,)):
        whole = RunView(index.snapshot)
        for name in names:
            expected = whole.step_values(name)[list(steps)]
            np.testing.assert_array_equal(RunView(index.snapshot).values_at(name, steps), expected)
            np.testing.assert_array_equal(whole.values_at(name, steps), expected)


def test_values_at_a_step_are_not_computed_for_the_other_steps(tmp_path: Path) -> None:
    index = RunIndex(write_run(tmp_path / "run", steps=5, ranks=2), "run")
    caught_up(index)
    index.view.values_at("zero_variance_groups", (2,))
    assert not index.view._memory.step_metrics._cached
