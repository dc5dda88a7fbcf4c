"""A training is stopped by a finding that patience has confirmed, at its step, and by nothing else."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlpanel.checks.halt_watch import HaltWatch, reason_to_halt
from rlpanel.errors import SettingError
from rlpanel.findings.check import CheckResult
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.raised import RaisedFinding, RaisedFindings
from rlpanel.halt_file import Halt, HaltOn
from rlpanel.zstd import zstd

TESTS = Path(__file__).parents[2]
ALARM = Finding(severity="alarm", sentence="It fell.", steps=(3, 4, 5), rule="fell", ongoing=True)
STEPS = np.arange(1, 11)


def grown(rollouts: Path, scalars: Path, folder: Path, every: int = 1, first: int = 0) -> Iterator[int]:
    """Write a recorded run into a folder, some steps at a time, and yield the newest step."""
    by_step: dict[int, tuple[list[str], list[str]]] = {}
    for kind, path in enumerate((rollouts, scalars)):
        opened = lzma.decompress if path.suffix == ".xz" else zstd.decompress
        for line in opened(path.read_bytes()).decode().splitlines(keepends=True):
            by_step.setdefault(json.loads(line)["step"], ([], []))[kind].append(line)
    folder.mkdir()
    steps = sorted(by_step)
    starts = [0, *range(max(first, every), len(steps), every)]
    for begin, end in zip(starts, [*starts[1:], len(steps)], strict=True):
        for kind, name in enumerate(("rollout_data_rank_0.jsonl", "scalars.jsonl")):
            with (folder / name).open("a") as file:
                file.writelines(line for step in steps[begin:end] for line in by_step[step][kind])
        yield steps[end - 1]


def first_halt(
    run: str, folder: Path, asked: HaltOn, every: int = 1, first: int = 0
) -> tuple[int, Halt] | None:
    data = TESTS / "data" / "faults" / run
    rollouts, scalars = data / "rollout_data_rank_0.jsonl.xz", data / "scalars.jsonl.xz"
    if not data.exists():
        data = TESTS.parent / "rlpanel" / "data"
        rollouts, scalars = data / f"{run}.jsonl.zst", data / f"{run}.scalars.jsonl.zst"
    steps = grown(rollouts, scalars, folder, every, first)
    next(steps)
    watch = HaltWatch(folder, asked)
    try:
        assert watch.look() is None
        for step in steps:
            if (halt := watch.look()) is not None:
                return step, halt
    finally:
        watch.close()
    return None


@pytest.mark.parametrize("run", ["healthy", "other_seed", "ppo_couplets"])
def test_a_healthy_training_is_never_stopped(run: str, tmp_path: Path) -> None:
    """A warning stops it as well, so that neither kind was found."""
    assert first_halt(run, tmp_path / "run", HaltOn("warning"), every=4) is None


@pytest.mark.parametrize(("fault", "rule"), [("cached_tool", "tool_results"), ("null_part", "missing_parts")])
def test_a_broken_training_is_stopped_two_steps_after_the_fault(
    fault: str, rule: str, tmp_path: Path
) -> None:
    found = first_halt(fault, tmp_path / "run", HaltOn("alarm"), first=20)
    assert found is not None
    step, halt = found
    assert (step, halt.onset, halt.step, halt.rule, halt.severity) == (27, 25, 27, rule, "alarm")
    assert halt.reason.startswith(f"alarm {rule}: From step 25 on, 100% of the")


def test_only_the_rules_that_are_asked_for_stop_a_training(tmp_path: Path) -> None:
    asked = HaltOn("alarm", ("tool_results",))
    assert first_halt("null_part", tmp_path / "run", asked, first=24) is None


def test_an_unknown_rule_is_refused_with_similar_names(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"no rule 'tool_result'.*tool_results"):
        HaltWatch(tmp_path, HaltOn("alarm", ("tool_result",)))


def result(finding: Finding, raised: RaisedFinding | None) -> CheckResult:
    state = RaisedFindings({raised.finding.key: raised} if raised is not None else {})
    return CheckResult([finding], (1, len(STEPS), 0, False), [finding], raised=state)


def test_an_alarm_stops_a_training_once_two_further_steps_show_it() -> None:
    for since, stops in ((8, True), (9, False), (10, False)):
        raised = RaisedFinding(ALARM, first=3, last=10, alarm=since, confirmed=True, alarm_confirmed=True)
        halt = reason_to_halt(result(ALARM, raised), STEPS, HaltOn())
        assert (halt is not None) == stops


@pytest.mark.parametrize(
    "raised",
    [
        None,  # it depends on the clock, or is about rlpanel itself
        RaisedFinding(ALARM, first=3, last=9, alarm=3, confirmed=True, alarm_confirmed=True),  # held
        RaisedFinding(ALARM, first=3, last=10, alarm=3, confirmed=True, ended=10),
        RaisedFinding(ALARM, first=3, last=10, confirmed=True),  # it is a warning now
        # Its confirmation is that of an earlier time: the newest alarm is one step old.
        RaisedFinding(ALARM, first=3, last=10, alarm=9, confirmed=True, alarm_confirmed=True),
    ],
)
def test_what_patience_would_withdraw_stops_nothing(raised: RaisedFinding | None) -> None:
    assert reason_to_halt(result(ALARM, raised), STEPS, HaltOn()) is None


def test_a_symptom_that_is_asked_for_stops_a_training() -> None:
    symptom = replace(ALARM, rule="looped", sentence="It looped.")
    lead = replace(ALARM, severity="alarm", symptoms=(symptom,))
    raised = RaisedFinding(symptom, first=3, last=10, alarm=3, confirmed=True, alarm_confirmed=True)
    halt = reason_to_halt(result(lead, raised), STEPS, HaltOn("alarm", ("looped",)))
    assert halt is not None
    assert (halt.rule, halt.sentence) == ("looped", "It looped.")
    assert reason_to_halt(result(lead, raised), STEPS, HaltOn("alarm", ("fell",))) is None
