"""A recorder's session replaces what an earlier one logged of the same steps, and nothing else."""

from __future__ import annotations

import math
import multiprocessing
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from rlpanel.api.open_run import open_run
from rlpanel.recording.writer.writer import RolloutWriter
from rlpanel.store.columns.recorder_sessions import latest_times
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import append, line

RANK0 = "rollout_data_rank_0.jsonl"
#: Seconds since 1970 at which the tests' first recorder was created.
START = 1_795_324_001.25


def look(index: RunIndex) -> Snapshot:
    index.rescan()
    while index.read():
        pass
    return index.snapshot


def read(folder: Path) -> Snapshot:
    return look(RunIndex(folder, "run"))


def session(created: float, process: int = 7) -> str:
    return f"{round((START + created) * 1000):x}-{process:x}"


def steps(
    first: int, last: int, created: float, *, name: str = "", rank: int = 0, **fields: object
) -> list[bytes]:
    """Four lines for each step, a second apart, of a recorder; the reward is the time of its creation."""
    common = {"rank": rank, "session": name or session(created), "reward": created, **fields}
    return [
        line(step, index=index, time=START + created + step - first + index / 4, **common)
        for step in range(first, last + 1)
        for index in range(4)
    ]


def rewards(found: Snapshot) -> dict[int, tuple[int, float]]:
    """Number of samples and mean reward by step."""
    table = found.steps
    columns = table.values.tolist(), table.samples.tolist(), table.mean("reward").tolist()
    return {step: (samples, reward) for step, samples, reward in zip(*columns, strict=True)}


@pytest.mark.parametrize("lost", [0, 1, 2, 3])
def test_a_resumed_job_replaces_the_steps_that_were_lost(tmp_path: Path, lost: int) -> None:
    append(tmp_path / RANK0, *steps(1, 8, 0.0), *steps(9 - lost, 10, 100.0))
    found = read(tmp_path)
    expected = {step: (4, 0.0 if step < 9 - lost else 100.0) for step in range(1, 11)}
    assert (rewards(found), found.older) == (expected, 4 * lost)
    assert found.restarts == ((9 - lost,) if lost else ())


def test_a_step_that_was_logged_in_part_is_replaced_too(tmp_path: Path) -> None:
    append(tmp_path / RANK0, *steps(1, 7, 0.0)[:-3], *steps(7, 7, 100.0))
    assert rewards(read(tmp_path))[7] == (4, 100.0)


def test_it_shows_with_the_first_line_of_the_resumed_job(tmp_path: Path) -> None:
    index = RunIndex(tmp_path, "run")
    append(tmp_path / RANK0, *steps(1, 8, 0.0))
    look(index)
    append(tmp_path / RANK0, steps(7, 7, 100.0)[0])
    found = look(index)
    assert (found.steps.values[-1], found.steps.samples[-1], found.older) == (7, 1, 8)


def test_a_job_resumed_several_times_shows_each_step_once(tmp_path: Path) -> None:
    append(tmp_path / RANK0, *steps(1, 8, 0.0), *steps(6, 7, 100.0), *steps(7, 9, 200.0), *steps(3, 3, 300.0))
    found = read(tmp_path)
    assert rewards(found) == {1: (4, 0.0), 2: (4, 0.0), 3: (4, 300.0)}
    assert found.restarts == (3, 6, 7)


def test_sessions_in_files_of_their_own_replace_each_other_in_any_order_of_reading(tmp_path: Path) -> None:
    logs = [steps(1, 8, 0.0), steps(7, 9, 100.0), steps(9, 10, 200.0)]
    for number, order in enumerate(permutations(range(3))):
        run = tmp_path / str(number)
        run.mkdir()
        index = RunIndex(run, "run")
        for at in order:
            append(run / f"rollout_data_rank_0_{session(at * 100.0)}.jsonl", *logs[at])
            found = look(index)
        last = {7: (4, 100.0), 8: (4, 100.0), 9: (4, 200.0), 10: (4, 200.0)}
        assert rewards(found) == dict.fromkeys(range(1, 7), (4, 0.0)) | last


