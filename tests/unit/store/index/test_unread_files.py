"""Unreadable files and folders of a run are listed with a reason until they can be read."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlpanel.api.open_run import open_run
from rlpanel.sources.discovery.directory import Directory
from rlpanel.sources.readers import containers
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import append, line, write_run
from tests.unit.sources.discovery.test_step_folders import areal, put
from tests.unit.sources.readers.faults import public_folder, unreadable

RANK0, RANK1 = "rollout_data_rank_0.jsonl", "rollout_data_rank_1.jsonl"


@pytest.fixture
def run() -> Iterator[Path]:
    """Two ranks of three samples, in a folder that an ordinary user may enter."""
    with public_folder() as folder:
        yield write_run(folder, ranks=2, steps=1, samples=3)


def look(index: RunIndex) -> Snapshot:
    index.rescan()
    while index.read():
        pass
    return index.snapshot


def told(snapshot: Snapshot) -> list[tuple[str, str]]:
    return [(one.file, one.reason) for one in snapshot.unread]


def test_a_rank_that_may_not_be_read_is_named_until_it_may(run: Path) -> None:
    index = RunIndex(run, "run")
    with unreadable(run / RANK1):
        before = look(index)
    after = look(index)
    assert (before.samples, told(before)) == (3, [(RANK1, "Permission denied")])
    assert (after.samples, told(after), after.problems) == (6, [], ())


def test_a_file_whose_name_alone_says_nothing_is_named_too(run: Path) -> None:
    """It may be a rollout file; nobody can know before it may be read."""
    append(run / "12.jsonl", line(12))
    index = RunIndex(run, "run")
    with unreadable(run / "12.jsonl"):
        before = look(index)
    after = look(index)
    assert (before.samples, told(before)) == (6, [("12.jsonl", "Permission denied")])
    assert before.problems == ("12.jsonl: Permission denied; it will be read once this is resolved",)
    assert (after.samples, after.problems) == (7, ())


def test_a_folder_of_steps_that_may_not_be_listed_is_named_and_keeps_its_rows(run: Path) -> None:
    steps = run / "rollouts" / "step_5" / "train" / "effective"
    steps.mkdir(parents=True)
    index = RunIndex(run, "run")
    with unreadable(run / "rollouts"):
        before = look(index)
    after = look(index)
    assert told(before) == [("rollouts/", "Permission denied")]
    assert told(after) == []


def test_rows_of_a_folder_that_is_closed_later_stay() -> None:
    with public_folder() as run:
        put(run / "3" / "17.jsonl", areal(17, 3, 0.5))
        put(run / "4" / "18.jsonl", areal(18, 4, 0.0))
        index = RunIndex(run, "run")
        before = look(index)
        with unreadable(run / "3"):
            closed = look(index)
        after = look(index)
    assert [found.samples for found in (before, closed, after)] == [2, 2, 2]
    assert ("3/", "Permission denied") in told(closed)
    assert told(after) == []


def test_a_closed_folder_of_another_run_is_not_this_ones(run: Path) -> None:
    write_run(run / "other")
    with unreadable(run / "other"):
        found = look(RunIndex(run, "run"))
        above = Directory(run)
        above.runs()
    assert told(found) == []
    assert [str(one) for one in above.left_out] == [
        "other/: Permission denied; it will be read once this is resolved"
    ]


def test_an_odd_file_of_a_run_below_is_not_told_of_the_run_above(run: Path) -> None:
    write_run(run / "123")
    append(run / "123" / "odd.jsonl", line(1))
    with unreadable(run / "123" / "odd.jsonl"):
        above, below = look(RunIndex(run, "run")), look(RunIndex(run / "123", "below"))
    assert (told(above), told(below)) == ([], [("odd.jsonl", "Permission denied")])


def test_a_damaged_compressed_file_makes_the_run_not_whole(run: Path) -> None:
    (run / "rollout_data_rank_2.jsonl.gz").write_bytes(gzip.compress(line(1)) + b"no such thing")
    found = look(RunIndex(run, "run"))
    ((file, reason),) = told(found)
    assert (file, found.samples) == ("rollout_data_rank_2.jsonl.gz", 7)
    assert reason.startswith("damaged near byte")


def test_a_parquet_file_that_makes_no_sense_makes_the_run_not_whole(run: Path) -> None:
    path = run / "steps.parquet"
    path.write_bytes(b"PAR1 and nothing else")
    index = RunIndex(run, "run")
    ((file, reason),) = told(look(index))
    assert file == "steps.parquet"
    assert reason.startswith("is incomplete or damaged")
    pq.write_table(pa.table({"prompt": ["p"], "response": ["r"], "reward": [1.0], "step": [9]}), path)
    assert (told(look(index)), index.snapshot.samples) == ([], 7)


def test_a_file_that_could_not_be_opened_for_once_is_looked_at_again(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it changes on disk when the fault is over."""
    append(run / "12.jsonl", line(12))

    def fail(path: str) -> None:
        raise OSError(5, "Input/output error")

    index = RunIndex(run, "run")
    with monkeypatch.context() as patch:
        patch.setattr(containers, "open_plain", fail)
        assert ("12.jsonl", "Input/output error") in told(look(index))
    assert (told(look(index)), index.snapshot.samples) == ([], 7)


def test_a_run_tells_python_what_is_not_read(run: Path) -> None:
    with unreadable(run / RANK1), open_run(run, follow=False) as opened:
        assert opened.unread.to_dict("records") == [{"file": RANK1, "reason": "Permission denied"}]
    with open_run(run, follow=False) as opened:
        assert (list(opened.unread), len(opened.unread)) == (["file", "reason"], 0)


def test_samples_of_a_deleted_file_do_not_vanish_without_a_word(run: Path) -> None:
    index = RunIndex(run, "run")
    assert (look(index).samples, index.snapshot.problems) == (6, ())
    content = (run / RANK1).read_bytes()
    (run / RANK1).unlink()
    assert look(index).samples == 3
    [problem] = index.snapshot.problems
    assert RANK1 in problem
    assert "deleted or renamed: its 3 samples do not count any more" in problem
    (run / RANK1).write_bytes(content)
    assert (look(index).samples, index.snapshot.problems) == (6, ())
