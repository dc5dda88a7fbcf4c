"""`Run.wait` is a barrier: all lines that were on disk when it was called are in the tables afterwards."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import rlpanel
from rlpanel.api.run import Run
from rlpanel.errors import NotYetRead
from rlpanel.runtime import default_runtime
from rlpanel.settings import Reading
from rlpanel.store.index.reader import Reader
from tests.factories import append, line, write_run
from tests.waiting import wait_until

RANK0 = "rollout_data_rank_0.jsonl"
#: Seconds; nothing waits this long unless it fails.
PATIENCE = 30.0


@pytest.fixture(autouse=True)
def _fresh_reader() -> Iterator[None]:
    """No test leaves the process's reader running."""
    yield
    default_runtime().close()


def test_lines_that_many_ranks_append_before_the_call_are_there_after_it(tmp_path: Path) -> None:
    ranks, steps = 16, 12
    with rlpanel.open_run(write_run(tmp_path, steps=1, ranks=ranks, samples=2, tokens=False)) as run:
        for step in range(2, steps + 1):
            for rank in range(ranks):
                lines = [line(step, rank=rank, index=index, tokens=False) for index in range(2)]
                append(tmp_path / f"rollout_data_rank_{rank}.jsonl", *lines)
            assert run.wait(PATIENCE)
            assert run.stats().rows == step * ranks * 2


def test_a_file_that_is_new_is_waited_for(tmp_path: Path) -> None:
    with rlpanel.open_run(write_run(tmp_path, steps=1)) as run:
        append(tmp_path / "rollout_data_rank_7.jsonl", line(1, rank=7))
        run.wait(PATIENCE)
        assert run.stats().ranks == 2


def test_half_a_line_at_the_end_is_not_waited_for_until_it_is_whole(tmp_path: Path) -> None:
    whole = line(3)
    with rlpanel.open_run(write_run(tmp_path, steps=1, samples=1)) as run:
        append(tmp_path / RANK0, line(2), whole[:40])
        run.wait(PATIENCE)
        assert run.steps.step.tolist() == [1, 2]
        append(tmp_path / RANK0, whole[40:])
        run.wait(PATIENCE)
        assert run.steps.step.tolist() == [1, 2, 3]


def test_a_file_that_grows_all_the_time_is_read_up_to_the_call(tmp_path: Path) -> None:
    write_run(tmp_path, steps=1, samples=1, tokens=False)
    written, stop = [1], threading.Event()

    def grow() -> None:
        while not stop.is_set():
            append(
                tmp_path / RANK0, *[line(written[0] + 1, index=index, tokens=False) for index in range(20)]
            )
            written[0] += 1

    writer = threading.Thread(target=grow)
    with rlpanel.open_run(tmp_path) as run:
        writer.start()
        try:
            for _ in range(5):
                before = written[0]
                run.wait(PATIENCE)
                assert run.stats().steps >= before
        finally:
            stop.set()
            writer.join()
        run.wait(PATIENCE)
        assert run.stats().steps == written[0]


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "not followed"])
def test_a_run_that_is_not_followed_says_that_its_files_have_grown(tmp_path: Path, closed: bool) -> None:
    run = rlpanel.open_run(write_run(tmp_path, steps=1, samples=1), follow=closed)
    run.wait(PATIENCE)
    run.close()
    assert run.wait(PATIENCE)  # nothing has come since
    new = line(2)
    append(tmp_path / RANK0, new)
    with pytest.raises(NotYetRead, match=f"{RANK0} is {len(new):,} bytes behind; open the run again"):
        run.wait(PATIENCE)
    with rlpanel.open_run(tmp_path, follow=False) as again:
        assert again.wait(PATIENCE)
        assert again.steps.step.tolist() == [1, 2]


def test_a_backlog_and_what_is_appended_meanwhile_are_waited_for(tmp_path: Path) -> None:
    write_run(tmp_path, steps=60, samples=8)
    reader = Reader(Reading(jobs=0, backlog_bytes=1, turn_bytes=4096, cache=False))
    try:
        run = Run(reader.open(tmp_path), reader)
        append(tmp_path / RANK0, line(61))
        run.wait(PATIENCE)
        assert run.stats().rows == 60 * 8 + 1
    finally:
        reader.stop()


def test_after_the_timeout_the_file_and_the_missing_bytes_are_named(tmp_path: Path) -> None:
    write_run(tmp_path, steps=4, samples=2)
    reader = Reader(Reading(line_rest=3600.0, cache=False))
    try:
        run = Run(reader.open(tmp_path), reader)
        run.wait(PATIENCE)
        (tmp_path / RANK0).write_bytes(line(1))  # held back, because the writer may be about to go on
        size = (tmp_path / RANK0).stat().st_size

        def says() -> bool:
            with pytest.raises(NotYetRead) as raised:
                run.wait(0.1)
            return f"{RANK0} is {size:,} bytes behind; wait for longer" in str(raised.value)

        wait_until(says)
    finally:
        reader.stop()


def test_a_reader_that_is_busy_elsewhere_says_so(tmp_path: Path) -> None:
    busy, go_on = threading.Event(), threading.Event()
    reader = Reader(Reading(cache=False))
    try:
        run = Run(reader.open(write_run(tmp_path / "run", steps=1)), reader)
        run.wait(PATIENCE)

        def occupy(_: object) -> None:
            busy.set()
            go_on.wait(PATIENCE)

        reader.listen(occupy)
        append(tmp_path / "run" / RANK0, line(2))
        assert busy.wait(PATIENCE)
        with pytest.raises(NotYetRead, match="the reader has not come to it yet"):
            run.wait(0.05)
        go_on.set()
        run.wait(PATIENCE)
        assert run.steps.step.tolist() == [1, 2]
    finally:
        go_on.set()
        reader.stop()
