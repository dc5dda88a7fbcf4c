"""A run's index on disk: what it spares, when it is not trusted, who may write it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlpanel.metrics.engine import column_info
from rlpanel.safe_files import MARKER
from rlpanel.settings import Reading
from rlpanel.sources.discovery.directory import discover
from rlpanel.store.cache import run_cache
from rlpanel.store.columns import columns, page_memory
from rlpanel.store.index.reader import Reader
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import append, line, write_run
from tests.limits import SAVED
from tests.waiting import wait_until

LOG, OTHER_LOG = "rollout_data_rank_0.jsonl", "rollout_data_rank_1.jsonl"


@pytest.fixture(autouse=True)
def _small_runs_are_saved_and_homes_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("home")))


Declare = Callable[[str, Callable[..., np.ndarray]], None]


@pytest.fixture
def declare() -> Iterator[Declare]:
    """Declare a metric that was not there when the run was saved."""

    def made_up(level: str, function: Callable[..., np.ndarray]) -> None:
        reductions = ("sum",) if level == "token" else ()
        column_info.metric("made up", level=level, reductions=reductions, name="made_up")(function)  # type: ignore[arg-type]

    yield made_up
    column_info.unregister("made_up")


def look(found: RunIndex) -> Snapshot:
    found.rescan()
    while found.read():
        pass
    return found.snapshot


def opened(run: Path) -> RunIndex:
    found = RunIndex(run, "run", limits=SAVED)
    look(found)
    return found


def saved(run: Path, *, tokens: bool = True) -> Path:
    """A run of two files with an index."""
    write_run(run, ranks=2, tokens=tokens)
    opened(run).save(last=True)
    return run


def assert_same(one: Snapshot, other: Snapshot) -> None:
    frames = [RunView(shot).frame(shot.alive_rows).set_index("uid").sort_index() for shot in (one, other)]
    pd.testing.assert_frame_equal(frames[0], frames[1][frames[0].columns])


def assert_read_anew(run: Path, truth: Snapshot | None = None) -> None:
    """Assert that all lines were read again, and give what they give without an index."""
    again = opened(run)
    assert again.bytes_read == sum(path.stat().st_size for path in run.glob("*.jsonl"))
    assert_same(again.snapshot, truth or look(RunIndex(run, "run", Reading(cache=False))))


# -- what it spares ----------------------------------------------------------------------------------


def test_a_run_opened_again_reads_nothing_again(tmp_path: Path) -> None:
    before = opened(write_run(tmp_path, ranks=2))
    before.save(last=True)
    again = opened(tmp_path)
    assert (again.bytes_read, again.version) == (0, 1)
    assert_same(again.snapshot, before.snapshot)


@pytest.mark.skipif(not page_memory.CAN_MAP, reason="only Linux maps a file over an array")
def test_saved_rows_share_the_memory_of_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_memory, "_MMAP_BYTES", 0)
    monkeypatch.setattr(columns, "MAP_BYTES", 0)
    monkeypatch.setattr(run_cache, "MAP_BYTES", 0)
    run = write_run(tmp_path, ranks=2, samples=600, tokens=False)
    live = opened(run)
    seen = [live.snapshot]
    for step in (4, 5, 6):
        live.save(last=True)
        append(run / LOG, *(line(step, reward=number) for number in range(600)))
        seen.append(look(live))
    assert live._table.columns.numbers["reward"].mapped > 0
    live = opened(run)  # from the index
    assert live._table.columns.numbers["reward"].mapped > 0
    append(run / OTHER_LOG, line(7))
    seen.append(look(live))
    live.save(last=True)
    shutil.rmtree(next(run.glob(".rlpanel")))  # mapped pages outlive their file
    fresh = look(RunIndex(run, "run", Reading(cache=False)))
    assert_same(live.snapshot, fresh)
    for shot in seen:
        steps = fresh.metadata("step")[fresh.alive_rows]
        expected = [np.count_nonzero(steps == step) for step in shot.steps.values.tolist()]
        assert shot.steps.samples.tolist() == expected
        np.testing.assert_allclose(
            shot.number("reward")[shot.alive_rows].sum(),
            (shot.steps.mean("reward") * shot.steps.samples).sum(),
        )


def test_a_restored_run_reads_only_the_new_lines(tmp_path: Path) -> None:
    new = line(9)
    append(saved(tmp_path) / LOG, new)
    again = opened(tmp_path)
    assert (again.bytes_read, again.snapshot.samples) == (len(new), 49)
    row = again.snapshot.alive_rows[again.snapshot.metadata("step")[again.snapshot.alive_rows] == 9]
    assert again.snapshot.metadata("line")[row].tolist() == [25]


def test_bad_lines_are_still_known(tmp_path: Path) -> None:
    append(write_run(tmp_path) / LOG, b"{torn\n", b"\n")
    before = opened(tmp_path)
    before.save(last=True)
    again = opened(tmp_path).snapshot
    assert (again.bad_lines, again.bad_count) == (before.snapshot.bad_lines, 1)
    assert (again.blank_count, again.newest_line) == (1, before.snapshot.newest_line)


@pytest.mark.parametrize("earlier", [0, 1])
def test_a_line_that_repeats_a_saved_one_is_found(tmp_path: Path, earlier: int) -> None:
    repeated, other = line(8, response="x"), line(8, response="y")
    write_run(tmp_path, ranks=1)
    append(tmp_path / LOG, repeated, other, *[other] * earlier)
    live = opened(tmp_path)
    live.save(last=True)
    assert opened(tmp_path).snapshot.repeats == live.snapshot.repeats == earlier
    append(tmp_path / LOG, repeated)
    assert opened(tmp_path).snapshot.repeats == earlier + 1


def test_a_half_line_is_finished_after_opening_again(tmp_path: Path) -> None:
    whole = line(9)
    append(write_run(tmp_path) / LOG, whole[:20])
    opened(tmp_path).save(last=True)
    append(tmp_path / LOG, whole[20:])
    assert opened(tmp_path).snapshot.samples == 25


def test_a_metric_over_columns_that_is_new_needs_no_line_again(tmp_path: Path, declare: Declare) -> None:
    saved(tmp_path)
    declare("sample", lambda reward: 2 * reward)
    again = opened(tmp_path)
    found = again.snapshot
    assert again.bytes_read == 0
    np.testing.assert_array_equal(found.number("made_up"), 2 * found.number("reward"))


# -- when it is not trusted --------------------------------------------------------------------------


def parts(run: Path) -> Iterator[Path]:
    """The files that hold the index; marker, lock, and the run list's facts are others."""
    files = (path for path in (run / ".rlpanel").rglob("*") if path.is_file())
    return (path for path in files if path.name not in ("lock", "summary", MARKER))


