"""Marks of runs: the worst finding of each checked run, saved beside its columns."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from rlpanel.findings import run_marks
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.findings_cache import cached_findings
from rlpanel.findings.run_marks import FILE, RunMark, known_mark, mark_of, read_saved_marks
from rlpanel.settings import FindingSettings, Reading
from rlpanel.store.cache.saved_text import read_saved_text, save_text
from rlpanel.store.index.run_index import RunIndex
from tests.factories import write_run
from tests.limits import SAVED

ALARM = Finding(severity="alarm", sentence="It broke.")
WARNING = Finding(severity="warning", sentence="It may break.")
OLD = Finding(severity="info", sentence="It broke long ago.")


@pytest.fixture(autouse=True)
def _new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget all marks, and save the columns of small runs."""
    monkeypatch.setattr(run_marks, "_marks", {})
    monkeypatch.setattr(run_marks, "_saved", {})


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
    ("findings", "mark"),
    [
        ([], RunMark(step=9)),
        ([OLD], RunMark(step=9)),
        ([OLD, WARNING], RunMark("warning", "It may break.", 9)),
        ([WARNING, ALARM, OLD], RunMark("alarm", "It broke.", 9)),
    ],
)
def test_a_mark_is_the_worst_finding_that_is_not_history(findings: list[Finding], mark: RunMark) -> None:
    assert mark_of(findings, 9) == mark


def test_a_checked_run_has_a_mark(tmp_path: Path) -> None:
    index = opened(tmp_path / "run")
    assert known_mark(index.path) is None
    check(index)
    mark = known_mark(index.path)
    assert mark is not None
    assert (mark.severity, mark.step) == ("alarm", 30)
    assert mark.sentence.startswith("From step 20 on")


def test_the_mark_of_a_run_whose_columns_are_saved_survives_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = opened(tmp_path / "run")
    index.save(last=True)
    check(index)
    mark = known_mark(index.path)
    monkeypatch.setattr(run_marks, "_marks", {})
    assert list(read_saved_marks([index.path])) == [1]
    assert known_mark(index.path) == mark


def test_nothing_is_written_into_a_run_whose_columns_are_not_saved(tmp_path: Path) -> None:
    index = opened(tmp_path / "run")
    check(index)
    assert [path.name for path in index.path.iterdir()] == ["rollout_data_rank_0.jsonl"]


def test_no_mark_is_saved_if_the_index_on_disk_is_turned_off(tmp_path: Path) -> None:
    opened(tmp_path / "run").save(last=True)
    index = RunIndex(tmp_path / "run", "run", Reading(cache=False))
    index.rescan()
    while index.read():
        pass
    check(index)
    assert known_mark(index.path) is not None
    assert not (index.path / ".rlpanel" / FILE).exists()


def test_a_mark_is_saved_again_if_its_severity_changes_or_after_a_minute(tmp_path: Path) -> None:
    index = opened(tmp_path / "run")
    index.save(last=True)

    def saved_after(findings: list[Finding], now: float) -> str:
        run_marks.note_findings(index, findings, now)
        return str(json.loads(read_saved_text(index.path, FILE))["sentence"])

    assert saved_after([WARNING], 1000.0) == "It may break."
    other = Finding(severity="warning", sentence="It does break.")
    assert saved_after([other], 1001.0) == "It may break."
    assert saved_after([ALARM], 1002.0) == "It broke."
    still = Finding(severity="alarm", sentence="It is broken.")
    assert saved_after([still], 1003.0) == "It broke."
    assert saved_after([still], 1063.0) == "It is broken."


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "{" * 3000,
        '{"severity": "red", "sentence": "x", "step": 1}',
        '{"severity": "alarm", "sentence": 3, "step": 1}',
        '{"severity": "alarm", "sentence": "x", "step": "1"}',
        "x" * 100_000,
    ],
)
def test_a_file_that_holds_no_mark_is_ignored(tmp_path: Path, text: str) -> None:
    index = opened(tmp_path / "run")
    index.save(last=True)
    save_text(index.path, FILE, text)
    assert list(read_saved_marks([index.path])) == [1]
    assert known_mark(index.path) is None
