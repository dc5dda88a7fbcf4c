"""Runs are found by name only; no name leads out of the root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlpanel.errors import RunNotFound, SettingError
from rlpanel.mcp_server.run_pool import RunPool
from rlpanel.runtime import default_runtime
from tests.factories import append, line, write_run


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[RunPool]:
    write_run(tmp_path / "root" / "a", steps=2)
    write_run(tmp_path / "root" / "deep" / "b", steps=3)
    write_run(tmp_path / "outside")
    os.symlink(tmp_path / "outside", tmp_path / "root" / "link")
    found = RunPool(tmp_path / "root")
    yield found
    found.close()
    default_runtime().close()


def test_runs_are_opened_by_name(pool: RunPool) -> None:
    assert len(pool.run("a").steps) == 2
    assert len(pool.run("deep/b").steps) == 3


@pytest.mark.parametrize(
    "name", ["../outside", "link", "a/../../outside", "/etc", ".", "deep", "a/", "A", "a\0", "\n", "~", "*"]
)
def test_no_other_name_opens_anything(pool: RunPool, name: str) -> None:
    with pytest.raises(RunNotFound, match="'a'"):
        pool.run(name)


def test_an_absolute_path_is_no_name(pool: RunPool, tmp_path: Path) -> None:
    with pytest.raises(RunNotFound):
        pool.run(str(tmp_path / "root" / "a"))


def test_a_run_has_lines_that_were_written_later(pool: RunPool, tmp_path: Path) -> None:
    assert len(pool.run("a").steps) == 2
    append(tmp_path / "root" / "a" / "rollout_data_rank_0.jsonl", line(9))
    os.utime(tmp_path / "root" / "a")
    assert len(pool.run("a").steps) == 3


def test_few_runs_stay_open(pool: RunPool, tmp_path: Path) -> None:
    for number in range(6):
        write_run(tmp_path / "root" / f"r{number}", steps=1)
        pool.run(f"r{number}")
    assert len(pool._open) == 4
    assert len(pool.run("r0").steps) == 1


def test_an_unknown_split_is_an_error(pool: RunPool) -> None:
    with pytest.raises(SettingError, match="no split"):
        pool.run("a", "nope")


def test_no_run_is_closed_while_an_answer_uses_it(tmp_path: Path) -> None:
    for number in range(6):
        write_run(tmp_path / f"run{number}", steps=1)
    pool = RunPool(tmp_path)
    names = [info.name for info in pool.infos()]
    with pool.answering():
        opened = [pool.run(name) for name in names]
        assert [pool.run(name) is run for name, run in zip(names, opened, strict=True)] == [True] * 6
    kept = [pool.run(name) is run for name, run in zip(names[2:], opened[2:], strict=True)]
    assert kept == [True] * 4
    assert pool.run(names[0]) is not opened[0]  # it was closed after the answer
    pool.close()