@pytest.mark.parametrize("harm", ["one bit", "cut", "gone"])
def test_an_index_that_is_damaged_anywhere_is_made_anew(tmp_path: Path, harm: str) -> None:
    names = [
        path.relative_to(tmp_path) for path in parts(saved(tmp_path, tokens=False)) if path.stat().st_size
    ]
    assert len(names) > 19
    truth = look(RunIndex(tmp_path, "run", Reading(cache=False)))
    for name in names:
        path = tmp_path / name
        data = path.read_bytes()
        if harm == "gone":
            path.unlink()
        else:
            path.write_bytes(bytes([data[0] ^ 1]) + data[1:] if harm == "one bit" else data[:-1])
        assert_read_anew(tmp_path, truth)
        path.write_bytes(data)
    assert opened(tmp_path).bytes_read == 0


def test_a_log_replaced_while_nobody_looked_is_read_anew_and_no_other(tmp_path: Path) -> None:
    log = saved(tmp_path) / LOG
    log.unlink()
    append(log, line(1), line(2))
    again = opened(tmp_path)
    assert (again.bytes_read, again.snapshot.samples) == (log.stat().st_size, 26)


def test_rows_of_a_file_that_was_replaced_do_not_count_before_it_is_read(tmp_path: Path) -> None:
    log = saved(tmp_path) / LOG
    log.write_bytes(b"".join(line(step) for step in range(100, 200)))
    again = RunIndex(tmp_path, "run", limits=SAVED)
    again.rescan()
    again.commit()
    assert [again.snapshot.file(row) for row in again.snapshot.alive_rows] == [OTHER_LOG] * 24


def test_an_index_made_anew_replaces_the_old(tmp_path: Path) -> None:
    (saved(tmp_path) / LOG).write_bytes(line(1))
    opened(tmp_path).save(last=True)
    assert len(list((tmp_path / ".rlpanel").glob("data-*"))) == 1
    assert opened(tmp_path).bytes_read == 0


def test_another_bound_on_lines_reads_anew(tmp_path: Path) -> None:
    saved(tmp_path)
    found = RunIndex(tmp_path, "run", Reading(line_bytes=1024), limits=SAVED)
    look(found)
    assert found.bytes_read > 0


# -- cache folder ------------------------------------------------------------------------------------


def test_where_the_folder_cannot_be_written_the_users_cache_folder_is_used(tmp_path: Path) -> None:
    (tmp_path / ".rlpanel").write_text("in the way")
    saved(tmp_path)
    assert len(list(Path(os.environ["XDG_CACHE_HOME"]).glob("rlpanel/*/manifest"))) == 1
    assert opened(tmp_path).bytes_read == 0


def test_a_folder_that_was_moved_keeps_its_index(tmp_path: Path) -> None:
    moved = saved(tmp_path / "before").rename(tmp_path / "after")
    assert opened(moved).bytes_read == 0


def test_none_is_made_where_the_setting_says_so(tmp_path: Path) -> None:
    found = RunIndex(write_run(tmp_path), "run", Reading(cache=False))
    look(found)
    found.save(last=True)
    assert not (tmp_path / ".rlpanel").exists()


def test_a_small_run_gets_none(tmp_path: Path) -> None:
    found = RunIndex(write_run(tmp_path), "run")
    look(found)
    found.save(last=True)
    assert not (tmp_path / ".rlpanel").exists()


def test_the_cache_folder_is_not_listed_as_a_run(tmp_path: Path) -> None:
    assert [info.name for info in discover(saved(tmp_path))] == ["."]


def test_a_reader_saves_closed_runs_and_at_its_end_open_ones(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name) for name in ("let go", "held")]
    reader = Reader(Reading(), SAVED)
    followed = [reader.open(run) for run in runs]
    wait_until(lambda: all(found.snapshot.samples == 24 for found in followed))
    reader.close(followed[0])
    wait_until(lambda: (runs[0] / ".rlpanel" / "manifest").exists())
    reader.stop()
    assert [opened(run).bytes_read for run in runs] == [0, 0]
