"""Tables, commands' facts, SQL and findings of a run whose episodes have several rows."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.api.run import Run
from rlpanel.findings.check import findings
from rlpanel.queries.groups import groups
from rlpanel.queries.prompt_list import prompts
from rlpanel.queries.steps import steps
from rlpanel.settings import FindingSettings
from tests.factories import append, line, write_run

#: Rewards of the episodes of each group; an episode has as many rows as its reward's index, plus one.
REWARDS = {"a": (0.0, 1.0), "b": (1.0, 1.0, 0.0)}


def rows(step: int) -> Iterator[dict[str, Any]]:
    """Seven rows of five episodes; only the last of an episode has a reward of its own."""
    for group, rewards in REWARDS.items():
        for number, reward in enumerate(rewards):
            for turn in range(number + 1):
                yield {
                    "step": step, "group": group, "episode": f"{group}{number}", "turn": turn,
                    "prompt": f"question {group}" + f" and {turn}" * turn,
                    "response": f"{step} {number} {turn}",
                    "reward": reward if turn == number else None, "acc": reward,
                }  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("run")
    append(
        folder / "rank_0.jsonl",
        b"".join(json.dumps(row).encode() + b"\n" for s in range(1, 9) for row in rows(s)),
    )
    return rlpanel.open_run(folder, follow=False)


def test_steps_say_how_many_episodes_they_have_and_what_counts(run: Run) -> None:
    table = steps(run.data, columns=["reward_mean", "acc_mean"], step=3)
    assert table.rows == [
        {"step": 3, "samples": 9, "complete": True, "episodes": 5, "reward_mean": 0.6, "acc_mean": 0.6}
    ]
    by_rows = steps(run.by_rows.data, columns=["acc_mean"], step=3)
    assert by_rows.rows[0]["acc_mean"] == pytest.approx(5 / 9)
    assert [each.about["by"] for each in (table, by_rows)] == ["episodes", "rows"]
    assert run.steps["episodes"].tolist() == [5] * 8


def test_a_run_without_such_episodes_has_the_columns_that_it_had(tmp_path: Path) -> None:
    other = rlpanel.open_run(write_run(tmp_path, steps=2, samples=4), follow=False)
    assert "episodes" not in other.steps
    assert "episodes" not in steps(other).rows[0]
    assert steps(other).about["by"] is None
    assert (other.stats().rows, other.stats().episodes) == (8, 8)
    assert other.by_rows.steps.equals(other.steps)


def test_groups_and_prompts_have_a_member_for_each_episode(run: Run) -> None:
    members = {row["group"]: (row["samples"], row["pass_rate"]) for row in groups(run.data, 3).rows}
    assert members == {"a": (2, 0.5), "b": (3, pytest.approx(2 / 3))}
    by_rows = groups(run.by_rows.data, 3)
    assert ({row["group"]: row["samples"] for row in by_rows.rows}, by_rows.about["by"]) == (
        {"a": 3, "b": 6},
        "rows",
    )
    found = prompts(run.data, "variable", text=False)
    assert sorted(row["samples"] for row in found.rows) == [2 * 8, 3 * 8]


def test_a_split_and_the_way_of_counting_go_together(run: Run) -> None:
    assert run.by_rows.by_rows is run.by_rows
    assert run.split("train").by_rows.steps["acc_mean"].tolist() == pytest.approx([5 / 9] * 8)
    assert run.by_rows.split("train").steps["acc_mean"].tolist() == pytest.approx([5 / 9] * 8)
    assert run.split("train").steps["acc_mean"].tolist() == pytest.approx([0.6] * 8)
    assert (run.stats().rows, run.stats().episodes) == (72, 40)


def test_samples_and_filters_have_every_row_as_it_was_logged(run: Run) -> None:
    samples = run.samples(3)
    assert len(samples) == 9
    assert samples["acc"].tolist() == [row["acc"] for row in rows(3)]


def test_sql_tells_which_rows_count(run: Run) -> None:
    pytest.importorskip("duckdb")
    found = run.sql("select avg(acc) filter (outcome) as once, avg(acc) as each, count(*) as n from samples")
    assert found.iloc[0].tolist() == pytest.approx([0.6, 5 / 9, 72])
    assert run.sql("select reward_mean, episodes from steps where step = 3").values.tolist() == [[0.6, 5]]


def test_rows_before_the_last_one_miss_no_reward_and_every_rule_runs(run: Run) -> None:
    thresholds = FindingSettings(missing_share=0.01)
    found = findings(run.view, thresholds, time.time() + 86400)
    assert [each.sentence for each in found if each.rule in ("missing_rewards", "rule_failed")] == []


def test_episodes_whose_last_row_has_no_reward_are_missing_rewards(tmp_path: Path) -> None:
    for step in range(1, 9):
        for index in range(8):
            turns = [{"reward": 1.0}, {"reward": None if index % 2 else 1.0}]
            for turn, fields in enumerate(turns):
                append(
                    tmp_path / "rank_0.jsonl",
                    line(step, index=index, turn=turn, episode=f"e{index}", **fields),
                )
    with rlpanel.open_run(tmp_path, follow=False) as other:
        found = findings(other.view, FindingSettings(), time.time() + 86400)
    assert [each.rule for each in found if each.rule == "missing_rewards"] == ["missing_rewards"]
