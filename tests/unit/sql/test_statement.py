"""What a query may not do: read files, settings, variables or addresses, or change anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import rlpanel
from rlpanel.api.run import Run
from rlpanel.errors import QueryError
from rlpanel.sql.sql_limits import SqlLimits
from rlpanel.sql.sql_worker import connect, lock
from rlpanel.sql.statement import parse
from tests.factories import write_run

duckdb = pytest.importorskip("duckdb")

TABLES = ("samples", "steps")

#: Variables by the names of which no query may read.
secret = pd.DataFrame({"secret": [1]})

#: Queries that duckdb's own settings and ours must refuse. ``{file}`` is a file that exists.
READING = [
    "select * from read_csv('{file}')",
    "select * from read_csv_auto('{file}')",
    "select * from read_text('{file}')",
    "select * from read_blob('{file}')",
    "select * from read_json('{file}')",
    "select * from read_json_objects('{file}')",
    "select * from read_parquet('{file}')",
    "select * from parquet_metadata('{file}')",
    "select * from parquet_scan('{file}')",
    "select * from sniff_csv('{file}')",
    "select * from read_duckdb('{file}')",
    "select * from glob('/*')",
    "select * from '{file}'",
    'select * from "{file}"',
    "select * from 'https://example.org/a.csv'",
    "select * from read_csv('https://example.org/a.csv')",
    "select * from 's3://bucket/a.parquet'",
    "select * from secret",
    "select * from run",
    "with a as (select * from read_text('{file}')) select * from a",
    "select (select content from read_text('{file}'))",
    "select 1 where exists (from read_text('{file}'))",
    "from query('select * from read_text(''{file}'')')",
    "from query_table('{file}')",
    "from query_table(['samples'])",
    "select * from json_execute_serialized_sql(json_serialize_sql('select 1'))",
]
STATE = [
    "select * from duckdb_settings()",
    "select * from duckdb_secrets()",
    "select * from duckdb_extensions()",
    "select * from duckdb_variables()",
    "select * from duckdb_functions()",
    "select * from which_secret('s3://a', 's3')",
    "select * from pragma_database_size()",
    "select * from information_schema.tables",
    "select * from pg_catalog.pg_settings",
    "select * from sqlite_master",
    "select * from main.samples",
    "select * from memory.main.samples",
    "select * from rlpanel_data_samples, samples",
    "show tables",
    "show all tables",
    "select current_setting('home_directory')",
    "select main.current_setting('secret_directory')",
]
MEMORY = [
    "select * from pandas_scan(12345)",
    "select * from arrow_scan(1, 2, 3)",
    "select * from python_map_function(1)",
    "select * from seq_scan(1)",
]
CHANGING = [
    "copy samples to '{file}.csv'",
    "copy (select 1) to '{file}.csv'",
    "create table a as select 1",
    "create view a as select 1",
    "create macro f() as 1",
    "create secret (type s3)",
    "insert into samples values (1)",
    "delete from samples",
    "update samples set step = 1",
    "drop view samples",
    "attach '{file}' as a",
    "detach memory",
    "use memory",
    "install httpfs",
    "load httpfs",
    "pragma database_list",
    "set threads = 1",
    "set enable_external_access = true",
    "reset lock_configuration",
    "call pragma_version()",
    "export database '{file}'",
    "import database '{file}'",
    "explain analyze select 1",
    "prepare a as select 1",
    "begin",
    "checkpoint",
    "vacuum",
    "select 1; select 2",
    "select 1; copy (select 1) to '{file}.csv'",
    "",
    "-- nothing",
]


@pytest.fixture(scope="module")
def connection() -> Any:
    """A connection that only parses."""
    return connect(SqlLimits())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return rlpanel.open_run(write_run(tmp_path_factory.mktemp("run")), follow=False)


@pytest.mark.parametrize("query", [*READING, *STATE, *MEMORY, *CHANGING])
def test_an_attack_is_refused(run: Run, tmp_path: Path, query: str) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("secret,1\n2,3\n")
    with pytest.raises(QueryError):
        run.sql(query.format(file=file))
    assert [path.name for path in tmp_path.iterdir()] == ["secret.csv"]


@pytest.mark.parametrize("query", [*READING[:20], *CHANGING[:1], *CHANGING[10:11], *CHANGING[13:15]])
def test_the_connection_alone_refuses_files_network_and_variables(tmp_path: Path, query: str) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("secret,1\n2,3\n")
    connection = connect(SqlLimits())
    lock(connection)
    with pytest.raises(duckdb.Error):
        connection.execute(query.format(file=file)).fetchall()
    assert [path.name for path in tmp_path.iterdir()] == ["secret.csv"]


@pytest.mark.parametrize("query", CHANGING[16:19])
def test_the_connection_alone_keeps_its_settings(query: str) -> None:
    connection = connect(SqlLimits())
    lock(connection)
    with pytest.raises(duckdb.Error, match="lock"):
        connection.execute(query).fetchall()


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("select step, avg(reward) from samples group by step", {"step", "reward"}),
        ("select count(*) from samples", set()),
        ("select a.kl_k3_mean from samples a", {"a", "kl_k3_mean"}),
        ("select 1 from samples join steps using (step)", {"step"}),
        ("select * from samples", None),
        ("from samples", None),
        ("select columns('r.*') from samples", None),
        ("select samples from samples", None),
        ("select a from samples a", None),
        ("select 1 from samples natural join steps", None),
        ("describe samples", None),
        ("summarize samples", None),
    ],
)
def test_the_columns_that_a_query_reads(connection: Any, query: str, names: set[str] | None) -> None:
    assert parse(connection, query, TABLES).names == names


@pytest.mark.parametrize(
    ("query", "steps"),
    [
        ("from tokens(3)", ((3, 3),)),
        ("from tokens(3, 5)", ((3, 5),)),
        ("from tokens(-3, 5), tokens(7)", ((-3, 5), (7, 7))),
    ],
)
def test_the_steps_whose_tokens_a_query_reads(
    connection: Any, query: str, steps: tuple[tuple[int, int], ...]
) -> None:
    assert parse(connection, query, TABLES).steps["tokens"] == steps
    assert parse(connection, query.replace("tokens", "texts"), TABLES).steps["texts"] == steps


@pytest.mark.parametrize(
    "query", ["from tokens()", "from tokens('a')", "from tokens(1, 2, 3)", "from tokens(1.5)"]
)
def test_steps_are_whole_numbers(connection: Any, query: str) -> None:
    with pytest.raises(QueryError, match="tokens"):
        parse(connection, query, TABLES)


@pytest.mark.parametrize(
    "query",
    [
        "select unnest([1, 2])",
        "select * from range(3)",
        "values (1)",
        "with recursive a as (select 1 as n union all select n + 1 from a where n < 3) select * from a",
        "select 1 union select 2 order by 1;",
        "describe samples",
        "summarize samples",
        "select list_transform([1], lambda x: x + 1)",
    ],
)
def test_plain_queries_pass(run: Run, query: str) -> None:
    assert len(run.sql(query))
