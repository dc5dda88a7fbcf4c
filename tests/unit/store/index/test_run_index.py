"""A run's index reads any folder and reports the lines and files that it could not read."""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from rlpanel.schema import FIELD_REMARKS
from rlpanel.settings import Reading
from rlpanel.store.columns import row_builder
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.sample_places import BadLineAt
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import append, line, rewrite, sample, write_run
from tests.limits import store_limits
from tests.unit.sources.readers.faults import public_folder, unreadable

RANK0 = "rollout_data_rank_0.jsonl"


def look(index: RunIndex) -> Snapshot:
    """One look at the folder, and all that it brings."""
    index.rescan()
    while index.read():
        pass
    return index.snapshot


def read(folder: Path) -> Snapshot:
    return look(RunIndex(folder, "run"))


def test_the_view_of_a_large_run_is_prepared_again_when_the_run_has_doubled(tmp_path: Path) -> None:
    index = RunIndex(tmp_path, "run", limits=store_limits(prepared_rows=2))
    prepared = []
    for step in range(1, 6):
        append(tmp_path / RANK0, line(step))
        look(index)
        index.prepare_view()
        prepared.append("constants" in vars(index.view))
    assert prepared == [False, True, False, True, False]


# -- lines -------------------------------------------------------------------------------------------


def test_a_half_written_last_line_waits_and_is_seen_waiting(tmp_path: Path) -> None:
    index = RunIndex(tmp_path, "run")
    append(tmp_path / RANK0, line(1), line(2)[:30])
    before = look(index)
    append(tmp_path / RANK0, line(2)[30:])
    after = look(index)
    assert (before.samples, before.progress.waiting, before.bad_count, before.progress.caught_up) == (
        1,
        30,
        0,
        True,
    )
    assert (after.samples, after.progress.waiting) == (2, 0)


def test_a_broken_line_in_the_middle_is_counted_shown_and_costs_nothing_else(tmp_path: Path) -> None:
    append(tmp_path / RANK0, line(1), b"{torn\n", line(2))
    found = read(tmp_path)
    reason = "not valid JSON: key must be a string at column 2"
    assert (found.samples, found.bad_count) == (2, 1)
    assert found.bad_lines == (BadLineAt(RANK0, 2, len(line(1)), reason),)


def test_optional_keys_may_be_missing_and_row_i_stays_sample_i(tmp_path: Path) -> None:
    keys = ["reward", "ref_reward", "logprobs", "response_tokens", "values", "group", None]
    append(
        tmp_path / RANK0, *(line(1, index=i, mark=i, drop=[key] if key else []) for i, key in enumerate(keys))
    )
    frame = RunView(read(tmp_path)).frame(np.arange(len(keys)))
    assert frame["mark"].tolist() == list(range(len(keys)))
    gaps = {"reward": 0, "ref_reward": 1, "log_ratio_sum": 2, "value_mean": 4}
    assert {name: np.flatnonzero(frame[name].isna()).tolist() for name in gaps} == {
        n: [i] for n, i in gaps.items()
    }
    assert np.flatnonzero(frame["reward_gap"].isna()).tolist() == [0, 1]


def test_nan_and_null_rewards_are_missing_and_the_rest_counts(tmp_path: Path) -> None:
    rewards = [1.0, None, math.nan, 3.0, math.inf]
    append(tmp_path / RANK0, *(line(1, index=i, reward=reward) for i, reward in enumerate(rewards)))
    found = read(tmp_path)
    assert (found.samples, found.steps.mean("reward").tolist()) == (5, [2.0])


def test_rewards_that_are_all_null_make_no_curve_and_no_zero(tmp_path: Path) -> None:
    append(tmp_path / RANK0, line(1, reward=None), line(2, reward=None))
    assert not RunView(read(tmp_path)).has("reward")


