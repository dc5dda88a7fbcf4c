"""The worst finding of each checked run is part of its summary, which is saved beside its columns."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from rlpanel.findings.check import cached_findings, worst_finding
from rlpanel.findings.engine.finding import Finding
from rlpanel.settings import FindingSettings, Reading
from rlpanel.store.cache.run_cache import read_saved_text
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.index.run_summary import FILE
from rlpanel.store.index.summary_store import SummaryStore
from tests.factories import write_run
from tests.limits import SAVED

ALARM = Finding(severity="alarm", sentence="It broke.")
WARNING = Finding(severity="warning", sentence="It may break.")
OLD = Finding(severity="info", sentence="It broke long ago.")


def opened(folder: Path) -> RunIndex:
    """Read a run whose responses are truncated from step 20 on, which is an alarm."""
    if not folder.exists():
        write_run(folder, steps=range(1, 20), truncated=0, tokens=False)
        write_run(folder, steps=range(20, 31), truncated=1, tokens=False)
    index = RunIndex(folder, "run", limits=SAVED)
    index.rescan()
    while index.read():
        pass
    return index


def check(index: RunIndex) -> None:
    cached_findings(index, FindingSettings(), time.time())


@pytest.mark.parametrize(
    ("findings", "worst"),
    [([], None), ([OLD], None), ([OLD, WARNING], WARNING), ([WARNING, ALARM, OLD], ALARM)],
)
def test_the_worst_finding_is_no_history(findings: list[Finding], worst: Finding | None) -> None:
    assert worst_finding(findings) == worst


def test_the_summary_of_a_checked_run_has_its_worst_finding(tmp_path: Path) -> None:
    index = opened(tmp_path / "run")
    assert index.summaries.of(index.path).severity is None
    check(index)
    summary = index.summaries.of(index.path)
    assert (summary.severity, summary.checked) == ("alarm", 30)
    assert summary.finding.startswith("From step 20 on")


def test_a_run_that_is_fine_has_no_severity(tmp_path: Path) -> None:
    index = opened(write_run(tmp_path / "run", steps=range(1, 20), truncated=0, tokens=False))
    check(index)
    assert (index.summaries.of(index.path).severity, index.summaries.of(index.path).checked) == ("", 19)


def test_the_finding_of_a_run_whose_columns_are_saved_survives_a_restart(tmp_path: Path) -> None:
    index = opened(tmp_path / "run")
    index.save(last=True)
    check(index)
    restarted = SummaryStore()
    assert list(restarted.read_saved([index.path])) == [1]
    assert restarted.of(index.path) == index.summaries.of(index.path)


def test_nothing_is_written_into_a_run_whose_columns_are_not_saved(tmp_path: Path) -> None:
    index = opened(tmp_path / "run")
    check(index)
    assert [path.name for path in index.path.iterdir()] == ["rollout_data_rank_0.jsonl"]


def test_no_finding_is_saved_if_the_index_on_disk_is_turned_off(tmp_path: Path) -> None:
    opened(tmp_path / "run").save(last=True)
    saved = (tmp_path / "run" / ".rlpanel" / FILE).read_bytes()
    index = RunIndex(tmp_path / "run", "run", Reading(cache=False))
    index.rescan()
    while index.read():
        pass
    check(index)
    assert index.summaries.of(index.path).severity is not None
    assert (index.path / ".rlpanel" / FILE).read_bytes() == saved


def test_a_finding_is_saved_again_if_its_severity_changes_or_after_a_minute(tmp_path: Path) -> None:
    index = opened(tmp_path / "run")
    index.save(last=True)

    def saved_after(findings: list[Finding], now: float) -> str:
        worst = worst_finding(findings)
        assert worst is not None
        index.summaries.note_finding(index.path, worst.severity, worst.sentence, 30, now, save=True)
        return str(json.loads(read_saved_text(index.path, FILE))["finding"])

    assert saved_after([WARNING], 1000.0) == "It may break."
    other = Finding(severity="warning", sentence="It does break.")
    assert saved_after([other], 1001.0) == "It may break."
    assert saved_after([ALARM], 1002.0) == "It broke."
    still = Finding(severity="alarm", sentence="It is broken.")
    assert saved_after([still], 1003.0) == "It broke."
    assert saved_after([still], 1063.0) == "It is broken."


def test_a_command_that_checks_right_after_saving_saves_the_new_finding(tmp_path: Path) -> None:
    index = opened(tmp_path / "run")
    index.save(last=True)
    index.summaries.note_finding(index.path, "alarm", "It broke.", 30, 1000.0, save=True)
    index = opened(tmp_path / "run")
    index.summaries.save(index.path)
    index.summaries.note_finding(index.path, "alarm", "It is broken.", 30, 1001.0, save=True)
    assert json.loads(read_saved_text(index.path, FILE))["finding"] == "It is broken."
