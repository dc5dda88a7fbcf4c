"""What is new since a step: findings by their steps, bad lines by their place, and the steps themselves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.api.run import Run
from rlpanel.queries.events import MAX_STEPS, news
from rlpanel.queries.findings import findings
from rlpanel.queries.reports.claim_report import annotate
from rlpanel.queries.steps import steps
from tests.factories import append, line, write_run


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Six steps in two files; bad lines stand before step 1, after step 2, and at the end."""
    first, second = (tmp_path / f"rollout_data_rank_{rank}.jsonl" for rank in (0, 1))
    append(first, b"{early\n", *(line(step, index=index) for step in (1, 2) for index in range(4)))
    append(first, b"{middle\n", *(line(step, index=index) for step in range(3, 7) for index in range(4)))
    append(second, *(line(step, rank=1, index=index) for step in range(1, 7) for index in range(4)))
    append(first, b"{late\n", b"{later\n")
    os.utime(first, (1e9, 1e9))
    os.utime(second, (1e9, 1e9))
    with rlpanel.open_run(tmp_path, follow=False) as opened:
        yield opened


def rows(run: Run, since: int, kind: str) -> list[dict[str, Any]]:
    return [row for row in news(run.data, since).rows if row["kind"] == kind]


def test_each_complete_step_after_it_has_its_main_numbers(run: Run) -> None:
    table = news(run.data, 4)
    mine = [row for row in table.rows if row["kind"] == "step"]
    theirs = {row["step"]: row for row in steps(run.data).rows}
    assert [row["step"] for row in mine] == [5, 6]
    for row in mine:
        assert row["reward_mean"] == theirs[row["step"]]["reward_mean"]
    assert (table.about["newest"], table.about["steps"], table.about["samples"]) == (6, 2, 16)
    assert table.about["counts"]["step"] == 2


@pytest.mark.parametrize(
    ("since", "begins"),
    [
        (0, ["4 lines are not samples, the first: line 1:"]),
        (1, ["3 lines are not samples, the first: line 10:"]),
        (2, ["3 lines are not samples, the first: line 10:"]),
        (3, ["2 lines are not samples, the first: line 27:"]),
        (6, ["2 lines are not samples, the first: line 27:"]),
    ],
)
def test_a_bad_line_is_new_if_it_stands_after_the_known_samples(
    run: Run, since: int, begins: list[str]
) -> None:
    found = rows(run, since, "error")
    assert [row["sentence"].split(": ")[:2] for row in found] == [
        begin.rstrip(":").split(": ") for begin in begins
    ]
    assert {row["title"] for row in found} == {"rollout_data_rank_0.jsonl"}
    assert (news(run.data, since).about["bad"], news(run.data, since).about["bad_unplaced"]) == (4, 0)


def test_a_note_on_a_later_step_is_an_event(run: Run) -> None:
    annotate(run.data, "step:2", note="before")
    annotate(run.data, "step:5", note="lowered lr")
    assert [(row["step"], row["sentence"]) for row in rows(run, 2, "event")] == [(5, "lowered lr")]


def test_a_finding_is_new_or_ongoing_by_its_onset(grpo: Run) -> None:
    [found] = findings(grpo.data).rows
    assert found["ongoing"]
    [new] = rows(grpo, found["onset"] - 1, "new")
    assert (new["step"], new["uid"], new["filter"]) == (found["onset"], found["uid"], found["filter"])
    [ongoing] = rows(grpo, found["onset"], "ongoing")
    assert ongoing["sentence"] == found["sentence"]
    assert rows(grpo, found["onset"], "new") == []


def test_a_finding_that_does_not_go_on_has_ended(tmp_path: Path) -> None:
    def cut(step: int) -> dict[str, Any]:
        return {"truncated": True} if 20 <= step < 28 else {"truncated": False}

    log = tmp_path / "rollout_data_rank_0.jsonl"
    append(log, *(line(step, index=index, **cut(step)) for step in range(1, 51) for index in range(16)))
    os.utime(log, (1e9, 1e9))
    with rlpanel.open_run(tmp_path, follow=False) as opened:
        truncated = next(row for row in findings(opened.data).rows if row["rule"] == "truncated")
        assert not truncated["ongoing"]
        [ended] = [row for row in rows(opened, 25, "ended") if row["title"] == truncated["title"]]
        assert ended["step"] == truncated["last"]
        later = rows(opened, truncated["last"] + 1, "ended")
        assert truncated["title"] not in {row["title"] for row in later}


def test_many_new_steps_are_counted_and_the_newest_listed(tmp_path: Path) -> None:
    write_run(tmp_path, steps=MAX_STEPS + 5, samples=4)
    os.utime(tmp_path / "rollout_data_rank_0.jsonl", (1e9, 1e9))
    with rlpanel.open_run(tmp_path, follow=False) as opened:
        table = news(opened.data, 2)
    listed = [row["step"] for row in table.rows if row["kind"] == "step"]
    assert listed == list(range(6, MAX_STEPS + 6))
    assert (table.about["steps"], table.about["steps_without_row"]) == (MAX_STEPS + 3, 3)


def test_nothing_is_new_after_the_newest_step(run: Run) -> None:
    table = news(run.data, 99)
    assert {row["kind"] for row in table.rows} <= {"ongoing", "error"}
    assert (table.about["steps"], table.about["samples"]) == (0, 0)