def test_tokens_and_logprobs_of_different_length_are_a_note(tmp_path: Path) -> None:
    index = RunIndex(tmp_path, "run")
    append(
        tmp_path / RANK0,
        line(1, response_tokens=["a", "b"], logprobs=[-1.0], ref_logprobs=[-1.0], drop=["values"]),
    )
    found = look(index)
    assert "'logprobs' has 1 values for 2 tokens" in fetch(index, RunView(found), 0).notes
    assert found.label(FIELD_REMARKS, np.arange(1))[0] == (
        "'logprobs' has not as many values as tokens; 'ref_logprobs' has not as many values as tokens"
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mine", 10**30),
        ("reward", 10**400),
        ("rank", 10**30),
        ("group", "\ud800"),
        ("logprobs", [math.inf, math.nan]),
    ],
)
def test_what_strict_readers_refuse_is_a_sample_like_others(
    tmp_path: Path, field: str, value: object
) -> None:
    row = sample(1) | {field: value}
    append(tmp_path / RANK0, json.dumps(row).encode() + b"\n", line(2))
    found = read(tmp_path)
    assert (found.samples, found.bad_count) == (2, 0)


def test_a_number_too_big_for_a_float_is_infinite_and_left_out_of_the_mean(tmp_path: Path) -> None:
    append(tmp_path / RANK0, line(1, reward="@").replace(b'"@"', b"1e400"), line(1, reward=2.0))
    found = read(tmp_path)
    assert (found.number("reward").tolist(), found.steps.mean("reward").tolist()) == ([math.inf, 2.0], [2.0])


def test_invalid_utf8_is_a_bad_line_with_its_byte(tmp_path: Path) -> None:
    append(tmp_path / RANK0, line(1), line(2, prompt="@").replace(b"@", b"\xff"), line(3))
    found = read(tmp_path)
    assert (found.samples, found.bad_lines[0].reason) == (2, "invalid UTF-8 at byte 12")


def test_nested_too_deep_for_any_parser_is_a_bad_line(tmp_path: Path) -> None:
    deep = b'{"step": 1, "prompt": "", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    append(tmp_path / RANK0, deep, line(2))
    found = read(tmp_path)
    assert (found.samples, found.bad_lines[0].reason) == (1, "not valid JSON: nested too deeply")


def test_byte_order_mark_windows_newlines_and_line_separators_change_nothing(tmp_path: Path) -> None:
    plain, odd = tmp_path / "plain", tmp_path / "odd"
    rows = [line(1, response="a\u2028b\u0085c"), line(2)]
    write_run(plain, steps=0)
    write_run(odd, steps=0)
    append(plain / RANK0, *rows)
    append(odd / RANK0, b"\xef\xbb\xbf", *(row.replace(b"\n", b"\r\n") for row in rows))
    one, other = read(plain), read(odd)
    assert RunView(one).step_frame().equals(RunView(other).step_frame())


def test_many_bad_lines_are_all_counted_and_the_first_thousand_kept(tmp_path: Path) -> None:
    append(tmp_path / RANK0, b"{torn\n" * 1500)
    found = read(tmp_path)
    assert (found.bad_count, len(found.bad_lines)) == (1500, 1000)


# -- columns -----------------------------------------------------------------------------------------


def test_a_logged_column_does_not_hide_a_computed_one(tmp_path: Path) -> None:
    append(tmp_path / RANK0, line(1, kl_k3_mean=7.0, reward_gap=8.0, value=9.0))
    found = read(tmp_path)
    logged = {name: found.number(f"logged_{name}")[0] for name in ("kl_k3_mean", "reward_gap", "value")}
    assert logged == {"kl_k3_mean": 7.0, "reward_gap": 8.0, "value": 9.0}
    assert found.number("kl_k3_mean")[0] != 7.0


def test_a_log_that_makes_up_keys_cannot_fill_the_memory(tmp_path: Path) -> None:
    append(
        tmp_path / RANK0,
        *(line(1, index=i, **{f"made_up_{i}": 1.0}) for i in range(2 * row_builder.MAX_COLUMNS)),
    )
    found = read(tmp_path)
    assert (found.samples, len(found.numbers) <= row_builder.MAX_COLUMNS + 40) == (
        2 * row_builder.MAX_COLUMNS,
        True,
    )
    assert found.problems[0].startswith("the log has too many columns: the first 512 are shown")


