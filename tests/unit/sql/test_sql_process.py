"""Limits of a query: rows, bytes, time, memory, Ctrl-C; and its process, which ends with its caller."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import rlpanel
from rlpanel.api.run import Run
from rlpanel.errors import QueryError
from rlpanel.queries.sql import sql_frame
from rlpanel.sql.sql_limits import SqlLimits
from rlpanel.sql.sql_process import PARALLEL
from tests.factories import write_run
from tests.waiting import wait_until

pytest.importorskip("duckdb")

ROOT = Path(__file__).parents[3]
ENDLESS = "select sum(a.range * b.range) from range(10000000) a, range(10000000) b"
#: Queries that need much more memory than the limit, in ways that duckdb itself does not count.
GREEDY = [
    "select len(range(300000000))",
    "select len(generate_series(1, 300000000))",
    "select count(*) from (select unnest(range(300000000)))",
    "select printf('%1500000000d', 1)",
    "select format('{:>1000000}', 'a') from range(3000)",
    "select list(range) from range(100000000)",
    "select len(list_resize([1], 2000000000, 1))",
]
#: Less memory than a query may use by default, so that it is filled sooner.
LITTLE = SqlLimits(memory=192 << 20)
#: Queries that take long in one step, which duckdb cannot interrupt.
SLOW = [
    "select len(regexp_split_to_array(format('{:>30000000}', 'a'), ' '))",
    "select len(string_split(format('{:>30000000}', 'a'), ' '))",
    "select length(to_json(range(30000000)))",
    "select sleep_ms(60000)",
]


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


@pytest.mark.parametrize("cells", ["format('{:>1000}', 'a')", "['ab', 'cd']", "range", "{'a': 1}"])
def test_a_result_of_too_many_bytes_is_an_error(run: Run, cells: str) -> None:
    query = f"select {cells} from range(5000)"
    assert len(run.sql(query)) == 5000
    with pytest.raises(QueryError, match=r"more than 0\.03125 MiB: select fewer columns"):
        run.sql(query, size=1 << 15)


def test_a_long_query_is_cancelled(run: Run) -> None:
    with pytest.raises(QueryError, match=r"cancelled after 0\.2 s"):
        run.sql(ENDLESS, seconds=0.2)
    assert run.sql("select 1 as one").one.tolist() == [1]


@pytest.mark.parametrize("query", GREEDY)
def test_a_query_that_needs_too_much_memory_fails(run: Run, query: str) -> None:
    with pytest.raises(QueryError, match="needs more than 192 MiB of memory"):
        sql_frame(run.data, query, LITTLE)
    assert run.sql("select 1 as one").one.tolist() == [1]


def test_a_query_may_need_a_gibibyte(run: Run) -> None:
    with pytest.raises(QueryError, match="needs more than 1 GiB of memory"):
        run.sql(GREEDY[0])


@pytest.mark.slow
def test_no_query_exceeds_its_limits_or_fills_its_caller(tmp_path: Path) -> None:
    seconds = 3
    code = (
        "import re, resource, time, rlpanel\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
        f"run = rlpanel.open_run({str(write_run(tmp_path))!r}, follow=False)\n"
        f"for query in {[*GREEDY, *SLOW]!r}:\n"
        "    begun = time.monotonic()\n"
        "    try:\n"
        f"        run.sql(query, seconds={seconds})\n"
        "    except rlpanel.RLPanelError:\n"
        "        pass\n"
        f"    assert time.monotonic() - begun < {seconds} + 10, query\n"
        # The figure of getrusage begins with that of the test's process.
        "print(int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]) >> 10)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    caller, process = map(int, done.stdout.split())
    assert caller < 400, "MB"
    assert process < 1600, "MB"


def test_a_query_of_deep_parentheses_is_an_error(run: Run) -> None:
    with pytest.raises(QueryError):
        run.sql(f"select {'(' * 5000}1{')' * 5000}")


def test_a_query_writes_no_file(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(QueryError):
        sql_frame(run.data, "select * from range(300000000) order by hash(range)", LITTLE)
    assert list(tmp_path.iterdir()) == []


def test_the_next_query_is_run_by_the_same_process(run: Run) -> None:
    run.sql("select 1")  # after it, a process that an earlier query has filled is replaced
    run.sql("select 1")
    before = _children(os.getpid())
    assert before
    with pytest.raises(QueryError):
        run.sql("select nosuch")
    run.sql("select step, avg(reward) from samples group by step")
    assert _children(os.getpid()) == before


def test_queries_of_several_threads_have_their_own_rows(run: Run) -> None:
    found: dict[int, int] = {}
    others = set(_children(os.getpid()))  # such as helpers of other tests' pools

    def ask(number: int) -> None:
        found[number] = int(run.sql(f"select {number} + sum(0 * range) as n from range(1000000)").n[0])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(3 * PARALLEL)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: number for number in range(3 * PARALLEL)}
    assert len(set(_children(os.getpid())) - others) <= PARALLEL


def test_ctrl_c_cancels_a_query_and_its_process(tmp_path: Path) -> None:
    code = (
        f"import rlpanel\nrun = rlpanel.open_run({str(write_run(tmp_path))!r}, follow=False)\n"
        "run.sql('select 1')\n"
        "try:\n"
        "    print('begun', flush=True)\n"
        f"    run.sql({ENDLESS!r}, seconds=300)\n"
        "except KeyboardInterrupt:\n"
        "    print('cancelled', len(run.sql('select 1')), flush=True)\n"
        "input()\n"
    )
    with _started(code) as process:
        worker = _busy_child(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert process.stdout.readline() == "cancelled 1\n"
        assert worker not in _children(process.pid)


def test_a_query_ends_with_its_caller(tmp_path: Path) -> None:
    code = (
        f"import rlpanel\nrun = rlpanel.open_run({str(write_run(tmp_path))!r}, follow=False)\n"
        "run.sql('select 1')\n"
        "print('begun', flush=True)\n"
        f"run.sql({ENDLESS!r}, seconds=300)\n"
    )
    with _started(code) as process:
        worker = _busy_child(process.pid)
        process.kill()
        process.wait()
        wait_until(lambda: _parent(worker) in (None, "Z"))


def test_without_duckdb_the_error_names_the_extra(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(QueryError, match=r'pip install "duckdb>='):
        run.sql("select 1")


@contextmanager
def _started(code: str) -> Iterator[subprocess.Popen[str]]:
    """Start a program and wait until it says that its query begins."""
    command = [sys.executable, "-c", code]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            yield process
        finally:
            process.kill()


def _children(parent: int) -> list[int]:
    """Return the processes that a process has started and that still run."""
    found = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return sorted(pid for pid in found if _parent(pid) == str(parent))


def _busy_child(parent: int) -> int:
    """Return the only child of a process, once its query runs."""
    [child] = _children(parent)
    begun = _ticks(child)
    wait_until(lambda: _ticks(child) > begun + 20)
    return child


def _ticks(pid: int) -> int:
    """Return the processor time that a process has used, in hundredths of a second."""
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))


def _parent(pid: int) -> str | None:
    """Return the parent of a process, Z if it has ended, None if there is none."""
    with suppress(OSError):
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
        return "Z" if state == "Z" else parent
    return None
