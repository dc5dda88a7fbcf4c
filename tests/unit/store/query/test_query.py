"""Queries of a run, compared with the same queries of a data frame with all texts."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlpanel.api.run import Run
from rlpanel.errors import FilterError
from rlpanel.settings import Reading
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.notes_beside_log import Notes
from rlpanel.store.query.query import Query, QueryResult, QuerySpec
from tests.factories import append, line, write_run
from tests.limits import store_limits


@pytest.fixture
def index(tmp_path: Path) -> RunIndex:
    run = write_run(tmp_path / "run", steps=3, ranks=2, samples=6)
    append(
        run / "rollout_data_rank_0.jsonl",
        line(4, prompt="the same", response="twin", reward=-2.0, group=None),
    )
    append(
        run / "rollout_data_rank_1.jsonl",
        line(4, prompt="the same", response="twin", reward=-4.0, group=None),
    )
    append(
        run / "rollout_data_rank_1.jsonl", line(4, prompt="another", response="alone", reward=9.0, group=None)
    )
    return opened(run)


def opened(run: Path, **limits: float) -> RunIndex:
    index = RunIndex(run, "run", Reading(), limits=store_limits(**limits))
    index.rescan()
    while index.read():
        pass
    return index


def ask(index: RunIndex, **question: object) -> QueryResult:
    query = Query(index, index.snapshot, QuerySpec(**question), Notes(index.path))  # type: ignore[arg-type]
    return list(query.results())[-1]


def frame(index: RunIndex) -> pd.DataFrame:
    return Run(index).samples(text=True)


def uids(index: RunIndex, outcome: QueryResult) -> list[str]:
    return index.snapshot.uids(outcome.rows)


def test_an_empty_question_finds_the_step(index: RunIndex) -> None:
    whole = frame(index)
    assert uids(index, ask(index, step=2)) == whole[whole.step == 2].uid.tolist()


def test_a_filter_asks_the_step_or_the_run(index: RunIndex) -> None:
    whole = frame(index)
    hit = whole[whole.reward > whole.reward.median()]
    text = f"reward > {whole.reward.median()}"
    assert uids(index, ask(index, filter=text)) == hit.uid.tolist()
    assert uids(index, ask(index, filter=text, step=2)) == hit[hit.step == 2].uid.tolist()


def test_a_percentile_is_of_the_step_or_of_the_run(index: RunIndex) -> None:
    whole = frame(index)
    in_run, in_step = ask(index, filter="reward > p50"), ask(index, filter="reward > p50", step=2)
    assert in_run.percentiles == {"reward p50": pytest.approx(whole.reward.median())}
    assert in_step.percentiles == {"reward p50": pytest.approx(whole[whole.step == 2].reward.median())}


def test_filter_and_search_are_joined(index: RunIndex) -> None:
    whole = frame(index)
    word = whole.response.iloc[3].split()[0]
    texts = whole.prompt + "|" + whole.response + "|" + whole.ref_response + "|" + whole.ground_truth
    wanted = whole[texts.str.contains(word, regex=False) & (whole.reward > 0)]
    outcome = ask(index, filter="reward > 0", search=word.upper())
    assert len(wanted)
    assert uids(index, outcome) == wanted.uid.tolist()
    assert outcome.bytes_done == outcome.bytes_total > 0


def test_a_text_may_be_asked_in_the_filter(index: RunIndex) -> None:
    outcome = ask(index, filter='not prompt contains "same" and step == 4 or reward < -3')
    assert index.snapshot.number("reward")[outcome.rows].tolist() == [-4.0, 9.0]


def test_slashes_search_by_a_regular_expression(index: RunIndex) -> None:
    outcome = ask(index, search="/^tw.n$/")
    assert index.snapshot.number("reward")[outcome.rows].tolist() == [-2.0, -4.0]


@pytest.mark.parametrize(("sort", "rewards"), [("reward", [-4, -2, 9]), ("-reward", [9, -2, -4])])
def test_rows_come_sorted(index: RunIndex, sort: str, rewards: list[float]) -> None:
    assert index.snapshot.number("reward")[ask(index, step=4, sort=sort).rows].tolist() == rewards


def test_copies_count_prompt_and_response(index: RunIndex) -> None:
    outcome = ask(index, step=4, filter="copies > 1")
    assert index.snapshot.number("reward")[outcome.rows].tolist() == [-2.0, -4.0]


def test_a_group_without_a_label_is_its_prompt_in_the_step(index: RunIndex) -> None:
    outcome = ask(index, filter="group_reward == -3")
    whole = frame(index)
    groups = whole.groupby(["step", whole.group.fillna(whole.prompt)]).reward.transform("mean")
    assert (groups == -3).sum() == 2
    assert uids(index, outcome) == whole[groups == -3].uid.tolist()


def test_tags_are_columns(index: RunIndex) -> None:
    uid = index.snapshot.uid(3)
    Notes(index.path).write(uid, "cheat", "copies the prompt")
    assert uids(index, ask(index, filter='tag == "cheat" and note contains "PROMPT"')) == [uid]


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ({"sort": "nothing"}, "cannot sort by 'nothing'"),
        ({"sort": "-rewards"}, "the nearest: reward"),
        ({"sort": "file"}, "holds texts"),
        ({"sort": "copies"}, "or only for single steps"),
        ({"search": "/(/"}, "not a valid regular expression"),
        ({"filter": "rewad > 1"}, "did you mean reward"),
    ],
)
def test_a_question_that_cannot_be_asked_says_why(
    index: RunIndex, question: dict[str, str], said: str
) -> None:
    with pytest.raises(FilterError) as error:
        ask(index, **question)
    assert said in str(error.value)


def test_older_attempts_are_asked_where_wanted(tmp_path: Path) -> None:
    folder = tmp_path / "restarted"
    folder.mkdir()
    steps = [step for step in (1, 2, 3, 1, 2, 3) for _ in range(4)]
    lines = [line(step, response=f"{at}", reward=float(at), group="g") for at, step in enumerate(steps)]
    append(folder / "rollout_data_rank_0.jsonl", *lines)
    index = RunIndex(folder, "restarted", Reading())
    index.rescan()
    while index.read():
        pass
    reward = index.snapshot.number("reward")
    assert reward[ask(index, step=2).rows].tolist() == [16, 17, 18, 19]
    older = ask(index, step=2, older=True, filter='attempt == "older" and group_reward == 5.5')
    assert reward[older.rows].tolist() == [4, 5, 6, 7]
    with pytest.raises(FilterError):
        ask(index, step=2, filter='attempt == "older"')


def test_bits_of_an_answer_add_up_to_it(index: RunIndex) -> None:
    index = opened(index.path, pause_seconds=-1.0, block_bytes=64)
    query = Query(
        index, index.snapshot, QuerySpec(filter='reward > 0 or response contains "e"', sort="-reward")
    )
    outcomes = list(query.results())
    assert len(outcomes) >= 3
    for before, after in pairwise(outcomes):
        assert set(before.rows) <= set(after.rows)
        assert before.bytes_done <= after.bytes_done
    rewards = index.snapshot.number("reward")[outcomes[-1].rows]
    assert np.array_equal(rewards, -np.sort(-rewards))
