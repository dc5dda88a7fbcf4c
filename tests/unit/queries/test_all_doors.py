"""What the board shows can be asked in the other doors: command, tool, Python and SQL."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import rlpanel
from rlpanel import board_url
from rlpanel.cli.commands import app
from rlpanel.mcp_server.doc_pages import read_page
from rlpanel.queries.catalogue import QUESTIONS
from rlpanel.queries.sql import relations
from rlpanel.sql.statement import OF_STEPS
from tests.factories import write_run

#: Page or part of the board → questions with the same numbers.
ASKED_BY = {
    board_url.RUNS_PAGE: ("runs",),
    "samples": ("samples", "search", "steps", "scalars", "findings", "news", "events", "errors"),
    "sample": ("sample", "sample_tokens", "tree", "notes"),
    "rollouts": ("samples", "sample_tokens", "groups"),
    "update": ("update", "what_if", "reward_parts", "reward_pays", "learned"),
    "prompts": ("prompts", "prompt_costs"),
    "lint": ("lint",),
    "compare": ("compare", "diverge", "settings"),
    "explain": ("explain", "clusters", "contrast", "bisect"),
    "timeline": ("samples",),
    "ranking": ("tokens", "changed_tokens", "token_trend"),
    "drift": ("drift", "corrections", "taken_away", "experts"),
    "flight": ("in_flight",),
    "failures": ("failures", "judges"),
    "investigations": ("report",),
}
#: Questions without a page of their own.
ELSEWHERE = {"trend", "gate", "sql", "columns"}
#: Questions whose command has another form.
OTHER_COMMANDS = {"sample_tokens": "sample"}

#: Reason why a question is no table of SQL → questions.
NO_TABLE = {
    "it is asked of a folder of runs": {"runs"},
    "it needs an option": {
        *("sample", "sample_tokens", "news", "contrast", "compare", "explain", "search", "tree"),
        *("diverge", "gate", "sql"),
    },
    "it is a table function of steps": {"tokens"},
    "it is about now, not about the log": {"in_flight"},
    "it compares runs": {"settings"},
    "it reads a part of the lines, and its rows mean little without the facts beside them": {
        *("lint", "bisect", "drift", "corrections", "taken_away", "experts", "report", "failures", "judges"),
    },
}


def commands() -> set[str]:
    names = (each.name or each.callback.__name__.replace("_", "-") for each in app.registered_commands)  # type: ignore[union-attr]
    return set(names)


def test_each_page_of_the_board_has_its_questions() -> None:
    assert set(ASKED_BY) == set(board_url.PAGES)
    asked = {name for names in ASKED_BY.values() for name in names}
    assert asked | ELSEWHERE == set(QUESTIONS)
    assert not asked & ELSEWHERE


@pytest.mark.parametrize("name", QUESTIONS)
def test_each_question_is_a_command_and_a_tool(name: str) -> None:
    question = QUESTIONS[name]
    assert OTHER_COMMANDS.get(name, name.replace("_", "-")) in commands()
    assert question.has_tool
    assert f"`{name}`" in read_page("agents-cli.md")


def test_each_question_is_a_table_of_sql_unless_there_is_a_reason() -> None:
    left_out = [name for names in NO_TABLE.values() for name in names]
    assert {*relations(), *left_out} == set(QUESTIONS)
    assert len(left_out) + len(relations()) == len(QUESTIONS)
    of_root = {name for name, question in QUESTIONS.items() if question.of_root}
    assert NO_TABLE["it is asked of a folder of runs"] == of_root
    needs = {
        name
        for name, question in QUESTIONS.items()
        if any(parameter.default is inspect.Parameter.empty for parameter in question.parameters)
    }
    assert NO_TABLE["it needs an option"] == needs - of_root
    assert NO_TABLE["it is a table function of steps"] <= set(OF_STEPS)


def test_the_questions_for_an_update_are_tables_of_sql() -> None:
    asked = {*ASKED_BY["update"], "prompt_costs", "token_trend", "changed_tokens", "trend"}
    assert asked <= set(relations())


def test_python_answers_by_the_same_names(tmp_path: Path) -> None:
    with rlpanel.open_run(write_run(tmp_path, steps=2), follow=False) as run:
        for name in ("steps", "samples", "findings", "errors", "events", "notes", "lint"):
            assert run.ask(name).name == name


def test_an_own_by_of_a_command_is_not_taken_for_that_which_counts_rewards(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=2, algo="grpo", lang="zh", rewards={"a": 1.0})
    write_run(folder, steps=2, file_name="more_{rank}.jsonl", algo="grpo", lang="en", rewards={"a": 0.0})

    def answer(command: str, *options: str) -> dict[str, Any]:
        shown = CliRunner().invoke(app, [command, str(folder), *options, "--json"])
        found: dict[str, Any] = json.loads(shown.stdout)
        return found

    assert answer("what-if", "--own", "grpo", "--by", "lang")["about"]["by"] == "lang"
    assert answer("token-trend", "sun", "--by", "rank")["about"]["by"] == "rank"
    assert answer("reward-parts", "--by", "step")["rows"][-1]["step"] == 2
