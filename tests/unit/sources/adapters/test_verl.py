"""verl's dumps: keys, uids, steps that are written again, and rows that fill a batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlpanel.sources.adapters.verl import Verl
from rlpanel.store.backlog.range_reader import ByteRange, index_range
from rlpanel.store.index.run_index import RunIndex
from tests.factories import append, rewrite
from tests.unit.sources.adapters.test_adapters import lines, read, rewards, verl


def test_verl_is_read_by_its_keys_and_grouped_by_uid(tmp_path: Path) -> None:
    (tmp_path / "5.jsonl").write_bytes(
        verl(5, 1.0, uid="a_b_0_0", acc=True) + verl(5, float("nan"), uid="a_b_1_0")
    )
    with read(tmp_path) as run:
        frame = run.samples(text=True)
        sample = run.sample(frame["uid"][0])
    assert frame[["step", "group", "acc"]].fillna(-1).values.tolist() == [[5, "a_b", 1.0], [5, "a_b", -1.0]]
    assert frame["reward"].isna().tolist() == [False, True]
    assert (sample.prompt, sample.response, sample.ground_truth) == ("user: 0?", "answer 0", '{"truth": 0}')
    assert sample.response_tokens is None


def test_verl_takes_the_step_from_the_files_name_where_the_lines_lack_it(tmp_path: Path) -> None:
    (tmp_path / "120.jsonl").write_bytes(lines({"input": "p", "output": "r", "score": 1.0}))
    with read(tmp_path) as run:
        assert run.steps["step"].tolist() == [120]


def test_a_resumed_verl_run_replaces_the_rows_of_the_steps_it_writes_again(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        (tmp_path / f"{step}.jsonl").write_bytes(verl(step, 0.0, 0.0))
    index = RunIndex(tmp_path, "run")
    before = rewards(index)
    rewrite(tmp_path / "2.jsonl", verl(2, 0.5))
    (tmp_path / "3.jsonl").write_bytes(verl(3, 0.5, 1.0, 1.0))
    assert before == [(step, 0.0) for step in (1, 2, 3) for _ in range(2)]
    assert rewards(index) == [(1, 0.0), (1, 0.0), (2, 0.5), (3, 0.5), (3, 1.0), (3, 1.0)]


def test_a_step_file_seen_half_written_is_whole_when_it_is(tmp_path: Path) -> None:
    whole = verl(1, 0.0, 1.0)
    index = RunIndex(tmp_path, "run")
    (tmp_path / "1.jsonl").write_bytes(whole[:-20])
    half = rewards(index)
    append(tmp_path / "1.jsonl", whole[-20:])
    assert (half, rewards(index)) == ([(1, 0.0)], [(1, 0.0), (1, 1.0)])


def test_a_uid_gives_group_episode_session_and_turn(tmp_path: Path) -> None:
    uids = ["a_b_0_0", "a_b_1_0", "a_b_1_11", "own"]
    (tmp_path / "5.jsonl").write_bytes(b"".join(verl(5, 1.0, uid=uid) for uid in uids))
    with read(tmp_path) as run:
        frame = run.samples()
    columns = frame[["group", "episode", "rollout_session", "turn", "logged_uid"]].astype(object)
    assert columns.where(columns.notna(), None).values.tolist() == [
        ["a_b", "a_b_0", 0, 0, "a_b_0_0"],
        ["a_b", "a_b_1", 1, 0, "a_b_1_0"],
        ["a_b", "a_b_1", 1, 11, "a_b_1_11"],
        [None, None, None, None, "own"],
    ]


def test_keys_that_the_trainer_logged_itself_are_not_replaced_by_parts_of_the_uid(tmp_path: Path) -> None:
    (tmp_path / "5.jsonl").write_bytes(verl(5, 1.0, uid="a_0_1", turn=7, rollout_session=8, group="g"))
    with read(tmp_path) as run:
        frame = run.samples()
    assert frame[["group", "rollout_session", "turn"]].values.tolist() == [["g", 8.0, 7.0]]


PADDING = [f"pad{'0f' * 16}_{at}_0" for at in (0, 11)]


def test_rows_that_fill_a_batch_are_good_lines_without_samples(tmp_path: Path) -> None:
    content = verl(5, 1.0, uid="a_0_0") + b"".join(verl(5, 0.0, uid=uid) for uid in PADDING)
    (tmp_path / "5.jsonl").write_bytes(content + verl(5, 0.5, uid="b_0_0"))
    with read(tmp_path) as run:
        frame, steps, errors = run.samples(), run.steps, run.errors
        assert run.sample(frame["uid"][1]).line == 4
    assert frame["reward"].tolist() == [1.0, 0.5]
    assert steps["reward_mean"].tolist() == [0.75]
    assert errors.empty


def test_a_file_that_begins_with_padding_is_read(tmp_path: Path) -> None:
    index = RunIndex(tmp_path, "run")
    (tmp_path / "5.jsonl").write_bytes(b"".join(verl(5, 0.0, uid=uid) for uid in PADDING))
    index.rescan()
    index.read()
    before = index.snapshot.samples, index.snapshot.bad_count
    append(tmp_path / "5.jsonl", verl(5, 0.5, uid="b_0_0"))
    assert before == (0, 0)
    assert rewards(index) == [(5, 0.5)]


def test_a_range_of_a_large_file_may_hold_padding_alone(tmp_path: Path) -> None:
    path, content = tmp_path / "5.jsonl", b"".join(verl(5, 0.0, uid=uid) for uid in PADDING)
    path.write_bytes(content)
    whole = ByteRange(0, str(path), path.name, Verl(), 0, len(content), len(content), 1 << 20)
    result = index_range(whole)
    assert (result.rows, result.newlines, result.bad_count) == (None, 2, 0)


@pytest.mark.parametrize(
    "uid",
    ["pad_0_0", PADDING[0][:-1] + "1", "x" + PADDING[0], PADDING[0].replace("0f", "0g"), PADDING[0][4:]],
)
def test_a_prompt_whose_uid_looks_like_padding_keeps_its_sample(tmp_path: Path, uid: str) -> None:
    (tmp_path / "5.jsonl").write_bytes(verl(5, 0.0, uid=uid))
    with read(tmp_path) as run:
        assert run.samples()["group"].tolist() == [uid.rsplit("_", 2)[0]]
