"""Findings saved beside a run's columns: read for an unchanged run, computed again after any change."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import xxhash

from rlpanel.findings import saved_findings
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RULES, Rule
from rlpanel.findings.engine.rule_context import RuleContext
from rlpanel.findings.findings_cache import cached_findings
from rlpanel.findings.saved_findings import FILE, MOST_BYTES
from rlpanel.settings import FindingSettings, Reading
from rlpanel.store.index.run_index import RunIndex
from tests.factories import write_run
from tests.limits import SAVED

THRESHOLDS = FindingSettings()
SYMPTOM = Finding(severity="info", sentence="It is slow.", worst=3, rank=0)


class Checks:
    """A rule that counts how often it was called, and finds something with all kinds of values."""

    def __init__(self) -> None:
        self.calls = 0
        self.fails = False

    def __call__(self, context: RuleContext) -> Iterator[Finding]:
        self.calls += 1
        if self.fails:
            raise ValueError("a broken rule")
        steps = tuple(context.steps[:3])
        yield Finding(
            severity="alarm",
            sentence="Half \ud83d and 月",
            evidence=("a", "b"),
            steps=steps,
            ongoing=True,
            symptoms=(SYMPTOM,),
        )


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Checks:
    """Save the columns of small runs, and count the checks."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    counted = Checks()
    monkeypatch.setattr(Checks, "__module__", __name__)
    monkeypatch.setitem(RULES, "counted", Rule("counted", "Counted", counted, (), ""))
    write_run(tmp_path / "run", steps=range(1, 20), truncated=0, tokens=False)
    write_run(tmp_path / "run", steps=range(20, 31), truncated=1, tokens=False)
    return counted


def findings_of(
    folder: Path, thresholds: FindingSettings = THRESHOLDS, reading: Reading | None = None, **how: bool
) -> list[Finding]:
    """Return the findings as a command in a new process does: the run is read once."""
    index = RunIndex(folder / "run", "run", reading, limits=SAVED)
    index.rescan()
    while index.read():
        pass
    if not how.get("follow"):
        index.save(last=True)
    return cached_findings(index, thresholds, time.time() + 60)


def test_an_unchanged_run_is_not_checked_again(checks: Checks, tmp_path: Path) -> None:
    first = findings_of(tmp_path)
    assert len(first) > 1
    assert findings_of(tmp_path) == first
    assert checks.calls == 1


def test_a_run_that_is_followed_is_checked(checks: Checks, tmp_path: Path) -> None:
    findings_of(tmp_path)
    findings_of(tmp_path, follow=True)
    assert checks.calls == 2


def add_a_line(folder: Path, _: pytest.MonkeyPatch) -> None:
    write_run(folder / "run", steps=range(31, 32), truncated=0, tokens=False)


def change_a_line(folder: Path, _: pytest.MonkeyPatch) -> None:
    (log,) = (folder / "run").glob("*.jsonl")
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2].rpartition(b"\n")[0] + b"\n")


