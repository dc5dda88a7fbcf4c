"""The groups of a step, compared with pandas, and filters on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rlpanel
from rlpanel.api.run import Run
from rlpanel.store.query.query import Query, QuerySpec
from rlpanel.store.query.step_groups import ALL_HIGH, ALL_LOW, SIGNAL, StepGroups, groups_of
from tests.factories import append, line, write_run
from tests.ui.raw import raw_frame

STATES = {(1.0, 1.0, 1.0): ALL_HIGH, (0.5, 0.5, 0.5): ALL_LOW, (0.0, 0.5, 1.0): SIGNAL}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def opened(folder: Path) -> Run:
    return rlpanel.open_run(folder, follow=False)


def of_step(run: Run, step: int) -> StepGroups:
    found = groups_of(run.view, step)
    assert found is not None
    return found


def uids(run: Run, question: QuerySpec) -> list[str]:
    outcome = list(Query(run.index, run.snapshot, question).results())[-1]
    return run.snapshot.uids(outcome.rows)


def test_numbers_of_the_recorded_run_are_those_of_pandas(grpo_run: Path) -> None:
    found = of_step(opened(grpo_run), 17)
    raw = raw_frame(grpo_run).query("step == 17")
    by = raw.groupby("group_id", sort=False)
    wanted = by.reward.agg(["mean", "std", "max", "min", "size"])
    assert found.names == wanted.index.astype(str).tolist()
    assert found.sizes.tolist() == wanted["size"].tolist()
    for name, column in {"mean": "mean", "std": "std", "best": "max", "worst": "min"}.items():
        np.testing.assert_allclose(found.values[f"group_{name}"], wanted[column], atol=1e-12)
    np.testing.assert_allclose(found.values["group_diversity"], by.response.nunique() / wanted["size"])
    np.testing.assert_allclose(found.values["group_pass_rate"], by.reward.agg(lambda r: (r >= 1).mean()))


def test_groups_that_teach_nothing_are_told_apart_and_keep_their_order(tmp_path: Path) -> None:
    rewards = list(STATES)
    lines = [
        line(1, index=at, group=f"g{at}", reward=values[place])
        for place in range(3)
        for at, values in enumerate(rewards)
    ]
    append(tmp_path / "rollout_data_rank_0.jsonl", *lines)
    found = of_step(opened(tmp_path), 1)
    assert found.states.tolist() == list(STATES.values())
    assert found.names == ["g0", "g1", "g2"]


@pytest.mark.parametrize("drop", [[], ["group"]])
def test_the_filter_of_a_group_finds_its_samples(tmp_path: Path, drop: list[str]) -> None:
    run = opened(write_run(tmp_path / "run", steps=2, ranks=2, drop=drop))
    found = of_step(run, 2)
    assert len(found) == 4
    for at, members in enumerate(found.members):
        assert uids(run, QuerySpec(2, filter=found.filters[at])) == run.snapshot.uids(members)
        assert found.index_of(run.snapshot.uid(int(members[-1]))) == at


def test_an_id_with_quotes_is_an_id(tmp_path: Path) -> None:
    run = opened(write_run(tmp_path / "run", steps=1, samples=4, group='a "b" \\ or 1 == 1'))
    found = of_step(run, 1)
    assert uids(run, QuerySpec(1, filter=found.filters[0])) == run.snapshot.uids(found.members[0])


def test_a_group_of_one_is_none_and_ungrouped_runs_have_none(tmp_path: Path, ppo_run: Path) -> None:
    assert groups_of(opened(ppo_run).view, 3) is None
    lines = [line(1, index=at, group=name) for at, name in enumerate(["a", "b", "a"])]
    append(tmp_path / "rollout_data_rank_0.jsonl", *lines)
    run = opened(tmp_path)
    found = of_step(run, 1)
    assert (found.names, found.index_of(run.snapshot.uid(1))) == (["a"], None)


def test_without_rewards_there_are_members_and_diversity(tmp_path: Path) -> None:
    found = of_step(opened(write_run(tmp_path / "run", steps=1, drop=["reward"])), 1)
    assert set(found.values) == {"group_diversity"}
    assert pd.unique(found.states).tolist() == [SIGNAL]
