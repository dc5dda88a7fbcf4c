"""The samples as an Arrow table: the store's own memory, null where nothing was logged."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import rlpanel
from rlpanel.errors import QueryError
from tests.factories import append, line, write_run

pyarrow = pytest.importorskip("pyarrow")


def test_numbers_are_the_memory_of_the_store(tmp_path: Path) -> None:
    run = rlpanel.open_run(write_run(tmp_path, reward=None), follow=False)
    append(tmp_path / "rollout_data_rank_0.jsonl", line(9, reward=1.0))
    run = rlpanel.open_run(tmp_path, follow=False)
    column = run.arrow(["reward", "step"]).column("reward").chunk(0)
    assert column.buffers()[1].address == run.snapshot.number("reward").ctypes.data
    assert column.null_count == len(column) - 1


def test_the_table_equals_the_frame(tmp_path: Path) -> None:
    write_run(tmp_path, samples=4)
    append(tmp_path / "rollout_data_rank_0.jsonl", line(9, drop=("reward", "group"), lang="en"))
    run = rlpanel.open_run(tmp_path, follow=False)
    table, frame = run.arrow(), run.samples()
    assert set(table.column_names) == set(frame)
    for name in frame:
        wanted = [None if value != value else value for value in frame[name].tolist()]
        assert table.column(name).to_pylist() == wanted, name


def test_samples_that_do_not_count_are_left_out(tmp_path: Path) -> None:
    write_run(tmp_path, steps=2, samples=4, split="train")
    write_run(tmp_path, steps=2, samples=3, split="eval", file_name="eval_{rank}.jsonl")
    run = rlpanel.open_run(tmp_path, follow=False)
    assert (len(run.arrow()), len(run.split("eval").arrow())) == (8, 6)
    assert (
        run.split("eval").arrow(["uid"]).column("uid").to_pylist() == run.split("eval").samples().uid.tolist()
    )


def test_an_unknown_column_is_named(tmp_path: Path) -> None:
    run = rlpanel.open_run(write_run(tmp_path), follow=False)
    with pytest.raises(QueryError, match=r"no column 'nope'.*reward"):
        run.arrow(["nope"])


def test_without_pyarrow_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = rlpanel.open_run(write_run(tmp_path), follow=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(QueryError, match=r'pip install "pyarrow>='):
        run.arrow()