# -- files -------------------------------------------------------------------------------------------


def test_an_empty_folder_is_an_empty_run(tmp_path: Path) -> None:
    found = read(tmp_path)
    assert (found.samples, found.problems, found.progress.caught_up) == (0, (), True)


def test_an_empty_file_is_a_rank_that_has_not_begun(tmp_path: Path) -> None:
    (tmp_path / RANK0).touch()
    found = read(tmp_path)
    assert (found.files, found.samples, found.bad_count) == ((RANK0,), 0, 0)


def test_scalars_beside_the_rollouts_are_no_samples(tmp_path: Path) -> None:
    write_run(tmp_path, steps=1, samples=4)
    append(tmp_path / "scalars.jsonl", b'{"step": 1, "loss": 0.5}\n')
    found = read(tmp_path)
    assert (found.samples, found.bad_count) == (4, 0)


def test_many_small_files_are_one_run(tmp_path: Path) -> None:
    for step in range(300):
        append(tmp_path / f"{step}.jsonl", line(step))
    found = read(tmp_path)
    assert (found.samples, len(found.steps.values)) == (300, 300)


def test_an_unreadable_file_is_a_problem_until_it_can_be_read() -> None:
    with public_folder() as folder:
        write_run(folder, ranks=2, steps=1, samples=3)
        index = RunIndex(folder, "run")
        with unreadable(folder / RANK0):
            before = look(index)
        after = look(index)
    assert (before.samples, before.problems) == (
        3,
        (f"{RANK0}: Permission denied; it will be read once this is resolved",),
    )
    assert (after.samples, after.problems) == (6, ())


def test_a_file_that_becomes_unreadable_keeps_its_rows() -> None:
    with public_folder() as folder:
        write_run(folder, steps=1, samples=3)
        index = RunIndex(folder, "run")
        look(index)
        with unreadable(folder / RANK0):
            found = look(index)
    assert (found.samples, len(found.problems)) == (3, 1)


def test_a_folder_that_may_not_be_listed_keeps_its_last_state() -> None:
    with public_folder() as root:
        index = RunIndex(write_run(root / "run", steps=1, samples=3), "run")
        look(index)
        with unreadable(root / "run"):
            found = look(index)
    assert (found.samples, found.problems) == (
        3, ("the run's folder cannot be read: Permission denied; its last state is shown",),
    )  # fmt: skip


def test_a_folder_that_vanishes_is_one_problem_and_its_last_state_stays(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=1, ranks=4, samples=3)
    index = RunIndex(folder, "run")
    look(index)
    folder.rename(tmp_path / "elsewhere")
    found = look(index)
    assert (found.samples, found.problems) == (12, ("the run's folder is gone; its last state is shown",))


def test_a_folder_that_vanishes_before_all_was_read_leaves_nothing_to_wait_for(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=20)
    index = RunIndex(folder, "run", Reading(turn_bytes=1 << 10))
    index.rescan()
    before = index.read()
    folder.rename(tmp_path / "elsewhere")
    index.rescan()
    assert (before, index.read()) == (True, False)


def test_a_folder_that_comes_back_goes_on(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=1, samples=3)
    index = RunIndex(folder, "run")
    look(index)
    folder.rename(tmp_path / "elsewhere")
    look(index)
    (tmp_path / "elsewhere").rename(folder)
    append(folder / RANK0, line(2))
    found = look(index)
    assert (found.samples, found.problems, index.bytes_read) == (4, (), (folder / RANK0).stat().st_size)


def test_a_folder_made_anew_has_the_new_rows_alone(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=3, ranks=2)
    index = RunIndex(folder, "run")
    look(index)
    shutil.rmtree(folder)
    look(index)
    write_run(folder, steps=[9], samples=2)
    rewrite(folder / RANK0, (folder / RANK0).read_bytes())
    found = look(index)
    assert (found.steps.values.tolist(), found.samples, found.ranks) == ([9], 2, 1)


# -- what becomes of rows ----------------------------------------------------------------------------


