"""Answers and matches as columns of filters."""

from __future__ import annotations

from pathlib import Path

import pytest

import rlpanel
from rlpanel.api.run import Run
from rlpanel.errors import FilterError
from rlpanel.store.query.filter_columns import answer_columns
from rlpanel.store.query.query import Query, QuerySpec
from tests.factories import append, line


def opened(folder: Path, *lines: bytes) -> Run:
    folder.mkdir()
    append(folder / "rollout_data_rank_0.jsonl", *lines)
    return rlpanel.open_run(folder, follow=False)


def boxed(answer: int, truth: int | str, **fields: object) -> bytes:
    text = rf"2 and 3 make \boxed{{{answer}}}, I think, in 1 step"
    return line(response=text, ground_truth=str(truth), tokens=False, **fields)  # type: ignore[arg-type]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return opened(
        tmp_path / "run",
        boxed(5, 5, index=0, reward=1.0),
        boxed(5, "5.0", index=1, reward=0.0),
        boxed(6, 5, index=2, reward=0.0),
        line(index=3, response="no box", ground_truth="5", reward=0.0, tokens=False),
        line(index=4, response=r"\boxed{5}", drop=["ground_truth"], reward=0.0, tokens=False),
    )


def found(run: Run, **question: str) -> list[int]:
    query = Query(run.index, run.index.snapshot, QuerySpec(**question))  # type: ignore[arg-type]
    return list(query.results())[-1].rows.tolist()


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("match = yes", [0, 1]),
        ('match == "no"', [2]),
        ("match = unclear", [3]),
        ("missing(match)", [4]),
        ("match = yes and reward = 0", [1]),
        ("match in [yes, no]", None),
        ('match in ["yes", "no"]', [0, 1, 2]),
        ('answer = "5"', [0, 1, 4]),
        ("answer != 5", [2, 3]),
        ("missing(answer)", [3]),
        ('answer contains "5" and response contains "think"', [0, 1]),
    ],
)
def test_filters_name_the_answer_and_whether_it_matches(run: Run, text: str, rows: list[int] | None) -> None:
    if rows is None:
        with pytest.raises(FilterError, match="a list may only hold"):
            found(run, filter=text)
    else:
        assert found(run, filter=text) == rows


def test_a_search_does_not_look_at_them(run: Run) -> None:
    assert found(run, search="yes") == []
    assert found(run, search="yes", filter="match = yes") == []


def test_another_rule_can_be_set(run: Run) -> None:
    assert found(run, filter="answer = 1") == []
    assert found(run, filter="answer = 1", answer_rule="number") == [0, 1, 2]


def test_names_of_the_log_come_first(tmp_path: Path) -> None:
    run = opened(tmp_path / "run", boxed(5, 5, match=0.25))
    assert answer_columns(run.index, run.index.snapshot).names == ("answer", "match_read")
    assert found(run, filter="match < 0.5 and match_read = yes") == [0]


def test_the_rule_stays_until_the_run_is_twice_as_long(tmp_path: Path) -> None:
    run = opened(tmp_path / "run", *[boxed(5, 5, index=index) for index in range(4)])

    def key() -> str:
        chosen = answer_columns(run.index, run.index.snapshot).chosen
        assert chosen is not None
        return chosen.rule.key

    def add(first: int, count: int) -> None:
        texts = [
            line(index=n, response="so 7", ground_truth="7", tokens=False)
            for n in range(first, first + count)
        ]
        append(tmp_path / "run" / "rollout_data_rank_0.jsonl", *texts)
        while run.index.read():
            pass

    assert key() == "boxed"
    add(4, 3)
    assert key() == "boxed"
    add(7, 9)
    assert key() == "number"