def test_two_recorders_at_the_same_time_keep_all_lines(tmp_path: Path) -> None:
    append(tmp_path / RANK0, *steps(1, 8, 0.0))
    append(tmp_path / "other_rank_0.jsonl", *steps(1, 8, 0.5))
    found = read(tmp_path)
    assert (found.older, found.steps.samples.tolist()) == (0, [8] * 8)


def test_lines_that_looked_replaced_count_again_when_their_recorder_goes_on(tmp_path: Path) -> None:
    index, first = RunIndex(tmp_path, "run"), steps(1, 8, 0.0)
    append(tmp_path / RANK0, *first[:8])
    append(tmp_path / "other_rank_0.jsonl", *steps(2, 3, 2.5))
    between = look(index)
    append(tmp_path / RANK0, *first[8:])
    after = look(index)
    assert (between.older, after.older) == (4, 0)
    assert after.steps.samples.tolist() == [4, 8, 8, 4, 4, 4, 4, 4]


def test_a_recorder_created_at_the_time_of_the_last_line_may_have_run_beside_it(tmp_path: Path) -> None:
    append(tmp_path / RANK0, *steps(1, 8, 0.0), *steps(8, 8, 7.75))
    assert (read(tmp_path).older, read(tmp_path).restarts) == (0, ())


def test_older_lines_that_are_read_last_are_replaced_too(tmp_path: Path) -> None:
    index, first = RunIndex(tmp_path, "run"), steps(1, 8, 0.0)
    for lines, name in ((first[:28], "b"), (steps(7, 7, 100.0), "a"), (first[28:30], "b"), (first[30:], "b")):
        append(tmp_path / f"{name}_rank_0.jsonl", *lines)
        found = look(index)
    assert (found.older, rewards(found)[7], found.steps.values[-1]) == (8, (4, 100.0), 7)


def test_other_ranks_and_splits_are_not_replaced(tmp_path: Path) -> None:
    append(tmp_path / RANK0, *steps(1, 4, 0.0), *steps(4, 4, 100.0, split="eval"))
    append(tmp_path / RANK0, *steps(4, 4, 200.0, rank=1))
    found = read(tmp_path)
    assert (found.older, found.splits) == (0, {"train": 20, "eval": 4})


def test_lines_in_another_split_show_that_a_recorder_still_ran(tmp_path: Path) -> None:
    append(tmp_path / RANK0, *steps(1, 4, 0.0), *steps(90, 90, 200.0, name=session(0.0), split="eval"))
    append(tmp_path / "other_rank_0.jsonl", *steps(1, 4, 100.0))
    assert read(tmp_path).older == 0


def test_a_deleted_file_gives_back_what_it_had_replaced(tmp_path: Path) -> None:
    index = RunIndex(tmp_path, "run")
    append(tmp_path / RANK0, *steps(1, 8, 0.0))
    append(tmp_path / "other_rank_0.jsonl", *steps(7, 9, 100.0))
    before = look(index)
    (tmp_path / "other_rank_0.jsonl").unlink()
    after = look(index)
    assert (before.older, after.older, after.restarts) == (8, 0, ())
    assert rewards(after) == dict.fromkeys(range(1, 9), (4, 0.0))


@pytest.mark.parametrize("fields", [{"session": "abc"}, {"session": 7}, {"time": 3.5}, {"time": None}])
def test_a_session_or_time_of_the_users_own_says_nothing(tmp_path: Path, fields: dict[str, object]) -> None:
    """Such lines keep the rule for jumps: one step back is no restart, and three are."""
    append(
        tmp_path / RANK0,
        *(
            line(step, index=i, **{"session": session(0.0), "time": START} | fields)
            for step in (1, 2, 3, 4, 4, 4)
            for i in range(2)
        ),
    )
    append(
        tmp_path / RANK0,
        *(
            line(step, index=i, **{"session": session(9.0), "time": START + 9.0} | fields)
            for step in (3, 4)
            for i in range(2)
        ),
    )
    one_back = read(tmp_path).older
    append(
        tmp_path / RANK0,
        *(line(2, index=i, **{"session": session(20.0), "time": START + 20.0} | fields) for i in range(2)),
    )
    found = read(tmp_path)
    assert (one_back, found.restarts) == (0, (2,))