def change_values(folder: Path, _: pytest.MonkeyPatch) -> None:
    """Replace the log by one with other rewards, of the same size and time."""
    (log,) = (folder / "run").glob("*.jsonl")
    status, lines = log.stat(), [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        line["reward"] = 1.0 - line["reward"]
    log.rename(folder / "old")
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    os.utime(log, ns=(status.st_atime_ns, status.st_mtime_ns))


def name_constants(folder: Path, _: pytest.MonkeyPatch) -> None:
    (folder / "run" / "run.json").write_text(json.dumps({"max_lag": 3}))


def log_scalars(folder: Path, _: pytest.MonkeyPatch) -> None:
    (folder / "run" / "scalars.jsonl").write_text('{"step": 1, "loss": 0.5}\n')


def change_version(_: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(saved_findings, "__version__", "9.9.9")


def remove_a_rule(_: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(saved_findings, "_code", lambda: "other code")


def set_a_constant(_: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("RLPANEL_PASS_REWARD", "0.5")


@pytest.mark.parametrize(
    "change",
    [
        *(add_a_line, change_a_line, change_values, name_constants, log_scalars),
        *(change_version, remove_a_rule, set_a_constant),
    ],
)
def test_any_change_leads_to_a_check(
    checks: Checks,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path, pytest.MonkeyPatch], None],
) -> None:
    findings_of(tmp_path)
    change(tmp_path, monkeypatch)
    findings_of(tmp_path)
    assert checks.calls == 2


@pytest.mark.parametrize("name", sorted(set(FindingSettings.param) - {"name"}))
def test_another_threshold_leads_to_a_check(checks: Checks, tmp_path: Path, name: str) -> None:
    findings_of(tmp_path)
    other = FindingSettings(**{name: (getattr(THRESHOLDS, name) or 0) * 0.99 + 0.01})
    findings_of(tmp_path, other)
    assert checks.calls == 2
    findings_of(tmp_path)
    findings_of(tmp_path, other)
    assert checks.calls == 2


def test_another_setting_of_the_reader_leads_to_a_check(checks: Checks, tmp_path: Path) -> None:
    findings_of(tmp_path)
    findings_of(tmp_path, reading=Reading(line_bytes=1 << 20))
    assert checks.calls == 2


def test_only_the_newest_checks_are_kept(checks: Checks, tmp_path: Path) -> None:
    for z in (5.0, 6.0, 7.0, 8.0, 9.0):
        findings_of(tmp_path, FindingSettings(change_z=z))
    findings_of(tmp_path, FindingSettings(change_z=9.0))
    assert checks.calls == 5
    findings_of(tmp_path, FindingSettings(change_z=5.0))
    assert checks.calls == 6


def test_findings_are_not_saved_if_a_rule_failed(checks: Checks, tmp_path: Path) -> None:
    checks.fails = True
    findings_of(tmp_path)
    checks.fails = False
    assert any(finding.sentence == "It is slow." for f in findings_of(tmp_path) for finding in f.symptoms)
    assert checks.calls == 2


def test_without_saved_columns_nothing_is_saved(checks: Checks, tmp_path: Path) -> None:
    for _ in range(2):
        findings_of(tmp_path, reading=Reading(cache=False))
    assert checks.calls == 2
    assert not (tmp_path / "run" / ".rlpanel").exists()


def with_digest(body: str) -> str:
    return f"{xxhash.xxh3_64_hexdigest(body.encode())}\n{body}"


def swapped(old: str, new: str) -> Callable[[str], str]:
    def damage(text: str) -> str:
        body = text.partition("\n")[2]
        assert old in body
        return with_digest(body.replace(old, new))

    return damage


DAMAGE: dict[str, Callable[[str], str]] = {
    "empty": lambda text: "",
    "cut": lambda text: text[:-9],
    "other bytes": lambda text: text.replace("alarm", "aware"),
    "too long": lambda text: "x" * (MOST_BYTES + 1),
    "no object": lambda text: with_digest("[]"),
    "too deep": lambda text: with_digest('{"a":' * 5000),
    "severity": swapped('"alarm"', '"red"'),
    "boolean": swapped('"ongoing": true', '"ongoing": 1'),
    "integer": swapped('"worst": 3', '"worst": true'),
    "huge": swapped('"worst": 3', f'"worst": {10**30}'),
    "not a number": swapped('"worst": 3', '"worst": NaN'),
    "text for a list": swapped('"evidence": ["a", "b"]', '"evidence": "ab"'),
    "list for a text": swapped('"evidence": ["a", "b"]', '"evidence": [["a"]]'),
    "symptom": swapped('"symptoms": [{', '"symptoms": [3, {'),
    "more fields": swapped('"uid": ""', '"uid": "", "other": 1'),
    "fewer fields": swapped('"uid": "", ', ""),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_leads_to_a_check(
    checks: Checks, tmp_path: Path, damage: Callable[[str], str]
) -> None:
    first = findings_of(tmp_path)
    saved = tmp_path / "run" / ".rlpanel" / FILE
    saved.write_text(damage(saved.read_text()))
    assert findings_of(tmp_path) == first
    assert checks.calls == 2
    findings_of(tmp_path)
    assert checks.calls == 2 + (saved.stat().st_size > MOST_BYTES)


def test_a_link_in_place_of_the_file_is_not_read(checks: Checks, tmp_path: Path) -> None:
    findings_of(tmp_path)
    saved = tmp_path / "run" / ".rlpanel" / FILE
    saved.rename(tmp_path / "elsewhere")
    before = (tmp_path / "elsewhere").read_bytes()
    saved.symlink_to(tmp_path / "elsewhere")
    findings_of(tmp_path)
    assert checks.calls == 2
    assert (tmp_path / "elsewhere").read_bytes() == before
