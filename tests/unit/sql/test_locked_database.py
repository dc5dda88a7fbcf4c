"""Limits of a query: rows, time, memory, Ctrl-C; and the message without duckdb."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import rlpanel
from rlpanel.api.run import Run
from rlpanel.errors import QueryError
from rlpanel.sql.locked_database import connect, fetch_rows
from rlpanel.sql.sql_limits import SqlLimits
from tests.factories import write_run

pytest.importorskip("duckdb")

ENDLESS = "select sum(a.range * b.range) from range(10000000) a, range(10000000) b"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return rlpanel.open_run(write_run(tmp_path_factory.mktemp("run")), follow=False)


def test_a_result_may_have_as_many_rows_as_the_limit(run: Run) -> None:
    assert len(run.sql("select * from range(200000)", rows=200_000)) == 200_000


def test_a_larger_result_is_an_error(run: Run) -> None:
    with pytest.raises(QueryError, match="more than 199,999 rows: add LIMIT"):
        run.sql("select * from range(200000)", rows=199_999)


def test_an_endless_result_ends_at_the_limit(run: Run) -> None:
    with pytest.raises(QueryError, match="more than 1,000,000 rows"):
        run.sql("select * from range(1000000000000)")


def test_a_long_query_is_cancelled(run: Run) -> None:
    with pytest.raises(QueryError, match=r"cancelled after 0\.2 s"):
        run.sql(ENDLESS, seconds=0.2)


def test_a_query_that_needs_too_much_memory_fails() -> None:
    limits = SqlLimits(memory=64 << 20)
    with pytest.raises(QueryError, match="too much memory"):
        fetch_rows(connect(limits), "select list(range) from range(100000000)", limits)


def test_a_query_writes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    limits = SqlLimits(memory=64 << 20)
    with pytest.raises(QueryError):
        fetch_rows(connect(limits), "select * from range(100000000) order by hash(range)", limits)
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_cancels_a_query() -> None:
    code = (
        "import os, signal, threading\n"
        "from rlpanel.sql.locked_database import connect, fetch_rows\n"
        "from rlpanel.sql.sql_limits import SqlLimits\n"
        "connection = connect(SqlLimits(seconds=300))\n"
        "threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try:\n"
        f"    fetch_rows(connection, {ENDLESS!r}, SqlLimits(seconds=300))\n"
        "except KeyboardInterrupt:\n"
        "    print('cancelled')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == "cancelled\n"


def test_without_duckdb_the_error_names_the_extra(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(QueryError, match=r'pip install "rlpanel\[sql\]"'):
        run.sql("select 1")
