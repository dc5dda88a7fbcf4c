"""A rule that raises an error: it is a finding with its name and reason, and the other rules still run."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import rlpanel
from rlpanel.findings.check import FAILED, check, worst_finding
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RULES, Rule, RuleContext
from rlpanel.mcp_server.answer import AnswerLimits
from rlpanel.mcp_server.run_pool import RunPool
from rlpanel.mcp_server.tool_server import tool_of
from rlpanel.metrics.engine.column_info import METRICS
from rlpanel.panels.findings.findings_list import list_html
from rlpanel.queries.findings import findings
from rlpanel.settings import FindingSettings
from tests.factories import write_run

SENTENCE = "The rule broken (Broken) failed, so its findings are missing: KeyError: 'no column\\nreward'"


def breaks(context: RuleContext) -> Iterator[Finding]:
    yield Finding(severity="alarm", sentence="Half of it was found.")
    raise KeyError("no column\nreward")


@pytest.fixture(params=[False, True], ids=["rows", "clock"])
def run(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> rlpanel.Run:
    """A run whose responses are cut off from step 20 on, and a rule that fails."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setitem(RULES, "broken", Rule("broken", "Broken", breaks, (), "", clock=request.param))
    write_run(tmp_path / "run", steps=range(1, 20), truncated=0, samples=16, tokens=False)
    write_run(tmp_path / "run", steps=range(20, 31), truncated=1, samples=16, tokens=False)
    return rlpanel.open_run(tmp_path / "run", follow=False)


def test_it_is_a_finding_in_one_line_beside_those_of_the_other_rules(run: rlpanel.Run) -> None:
    found = run.findings
    assert SENTENCE in found["sentence"].tolist()
    assert {"broken", "rule_failed"} & set(found["rule"]) == {FAILED}
    assert "truncated" in set(found["rule"])
    (failure,) = [each for each in found["finding"] if each.rule == FAILED]
    assert (failure.subject, failure.severity, failure.evidence) == (
        *("broken", "warning"),
        (f"It failed in test_failed_rules.py, line {breaks.__code__.co_firstlineno + 2}.",),
    )


def test_lists_of_runs_reports_and_agents_show_it(run: rlpanel.Run, tmp_path: Path) -> None:
    only = [each for each in run.findings["finding"] if each.rule == FAILED]
    worst = worst_finding(only)
    assert worst is not None
    assert worst.sentence == SENTENCE
    assert "The rule broken (Broken) failed" in list_html(only)
    answer = tool_of(findings, RunPool(tmp_path), AnswerLimits())(run="run")
    assert f'"{FAILED}"' in answer
    assert json.dumps(SENTENCE)[1:-1] in answer


def test_it_is_logged_in_one_line_and_once(run: rlpanel.Run, caplog: pytest.LogCaptureFixture) -> None:
    result, now = None, time.time() + 60
    with caplog.at_level(logging.INFO, "rlpanel"):
        for later in range(3):
            result = check(run.view, FindingSettings(), now + later, result)
    (record,) = caplog.records
    assert record.exc_info is None
    assert record.getMessage().count("\n") == 0
    assert SENTENCE in record.getMessage()


def test_a_metric_that_fails_hides_no_other_and_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(**inputs: object) -> object:
        raise ZeroDivisionError("no group")

    write_run(tmp_path / "run", steps=8, samples=16, tokens=False)
    with rlpanel.open_run(tmp_path / "run", follow=False) as run:
        names = sorted(set(run.steps.columns) - {"zero_variance_groups"})
    for name in ("zero_variance_groups", "grpo_advantage"):
        monkeypatch.setitem(METRICS, name, replace(METRICS[name], function=fails))
    with rlpanel.open_run(tmp_path / "run", follow=False) as run:
        assert sorted(run.steps.columns) == names
        run.samples()
        found = [each for each in run.findings["finding"] if each.rule == FAILED]
    assert [(each.severity, each.sentence) for each in found] == [
        (
            "warning",
            f"The metric {name} failed, so its values are missing: ZeroDivisionError: no group",
        )
        for name in ("zero_variance_groups", "grpo_advantage")
    ]


@pytest.mark.parametrize("samples", [1, 8])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_no_rule_fails_in_the_first_steps_of_a_run(steps: int, samples: int, tmp_path: Path) -> None:
    write_run(
        tmp_path / "run", steps=steps, samples=samples, ref_logprobs=[-1.0, -1.0], logprobs=[-0.9, -1.1]
    )
    with rlpanel.open_run(tmp_path / "run", follow=False) as run:
        found = list(run.findings["finding"])
    assert [each.sentence for each in found if each.rule == FAILED] == []
