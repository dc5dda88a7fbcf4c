"""What the board shows can be asked in the other doors: command, tool, Python and SQL."""

from __future__ import annotations

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

#: Questions that are no tables of SQL: they ask for an option, read the log, or compare runs.
NO_TABLE = {
    *(
        "runs",
        "sample",
        "sample_tokens",
        "tokens",
        "news",
        "lint",
        "contrast",
        "compare",
        "explain",
        "bisect",
    ),
    *(
        "drift",
        "corrections",
        "taken_away",
        "experts",
        "search",
        "tree",
        "in_flight",
        "update",
        "what_if",
        "reward_pays",
    ),
    *("token_trend", "changed_tokens", "learned", "diverge", "gate", "settings", "sql"),
    *("failures", "judges", "report"),
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


def test_the_other_questions_are_tables_of_sql() -> None:
    assert set(relations()) - {"samples"} == set(QUESTIONS) - NO_TABLE - {"samples"}


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