def test_a_forked_child_of_an_older_recorder_replaces_nothing(tmp_path: Path) -> None:
    """Its file is named after the process whose id is in its session."""
    append(tmp_path / RANK0, *steps(1, 4, 0.0))
    child = steps(4, 4, 100.0, name=session(100.0, process=4711))
    append(tmp_path / "rollout_data_rank_0_4711.jsonl", *child)
    assert (read(tmp_path).older, read(tmp_path).steps.samples.tolist()) == (0, [4, 4, 4, 8])


def test_the_first_line_is_found_in_whichever_file_it_is(tmp_path: Path) -> None:
    index, resumed = RunIndex(tmp_path, "run"), steps(6, 9, 100.0)
    append(tmp_path / RANK0, *steps(1, 8, 0.0))
    append(tmp_path / "a_rank_0.jsonl", *resumed[4:])
    between = look(index)
    append(tmp_path / "b_rank_0.jsonl", *resumed[:4])
    after = look(index)
    assert (between.older, after.older, after.restarts) == (8, 12, (6,))


@pytest.mark.parametrize(("seconds", "older"), [(3.7, 0), (3.8, 4)])
def test_times_rounded_to_ten_seconds_may_be_five_seconds_later(
    tmp_path: Path, seconds: float, older: int
) -> None:
    rounded = [line(4, index=i, session=session(-4.0), time=START - 1.25) for i in range(4)]
    append(tmp_path / RANK0, *rounded, *steps(4, 4, seconds))
    assert read(tmp_path).older == older


#: A response that is never sampled twice: its surprisal is 70 nats.
UNLIKELY = {"logprobs": [-3.5] * 20}


def test_equal_lines_of_one_session_are_several_samples(tmp_path: Path) -> None:
    one = line(1, session=session(0.0), time=START, **UNLIKELY)
    append(tmp_path / RANK0, one, one)
    found = read(tmp_path)
    assert (found.samples, found.duplicates, found.repeats) == (2, 0, 1)


def test_a_copy_of_a_sessions_file_adds_no_samples(tmp_path: Path) -> None:
    index, one = RunIndex(tmp_path, "run"), line(1, session=session(0.0), time=START, **UNLIKELY)
    append(tmp_path / "copy_rank_0.jsonl", one)
    before = look(index)
    append(tmp_path / RANK0, one, one, one)
    after = look(index)
    assert (before.samples, after.samples, after.duplicates) == (1, 3, 1)
    assert after.uids(after.alive_rows)[0] == "copy_rank_0.jsonl:0"


def test_an_equal_line_with_a_session_of_the_users_own_is_a_duplicate(tmp_path: Path) -> None:
    one = line(1, session="mine", time=START, **UNLIKELY)
    append(tmp_path / RANK0, one, one)
    assert (read(tmp_path).samples, read(tmp_path).duplicates) == (1, 1)


def _write_in_child(writer: RolloutWriter) -> None:
    writer.write(step=1, prompt="p", response="of the child", reward=1.0)
    writer.close()


def test_a_forked_child_belongs_to_the_session_of_its_parent(tmp_path: Path) -> None:
    with RolloutWriter(tmp_path) as writer:
        writer.write(step=1, prompt="p", response="of the parent", reward=1.0)
        writer.flush()
        process = multiprocessing.get_context("fork").Process(target=_write_in_child, args=(writer,))
        process.start()
        process.join()
    assert (read(tmp_path).samples, read(tmp_path).older) == (2, 0)
    with RolloutWriter(tmp_path) as writer:
        writer.write(step=1, prompt="p", response="after a restart", reward=1.0)
    found = open_run(tmp_path, follow=False).samples(text=True)
    assert found["response"].tolist() == ["after a restart"]


def test_a_time_near_the_largest_float_is_after_all_others() -> None:
    assert latest_times(np.array([1.0, 1e308])).tolist() == [1000.0, math.inf]
