"""A snapshot returns samples by step, by row and by uid."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlpanel.app.demo import Recording, write_recording
from rlpanel.errors import SampleNotFound
from rlpanel.store.columns.step_stats import COUNT
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView, step_name
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import append, line, write_run
from tests.limits import SAVED


def snapshot_of(folder: Path) -> Snapshot:
    index = RunIndex(folder, "run")
    index.rescan()
    while index.read():
        pass
    return index.snapshot


def test_a_uid_names_file_and_offset_and_leads_to_its_row(tmp_path: Path) -> None:
    snapshot = snapshot_of(write_run(tmp_path, ranks=2))
    uids = snapshot.uids(snapshot.alive_rows)
    assert uids[0] == "rollout_data_rank_0.jsonl:0"
    assert [snapshot.row(uid) for uid in uids] == snapshot.alive_rows.tolist()


@pytest.mark.parametrize(
    "uid",
    ["", "x", "rollout_data_rank_0.jsonl:1", "rollout_data_rank_9.jsonl:0", "rollout_data_rank_0.jsonl:0/1",
     "rollout_data_rank_0.jsonl:" + "9" * 40, "rollout_data_rank_0.jsonl:-1", "a:b:c/d"],
)  # fmt: skip
def test_a_uid_of_nothing_is_not_found(tmp_path: Path, uid: str) -> None:
    with pytest.raises(SampleNotFound):
        snapshot_of(write_run(tmp_path)).row(uid)


def test_the_rows_of_a_step(tmp_path: Path) -> None:
    snapshot = snapshot_of(write_run(tmp_path, steps=3, ranks=2, samples=4))
    assert (len(snapshot.rows_of(2)), len(snapshot.rows_of(99))) == (8, 0)


def test_an_empty_run_has_nothing_and_says_so(tmp_path: Path) -> None:
    snapshot = snapshot_of(tmp_path)
    assert (snapshot.samples, len(snapshot.rows_of(1)), len(RunView(snapshot).step_frame())) == (0, 0, 0)


def test_a_few_of_many_samples_are_drawn_and_all_of_few(tmp_path: Path) -> None:
    snapshot = snapshot_of(write_run(tmp_path, steps=1, samples=50))
    assert (len(snapshot.sampled_rows(1, 10)), len(snapshot.sampled_rows(1, 100))) == (10, 50)


def test_a_sample_that_was_drawn_stays_drawn_when_fewer_are_wanted(tmp_path: Path) -> None:
    snapshot = snapshot_of(write_run(tmp_path, steps=1, samples=50))
    assert set(snapshot.sampled_rows(1, 10)) <= set(snapshot.sampled_rows(1, 20))


def test_the_draw_does_not_depend_on_which_of_two_equal_logs_came_first(tmp_path: Path) -> None:
    drawn = []
    for names in (["a.jsonl", "b.jsonl"], ["b.jsonl", "a.jsonl"]):
        folder = tmp_path / names[0]
        index = RunIndex(folder, "run")
        for name in names:
            write_run(folder, steps=1, samples=9, file_name=name)
            index.rescan()
            index.read()
        drawn.append(set(index.snapshot.uids(index.snapshot.sampled_rows(1, 5))))
    assert drawn[0] == drawn[1]


def test_a_sample_of_a_deleted_file_is_not_found(tmp_path: Path) -> None:
    index = RunIndex(write_run(tmp_path, ranks=2), "run")
    for gone in ("none.jsonl", "rollout_data_rank_0.jsonl"):
        (tmp_path / gone).unlink(missing_ok=True)
        index.rescan()
        index.read()
    with pytest.raises(SampleNotFound):
        index.snapshot.row("rollout_data_rank_0.jsonl:0")


def test_a_column_that_was_only_ever_null_is_not_had(tmp_path: Path) -> None:
    append(tmp_path / "x.jsonl", line(1, ref_reward=None))
    snapshot = snapshot_of(tmp_path)
    assert (
        RunView(snapshot).has("reward"),
        RunView(snapshot).has("ref_reward"),
        RunView(snapshot).has("never"),
    ) == (True, False, False)


def test_k1_is_the_log_ratio_under_its_other_name(tmp_path: Path) -> None:
    snapshot = snapshot_of(write_run(tmp_path))
    np.testing.assert_array_equal(snapshot.number("kl_k1_sum"), snapshot.number("log_ratio_sum"))


def test_a_frame_may_be_asked_for_some_columns(tmp_path: Path) -> None:
    snapshot = snapshot_of(write_run(tmp_path))
    frame = RunView(snapshot).frame(snapshot.alive_rows, ["reward", "group"])
    assert list(frame.columns) == ["uid", "step", "rank", "line", "group", "reward"]


def test_a_key_logged_as_text_and_as_number_keeps_both(tmp_path: Path) -> None:
    append(tmp_path / "x.jsonl", line(1, pred="yes"), line(1, pred=2))
    frame = RunView(snapshot_of(tmp_path)).frame(np.arange(2))
    assert (frame["pred_text"].tolist()[0], frame["pred"].tolist()[1]) == ("yes", 2.0)


@pytest.mark.parametrize(
    ("column", "name"),
    [("reward", "reward_mean"), ("kl_k3_mean", "kl_k3_mean"), ("kl_k1_mean", "kl_k1_mean"),
     ("kl_k3_sum", "kl_k3_sum_mean"), ("their_mean", "their_mean_mean")],
)  # fmt: skip
def test_the_mean_of_a_mean_over_tokens_keeps_its_name(column: str, name: str) -> None:
    assert step_name(column, "mean") == name


def test_steps_have_mean_spread_and_bounds(tmp_path: Path) -> None:
    append(tmp_path / "x.jsonl", *(line(7, index=i, reward=r) for i, r in enumerate([1.0, 2.0, 6.0])))
    row = RunView(snapshot_of(tmp_path)).step_frame().iloc[0]
    found = [
        row[name] for name in ("step", "samples", "reward_mean", "reward_std", "reward_min", "reward_max")
    ]
    assert found == pytest.approx([7, 3, 3.0, np.sqrt(7), 1.0, 6.0])


@pytest.mark.parametrize("name", ["ppo_couplets", "grpo_couplets", "grpo_calculator"])
def test_a_run_from_the_cache_has_the_numbers_that_it_had(name: Recording, tmp_path: Path) -> None:
    run = write_recording(name, tmp_path / "run")
    odd = {
        "never": None,
        "infinite": float("inf"),
        "no_number": float("nan"),
        "zero": 0.0,
        "ref_reward": None,
    }
    append(run / "odd.jsonl", *(line(step, **odd, late=step if step == 9 else None) for step in range(10)))
    first, second = RunIndex(run, "run", limits=SAVED), RunIndex(run, "run", limits=SAVED)
    for index in (first, second):
        index.rescan()
        while index.read():
            pass
        index.save(last=True)
    fresh, cached = first.snapshot, second.snapshot
    assert (second.bytes_read, cached.samples) == (0, fresh.samples)
    had = {column: cached.has_number(column) for column in fresh._numbers}
    assert had == {column: bool((fresh.steps.stat(column, COUNT) > 0).any()) for column in had} | {
        column: False for column in had if fresh._is_filler(column)
    }
    assert cached.numbers == fresh.numbers
    assert had["zero"]
    assert had["late"]


def test_rows_of_several_steps_leave_out_those_that_do_not_count(tmp_path: Path) -> None:
    folder = write_run(tmp_path, steps=4, ranks=2, samples=4)
    append(folder / "rollout_data_rank_0.jsonl", line(step=2, uid=0))
    snapshot = snapshot_of(folder)
    rows = snapshot.rows_of_steps(np.array([2, 4]))
    step = snapshot.metadata("step")
    assert rows.tolist() == np.flatnonzero(np.isin(step, [2, 4]) & snapshot.alive).tolist()
    assert rows.tolist() == np.sort(np.concatenate([snapshot.rows_of(2), snapshot.rows_of(4)])).tolist()


def test_snapshots_of_a_growing_run_find_the_rows_of_its_new_steps(tmp_path: Path) -> None:
    folder = write_run(tmp_path, steps=2, samples=4)
    index = RunIndex(folder, "run")
    index.rescan()
    index.read()
    before = index.snapshot
    append(folder / "rollout_data_rank_0.jsonl", line(step=3), line(step=2, uid=90))
    while index.read():
        pass
    assert [len(index.snapshot.rows_of(step)) for step in (1, 2, 3)] == [4, 5, 1]
    assert [len(before.rows_of(step)) for step in (1, 2, 3)] == [4, 4, 0]
