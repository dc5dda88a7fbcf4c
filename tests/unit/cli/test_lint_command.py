"""The command ``lint``: what it prints, its JSON, and its exit codes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rlpanel.cli.commands import build_app
from rlpanel.errors import SettingError
from rlpanel.lint.lint_rule import LINT_RULES, LintRule, Marks
from tests.unit.lint.linted_runs import faulty_run, recorded, write


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """Options of the reader become environment variables, which other tests must not see."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def asked(*words: str) -> Result:
    return CliRunner().invoke(build_app(), ["lint", *words])


def test_failed_rules_are_printed_with_samples_and_exit_with_1(tmp_path: Path) -> None:
    result = asked(str(write(tmp_path, faulty_run())))
    assert result.exit_code == 1
    assert (
        result.stdout.index("FAILED") < result.stdout.index("PASSED") < result.stdout.index("NOT CHECKABLE")
    )
    assert "engine_not_copied" in result.stdout
    assert "from step 25" in result.stdout
    assert "rollout_data_rank_0.jsonl:" in result.stdout
    assert "log policy_version (" in result.stdout


def test_json_of_one_rule_exits_with_0_if_it_passes(tmp_path: Path) -> None:
    folder = str(write(tmp_path, recorded("grpo_couplets", [1, 2])))
    result = asked(folder, "--rule", "logprob_negative", "--rule", "engine_in_place", "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert {rule["rule"]: rule["state"] for rule in document["rules"]} == {
        "logprob_negative": "passed",
        "engine_in_place": "not checkable",
    }
    assert (document["samples"], document["read"], document["unreadable"]) == (128, 128, 0)


def test_rule_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, recorded("grpo_couplets", [1]))
    result = asked(str(tmp_path), "--rule", "mask_in_plac")
    assert isinstance(result.exception, SettingError)
    assert "mask_in_place" in str(result.exception)


def test_rule_that_fails_itself_exits_with_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(batch: object) -> Marks:
        raise ValueError("a fault of the rule")

    rule = LintRule("faulty", "Faulty", "", "logprobs", "samples", (), "", check)
    monkeypatch.setitem(LINT_RULES, "faulty", rule)
    write(tmp_path, recorded("grpo_couplets", [1, 2]))
    result = asked(str(tmp_path), "--per-step", "8")
    assert result.exit_code == 3
    assert "16 samples were read" in result.stdout
    assert "a fault of the rule" in result.stdout
