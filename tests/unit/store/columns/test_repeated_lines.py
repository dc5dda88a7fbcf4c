"""Repeated steps and lines: which are used, which are excluded, and none is lost."""

from __future__ import annotations

from pathlib import Path

from rlpanel.api.open_run import open_run
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import append, line, rewrite, write_run

RANK0, RANK1 = "rollout_data_rank_0.jsonl", "rollout_data_rank_1.jsonl"
#: A response that is never sampled twice: its surprisal is 70 nats.
UNLIKELY = {"logprobs": [-3.5] * 20}
#: A response of the same length that a collapsed policy samples repeatedly.
LIKELY = {"logprobs": [-0.1] * 20}


def look(index: RunIndex) -> Snapshot:
    index.rescan()
    while index.read():
        pass
    return index.snapshot


def read(folder: Path) -> Snapshot:
    return look(RunIndex(folder, "run"))


def steps(first: int, last: int, reward: float, *, rank: int = 0) -> list[bytes]:
    return [
        line(step, rank=rank, index=index, reward=reward)
        for step in range(first, last + 1)
        for index in range(4)
    ]


# -- restarts ----------------------------------------------------------------------------------------


def test_after_a_restart_the_newest_attempt_counts(tmp_path: Path) -> None:
    append(tmp_path / RANK0, *steps(1, 10, 1.0), *steps(6, 12, 2.0))
    found = read(tmp_path)
    assert (found.restarts, found.older) == ((6,), 20)
    assert found.steps.values.tolist() == list(range(1, 13))
    assert found.steps.mean("reward").tolist() == [1.0] * 5 + [2.0] * 7


def test_steps_that_the_new_attempt_has_not_reached_are_not_shown(tmp_path: Path) -> None:
    append(tmp_path / RANK0, *steps(1, 10, 1.0), *steps(6, 7, 2.0))
    assert read(tmp_path).steps.values.tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_an_older_attempt_can_be_asked_for(tmp_path: Path) -> None:
    append(tmp_path / RANK0, *steps(1, 10, 1.0), *steps(6, 12, 2.0))
    frame = open_run(tmp_path, follow=False).samples(step=8, older=True)
    assert frame.groupby("older")["reward"].unique().to_dict() == {False: [2.0], True: [1.0]}


def test_a_sample_of_an_older_attempt_keeps_its_uid(tmp_path: Path) -> None:
    append(tmp_path / RANK0, *steps(1, 10, 1.0), *steps(6, 12, 2.0))
    run = open_run(tmp_path, follow=False)
    uid = run.samples(step=8, older=True).query("older").uid.iloc[0]
    assert run.sample(uid).reward == 1.0


def test_a_restart_shows_while_it_is_followed(tmp_path: Path) -> None:
    index = RunIndex(tmp_path, "run")
    append(tmp_path / RANK0, *steps(1, 10, 1.0))
    before = look(index)
    append(tmp_path / RANK0, *steps(6, 6, 2.0))
    after = look(index)
    assert (before.steps.values[-1], after.steps.values[-1], after.steps.mean("reward")[-1]) == (10, 6, 2.0)
    assert before.steps.samples.tolist() == [4] * 10


def test_each_rank_restarts_for_itself(tmp_path: Path) -> None:
    append(tmp_path / RANK0, *steps(1, 10, 1.0), *steps(6, 10, 2.0))
    append(tmp_path / RANK1, *steps(1, 10, 3.0, rank=1))
    found = read(tmp_path)
    assert (found.older, found.steps.samples.tolist()) == (20, [8] * 10)


def test_ranks_in_one_file_are_told_apart(tmp_path: Path) -> None:
    append(tmp_path / "all.jsonl", *steps(1, 10, 1.0, rank=0), *steps(1, 10, 2.0, rank=1))
    found = read(tmp_path)
    assert (found.restarts, found.steps.samples.tolist()) == ((), [8] * 10)


def test_a_file_that_is_replaced_forgets_its_restarts(tmp_path: Path) -> None:
    index = RunIndex(tmp_path, "run")
    append(tmp_path / RANK0, *steps(1, 10, 1.0), *steps(6, 12, 2.0))
    look(index)
    rewrite(tmp_path / RANK0, *steps(1, 3, 5.0))
    found = look(index)
    assert (found.restarts, found.older, found.steps.values.tolist()) == ((), 0, [1, 2, 3])


# -- lines that came before --------------------------------------------------------------------------


def test_a_line_written_twice_counts_once(tmp_path: Path) -> None:
    one = line(1, **UNLIKELY, reward=5.0)
    append(tmp_path / RANK0, one, line(1, index=1, **UNLIKELY, reward=1.0), one)
    found = read(tmp_path)
    assert (found.samples, found.duplicates, found.steps.mean("reward").tolist()) == (2, 1, [3.0])


def test_it_counts_once_however_long_ago_it_came(tmp_path: Path) -> None:
    index, one = RunIndex(tmp_path, "run"), line(1, **UNLIKELY, reward=5.0)
    append(tmp_path / RANK0, one)
    look(index)
    append(tmp_path / RANK1, one)
    found = look(index)
    assert (found.samples, found.duplicates) == (1, 1)


def test_the_first_file_by_name_keeps_it(tmp_path: Path) -> None:
    index, one = RunIndex(tmp_path, "run"), line(1, **UNLIKELY)
    for name in (RANK1, RANK0):
        append(tmp_path / name, one)
        found = look(index)
    assert found.uids(found.alive_rows) == [f"{RANK0}:0"]


def test_a_response_that_may_come_twice_by_chance_counts_twice(tmp_path: Path) -> None:
    append(tmp_path / RANK0, line(1, **LIKELY), line(1, **LIKELY))
    found = read(tmp_path)
    assert (found.samples, found.duplicates, found.repeats) == (2, 0, 1)


def test_a_line_without_logprobs_counts_each_time(tmp_path: Path) -> None:
    append(tmp_path / RANK0, line(1, tokens=False), line(1, tokens=False))
    assert read(tmp_path).samples == 2


def test_when_the_first_is_deleted_the_second_counts(tmp_path: Path) -> None:
    index, one = RunIndex(tmp_path, "run"), line(1, **UNLIKELY)
    append(tmp_path / RANK0, one)
    append(tmp_path / RANK1, one)
    look(index)
    (tmp_path / RANK0).unlink()
    found = look(index)
    assert (found.uids(found.alive_rows), found.duplicates) == ([f"{RANK1}:0"], 0)


def test_a_file_rewritten_with_the_same_lines_has_no_duplicates(tmp_path: Path) -> None:
    index = RunIndex(tmp_path, "run")
    for _ in range(3):
        (tmp_path / RANK0).unlink(missing_ok=True)
        append(tmp_path / RANK0, line(1, **UNLIKELY), line(2, **UNLIKELY))
        found = look(index)
    assert (found.samples, found.duplicates) == (2, 0)


def test_a_restart_that_repeats_every_line_leaves_the_newest(tmp_path: Path) -> None:
    index = RunIndex(write_run(tmp_path, steps=10, samples=4, **UNLIKELY), "run")
    look(index)
    data = (tmp_path / RANK0).read_bytes()
    append(tmp_path / RANK0, data)
    found = look(index)
    assert (found.samples, found.older, found.duplicates) == (40, 40, 0)
    assert (found.metadata("offset")[found.alive_rows] >= len(data)).all()
