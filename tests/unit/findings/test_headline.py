"""The headline of a run that turns at a known step: the largest and earliest change, told once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import rlpanel
from rlpanel.findings.check import findings
from rlpanel.findings.engine.finding import Finding
from rlpanel.settings import FindingSettings
from tests.turning_runs import TURN, write_engine_drift, write_failing_tool, write_truth_shift


def found_in(folder: Path) -> list[Finding]:
    """Check a finished run."""
    return findings(rlpanel.open_run(folder).view, FindingSettings(), time.time() + 3600)


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> list[Finding]:
    return found_in(write_truth_shift(tmp_path_factory.mktemp("truth")))


def test_a_shifted_truth_is_a_fallen_reward_from_the_step_of_the_fall_on(truth: list[Finding]) -> None:
    first = truth[0]
    assert (first.key, first.onset, first.tab) == ("sustained_change:reward", TURN, "reference")
    assert [symptom.rule for symptom in first.symptoms][:2] == ["one_value", "zero_variance"]


def test_a_part_that_is_a_multiple_of_the_reward_is_evidence_and_no_finding(truth: list[Finding]) -> None:
    told = [each.key for finding in truth for each in (finding, *finding.symptoms)]
    assert not [key for key in told if "score_sum" in key]
    assert "The same holds for rewards/score_sum: a multiple of the reward." in truth[0].evidence


def test_an_engine_that_drifts_is_dated_where_its_curve_bends(tmp_path: Path) -> None:
    (engine,) = [each for each in found_in(write_engine_drift(tmp_path)) if each.rule == "engine"]
    assert abs((engine.onset or 0) - TURN) <= 2
    assert (engine.rank, engine.tab, engine.color) == (1, "tokens", "engine_log_ratio")


def test_a_failing_tool_is_counted_in_rollouts_and_in_calls(tmp_path: Path) -> None:
    tool = found_in(write_failing_tool(tmp_path))[0]
    assert (tool.key, tool.onset, tool.tab, tool.tool) == (
        "tool_fails:search", TURN, "conversation", "search",
    )  # fmt: skip
    assert "of the rollouts that call search" in tool.sentence
    assert tool.evidence[0] == "Of the calls of search, 150 of 429 fail: 35% (2.0% before)."
