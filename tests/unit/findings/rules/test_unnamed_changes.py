"""Changes that no rule has a name for are found, in plain English; healthy runs have none."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rlpanel.findings.check import FAILED
from rlpanel.findings.engine.finding import Finding
from tests.bench.finding_scores import check_folder
from tests.bench.reported_runs import fresh_kinds as fresh
from tests.bench.reported_runs import healthy_kinds as healthy
from tests.bench.reported_runs import listed_kinds as listed
from tests.bench.reported_runs import outside_agent_kinds as outside
from tests.bench.reported_runs.simulation import Breakage, Setup, Simulation

#: A run of half of the samples is quick; the usual size shows smaller changes.
both_sizes = pytest.mark.parametrize(
    "usual", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["half", "usual"]
)
#: The only kind whose change shows in the usual size alone.
USUAL = listed.SamplesHalve


def look(
    folder: Path, kind: type[Breakage], *, usual: bool = False
) -> tuple[Simulation, list[Finding], list[Finding]]:
    """Write a small run of a kind; return it, its findings, and those of this rule, symptoms or not."""
    small = {"steps": 48, "groups": 8 if usual else 4, "group_size": 4}
    made = Simulation(Setup(**{**small, **kind.setup}), [1, *kind.__name__.encode()], kind)
    made.write(folder)
    found = check_folder(folder)
    every = [each for finding in found for each in (finding, *finding.symptoms)]
    return made, found, [each for each in every if each.rule == "something_changed"]


@both_sizes
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (fresh.RateStartsAgain, r"lr of the trainer 1e-6 \(\S+ before\)"),
        (fresh.OptimiserReset, r"KL"),
        (fresh.TruthNotParsed, r"length of a ground truth"),
        (fresh.LastTurnCut, r"boxed answers of a response"),
        (listed.CachedTool, r"tool results that another call has, too 100% \(0% before\)"),
        (outside.ResponsesOfOthers, r"overlap of a response with its prompt"),
        (listed.PartNull, r"samples without rewards/format 100% \(0% before\)"),
        (listed.SamplesHalve, r"samples per step 16 \(32 before\)"),
        (listed.TemplateLost, r"prompts with a new end 100% \(0% before\)"),
        (listed.GroupsMixed, r"distinct prompts per sample"),
    ],
    ids=lambda each: each.__name__ if isinstance(each, type) else "",
)
def test_it_says_what_changed_and_when(tmp_path: Path, kind: type[Breakage], words: str, usual: bool) -> None:
    made, _, changes = look(tmp_path / "run", kind, usual=usual or kind is USUAL)
    near = [each for each in changes if abs((each.onset or 0) - made.step_of(made.onset)) <= 2]
    assert any(re.search(words, " ".join([each.sentence, *each.evidence])) for each in near), changes
    assert all(re.match(r"Something changed at step [\d,]+: .+\.$", each.sentence) for each in changes)
    assert all(each.severity != "alarm" for each in changes)


def test_what_has_a_name_leads_and_the_change_is_its_symptom(tmp_path: Path) -> None:
    _, found, changes = look(tmp_path / "run", listed.PartNull)
    assert "something_changed" not in [each.rule for each in found]
    assert changes


def test_a_part_of_the_reward_that_is_switched_on_is_an_info(tmp_path: Path) -> None:
    _, _, changes = look(tmp_path / "run", healthy.PlannedPenalty)
    assert {each.severity for each in changes} <= {"info"}


@both_sizes
@pytest.mark.parametrize("kind", [healthy.Plain, healthy.Agents, healthy.Curriculum, healthy.WarmUp])
def test_a_healthy_run_has_no_such_change(tmp_path: Path, kind: type[Breakage], usual: bool) -> None:
    assert look(tmp_path / "run", kind, usual=usual)[2] == []


@pytest.mark.parametrize("steps", [1, 2])
def test_no_rule_fails_on_single_samples(tmp_path: Path, steps: int) -> None:
    lines = [{"step": step, "prompt": "a", "response": "b", "reward": 1.0} for step in range(steps)]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (tmp_path / "rollouts.jsonl").write_text(text, encoding="utf-8")
    assert [each.sentence for each in check_folder(tmp_path) if each.rule == FAILED] == []
