"""The table of groups, compared with pandas and with the groups of each step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rlpanel
from rlpanel.store.query.step_groups import groups_of
from tests.factories import write_run
from tests.ui.raw import raw_frame


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def opened(folder: Path) -> rlpanel.Run:
    return rlpanel.open_run(folder, follow=False)


def test_all_groups_are_those_of_pandas(grpo_run: Path) -> None:
    run = opened(grpo_run)
    found, raw = run.groups(), raw_frame(grpo_run)
    raw["prompt_chars"], raw["tokens"] = raw.prompt.str.len(), raw.response_tokens.str.len()
    by = raw.groupby(["step", "group_id"], sort=False)
    wanted = by.reward.agg(["size", "mean", "std", "min", "max"])
    assert found[["step", "group"]].apply(tuple, axis=1).tolist() == wanted.index.tolist()
    columns = ["samples", "reward_mean", "reward_std", "reward_min", "reward_max"]
    np.testing.assert_allclose(found[columns], wanted, atol=1e-12)
    np.testing.assert_allclose(found.pass_rate, by.reward.agg(lambda r: (r >= 1).mean()))
    np.testing.assert_allclose(found.diversity, by.response.nunique() / wanted["size"])
    np.testing.assert_allclose(found.prompt_chars, by.prompt_chars.mean())
    np.testing.assert_allclose(found.response_tokens_mean, by.tokens.mean())


def test_a_step_has_the_same_rows_in_the_table_of_all(grpo_run: Path) -> None:
    run = opened(grpo_run)
    of_all = run.groups().query("step == 17").reset_index(drop=True)
    pd.testing.assert_frame_equal(run.groups(17), of_all)
    groups = groups_of(run.view, 17)
    assert groups is not None
    assert of_all["signal"].tolist() == groups.states.tolist()


def test_the_filter_of_a_group_selects_its_samples(tmp_path: Path) -> None:
    run = opened(write_run(tmp_path, steps=2, samples=8))
    group = run.groups(2).iloc[1]
    side = run.contrast((run, group["filter"]), (run, 1)).attrs["samples"][0]
    assert (side, group.uid in set(run.samples(2).uid)) == (8, True)  # 4 samples at each of 2 steps


def test_a_run_without_groups_has_an_empty_table(tmp_path: Path) -> None:
    run = opened(write_run(tmp_path, steps=2, samples=1, drop=("group",)))
    assert run.groups().empty
    assert run.groups(1).empty


def test_steps_are_batched_without_a_group_being_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = opened(write_run(tmp_path, steps=5, samples=8))
    whole = run.groups()
    monkeypatch.setattr("rlpanel.store.snapshot.step_metric_cache.ROWS", 10)
    pd.testing.assert_frame_equal(run.groups(), whole)
    assert whole.step.tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
