"""A question that is added is found in all doors: Python, command, tool, table of SQL, and panel."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

import rlpanel
from rlpanel.cli.table_command import command_of
from rlpanel.errors import QueryError
from rlpanel.mcp_server.answer import AnswerLimits
from rlpanel.mcp_server.run_pool import RunPool
from rlpanel.mcp_server.tool_server import tool_of
from rlpanel.panels.notebook.notebook_frame import AnswerTable, context_of
from rlpanel.queries.question import QUESTIONS, Question, question
from rlpanel.queries.question_options import Option
from rlpanel.queries.run_data import RunData
from rlpanel.queries.sql import relations
from rlpanel.queries.table import RUN, Table, TableColumn
from tests.factories import write_run

Least = Annotated[int, Option("Least number of samples.", "Fewest samples.", min=0)]


@pytest.fixture
def ranks() -> Iterator[Question[...]]:
    """A question that only this test has."""

    @question(
        description="Samples by rank.",
        columns=(
            TableColumn("rank", "integer", "Rank."),
            TableColumn("<i>", "integer", "Samples."),
            TableColumn("texts", "texts", "Texts."),
            TableColumn("empty", "text", "Nothing."),
        ),
        about=(RUN,),
        example="rlpanel ranks runs/exp1",
    )
    def ranks(run: RunData, least: Least = 0) -> Table:
        """Return the number of samples of each rank.

        Parameters
        ----------
        run : RunData
        least : int
        """
        counts: dict[int, int] = {}
        for rank in run.snapshot.metadata("rank").tolist():
            counts[rank] = counts.get(rank, 0) + 1
        rows = [
            {"rank": rank, "<i>": count, "texts": ["a", "b"]}
            for rank, count in counts.items()
            if count >= least
        ]
        return QUESTIONS["ranks"].table(rows, about={"run": run.name})

    yield QUESTIONS["ranks"]
    del QUESTIONS["ranks"]


def test_a_new_question_is_found_in_all_doors(tmp_path: Path, ranks: Question[...]) -> None:
    folder = write_run(tmp_path / "run", steps=2, ranks=2, samples=3)
    rows = [{"rank": rank, "<i>": 6, "texts": ["a", "b"], "empty": None} for rank in (0, 1)]
    with rlpanel.open_run(folder, follow=False) as run:
        table = run.ask("ranks")
        assert table.rows == table.frame().to_dict("records") == table.arrow().to_pylist() == rows
        assert run.ask("ranks", least=7).rows == []

        html = AnswerTable(context_of(run), "ranks").html
        assert "&lt;i&gt;" in html
        assert html.count("<td>6</td>") == 2

    app = typer.Typer()
    app.command()(command_of(ranks))
    asked = CliRunner().invoke(app, [str(folder), "--least", "1", "--json"])
    assert json.loads(asked.stdout)["rows"] == rows
    shown = " ".join(CliRunner().invoke(app, ["--help"]).stdout.split())
    assert "Print the number of samples of each rank." in shown

    pool = RunPool(tmp_path)
    try:
        tool = tool_of(ranks, pool, AnswerLimits())
        found = json.loads(tool(run="run", detail="full"))["untrusted"]
        assert [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]] == rows
        assert tool.__doc__ == "Return the number of samples of each rank."
    finally:
        pool.close()


def test_a_new_question_is_a_table_of_sql(tmp_path: Path, ranks: Question[...]) -> None:
    pytest.importorskip("duckdb")
    folder = write_run(tmp_path, steps=2, ranks=2, samples=3)
    with rlpanel.open_run(folder, follow=False) as run:
        found = run.sql(
            'select r.rank, r."<i>", count(*) as n from RANKS r join samples using (rank) group by all'
        )
        assert sorted(found.itertuples(index=False, name=None)) == [(0, 6, 6), (1, 6, 6)]
        assert run.sql("select texts, empty from ranks limit 1").iloc[0].tolist() == ['["a", "b"]', None]
        assert set(run.sql("describe ranks").column_type) == {"BIGINT", "VARCHAR"}
        with pytest.raises(
            QueryError, match=r"no table 'rank'; a query reads only .*, ranks, all_samples, tokens\("
        ):
            run.sql("from rank")


@pytest.mark.parametrize("shown", ["command", "tool"])
def test_a_new_question_is_named_where_sql_is_explained(
    tmp_path: Path, ranks: Question[...], shown: str
) -> None:
    if shown == "command":
        app = typer.Typer()
        app.command()(command_of(QUESTIONS["sql"]))
        text = " ".join(CliRunner().invoke(app, ["--help"]).stdout.replace("│", " ").split())
    else:
        text = str(tool_of(QUESTIONS["sql"], RunPool(tmp_path), AnswerLimits()).__doc__)
    assert ", ranks, all_samples, tokens(FIRST, LAST), texts(FIRST, LAST) and turns(FIRST, LAST)" in text


def test_the_page_on_sql_has_each_table_with_its_columns() -> None:
    page = (Path(__file__).parents[3] / "docs" / "sql.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \|[^|]*\| (.*) \|$", page, re.MULTILINE))
    assert list(rows) == [*relations(), "all_samples"]
    del rows["all_samples"]  # as `samples`
    for name, columns in rows.items():
        spec = QUESTIONS[name].spec
        names = spec.relation or spec.frame or [column.name for column in spec.columns]
        if not spec.others:
            assert re.findall(r"`([^`]+)`", columns) == list(names), name