def test_a_truncated_file_replaces_its_rows_and_leaves_the_other_ranks(tmp_path: Path) -> None:
    index = RunIndex(write_run(tmp_path, steps=2, ranks=2, samples=4), "run")
    look(index)
    rewrite(tmp_path / RANK0, line(2, reward=100.0))
    found = look(index)
    assert (found.steps.values.tolist(), found.steps.samples.tolist(), found.ranks) == ([1, 2], [4, 5], 2)
    assert found.steps.stat("reward", 4)[1] == 100.0


def test_bad_lines_go_with_the_file_that_held_them(tmp_path: Path) -> None:
    index = RunIndex(tmp_path, "run")
    append(tmp_path / RANK0, b"{torn\n", b"\n", line(1))
    look(index)
    (tmp_path / RANK0).write_bytes(line(1))
    found = look(index)
    assert (found.bad_count, found.bad_lines, found.blank_count) == (0, (), 0)


def test_an_older_snapshot_stays_as_it_was_when_rows_die(tmp_path: Path) -> None:
    index = RunIndex(write_run(tmp_path, steps=2, samples=4), "run")
    before = look(index)
    rewrite(tmp_path / RANK0, line(9))
    look(index)
    assert (
        before.samples,
        before.alive.sum(),
        len(before.rows_of(1)),
        RunView(before).step_frame().shape[0],
    ) == (
        8,
        8,
        4,
        2,
    )


def test_dead_rows_are_left_behind_when_they_are_many(tmp_path: Path) -> None:
    index = RunIndex(
        write_run(tmp_path, steps=1, ranks=2, samples=8), "run", limits=store_limits(dead_rows=20)
    )
    for step in range(2, 12):
        (tmp_path / RANK0).write_bytes(b"".join(line(step, index=i) for i in range(8)))
        found = look(index)
    assert (found.rows <= 40, found.samples) == (True, 16)
    assert [found.row(uid) for uid in found.uids(found.alive_rows)] == found.alive_rows.tolist()
    assert found.label("group", found.alive_rows)[:2] == ["1-0", "1-0"]


@pytest.mark.parametrize("kept", [0, 1000], ids=["dead rows left behind", "dead rows kept"])
def test_a_label_that_only_a_replaced_file_had_is_gone(tmp_path: Path, kept: int) -> None:
    index = RunIndex(write_run(tmp_path, steps=1, samples=4), "run", limits=store_limits(dead_rows=kept))
    assert RunView(look(index)).grouped
    (tmp_path / RANK0).write_bytes(b"".join(line(1, index=i, group=None, prompt=f"{i}") for i in range(6)))
    found = look(index)
    assert (found.labels, RunView(found).grouped, found.group_codes) == ((), False, None)
    assert "group" not in RunView(found).frame(found.alive_rows)


def test_the_steps_that_changed_since_a_version_are_told(tmp_path: Path) -> None:
    index = RunIndex(write_run(tmp_path, steps=3), "run")
    before = look(index).version
    append(tmp_path / RANK0, line(2), line(7))
    after = look(index)
    assert after.steps.values[after.steps.changed_since(before)].tolist() == [2, 7]


def test_nothing_new_makes_no_new_version(tmp_path: Path) -> None:
    index = RunIndex(write_run(tmp_path), "run")
    assert look(index).version == look(index).version


def test_the_newest_line_is_as_old_as_its_file(tmp_path: Path) -> None:
    write_run(tmp_path)
    os.utime(tmp_path / RANK0, (1000.0, 2000.0))
    assert read(tmp_path).newest_line == 2000.0


def test_one_turn_takes_a_budget_from_each_file(tmp_path: Path) -> None:
    write_run(tmp_path, steps=20, ranks=2)
    index = RunIndex(tmp_path, "run", Reading(turn_bytes=1 << 12))
    index.rescan()
    more = index.read()
    assert (more, index.snapshot.ranks, index.snapshot.progress.caught_up) == (True, 2, False)
    assert 0 < index.snapshot.progress.fraction < 1
