"""Notices what trainers changed: ``make watch``, or ``python -m tests.upstream.watch``.

Of each trainer, the newest release is taken from the package index and its writers are executed. What rlpanel
reads is compared with the last accepted answer, ``tests/data/upstream/golden/PACKAGE.json``. The text for an
issue goes to stdout and to the workflow's summary. It ends with status 1 if something changed or failed.

    --only NAME ...     these packages
    --at NAME==VERSION  this release instead of the newest one
    --accept            keep what is read now as the answer
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.upstream.process import execute
from tests.upstream.releases import NoRelease, install, newest, unpack
from tests.upstream.sources import ROOT
from tests.upstream.summary import summary
from tests.upstream.trainers import TRAINERS, Trainer
from tests.upstream.writers.__main__ import MISSING

GOLDEN = ROOT / "tests" / "data" / "upstream" / "golden"

#: Releases that were looked at, one folder each.
RELEASES = ROOT / os.environ.get("UPSTREAM_RELEASES", ".venv-upstream/releases")


@dataclass
class Report:
    """What the watch found of one trainer: versions, an outcome in a word, and sentences."""

    trainer: Trainer
    tested: str
    newest: str = "?"
    release: str = "?"
    executed: str = "no"
    outcome: str = "same"
    findings: list[str] = field(default_factory=list)
    answer: dict[str, Any] = field(default_factory=dict)

    def found(self, outcome: str, *findings: str) -> None:
        """Add findings; a failure stays one."""
        self.outcome = outcome if self.outcome != "failed" else "failed"
        self.findings += findings


def watch(trainer: Trainer, version: str | None = None) -> Report:
    """Return what the newest release of a trainer, or a version of it, writes and how it is read."""
    golden = accepted(trainer.package)
    report = Report(trainer, golden.get("tested", "never"))
    try:
        report.newest = newest(trainer.package)
        report.release = version or report.newest
        if trainer.writers:
            report.answer = _executed(trainer, report)
        elif report.release != report.tested:
            report.found(
                "changed", "a new version: its files are to be looked at, since no writer is executed"
            )
    except NoRelease as reason:
        report.found("failed", f"no release could be had: {reason}")
    for writer, answer in report.answer.items():
        known = golden.get("writers", {}).get(writer)
        if changes := differences(known, answer) if known else ["was never accepted"]:
            report.found("changed", *(f"`{writer}`: {change}" for change in changes))
    return report


def _executed(trainer: Trainer, report: Report) -> dict[str, Any]:
    """Execute the writers of a release and return what is read; one that is gone is a finding."""
    sources = RELEASES / f"{trainer.package}-{report.release}" / "sources"
    if not sources.exists():
        if trainer.imported:
            install(trainer.package, report.release, sources.parent / "installed")
            sources.mkdir()
        else:
            unpack(trainer.package, report.release, sources)
    answers: dict[str, Any] = {}
    for writer in trainer.writers:
        with tempfile.TemporaryDirectory() as root:
            done = execute(writer, Path(root) / "run", UPSTREAM_SOURCES=str(sources))
            if done.returncode == 0:
                answers[writer] = summary(Path(root) / "run")
            else:
                last = (done.stderr.strip().splitlines() or ["no message"])[-1]
                kind = "moved or is gone" if done.returncode == MISSING else "failed"
                report.found("failed", f"`{writer}` {kind}: {last}")
    report.executed = f"{len(answers)} of {len(trainer.writers)}"
    return answers


def accepted(package: str) -> dict[str, Any]:
    """Return the last accepted answer about a package; empty if there is none."""
    path = GOLDEN / f"{package}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def accept(report: Report) -> None:
    """Keep what is read now as the answer about a package."""
    text = {
        "trainer": report.trainer.name, "tested": report.release, "date": time.strftime("%Y-%m-%d"),
        "newest": report.newest, "writers": report.answer,
    }  # fmt: skip
    GOLDEN.mkdir(parents=True, exist_ok=True)
    path = GOLDEN / f"{report.trainer.package}.json"
    path.write_text(json.dumps(text, indent=1, ensure_ascii=False) + "\n", "utf-8")


def differences(known: dict[str, Any], answer: dict[str, Any]) -> list[str]:
    """Return what differs between two summaries, keys that appear first."""
    appeared = set(answer["keys"]) - set(known["keys"])
    gone = set(known["keys"]) - set(answer["keys"])
    unread = set(answer["not read"])
    found = [f"writes `{key}`, which rlpanel does not read" for key in sorted(appeared & unread)]
    found += [f"writes `{key}`, which is read" for key in sorted(appeared - unread)]
    found += [f"no longer writes `{key}`" for key in sorted(gone)]
    found += [f"`{key}` is no longer read" for key in sorted(unread - appeared - set(known["not read"]))]
    return found + _values(known["runs"], answer["runs"], "")


def _values(known: Any, answer: Any, where: str) -> list[str]:
    if isinstance(known, dict) and isinstance(answer, dict):
        return [
            line
            for key in sorted(known.keys() | answer.keys())
            for line in _values(known.get(key), answer.get(key), f"{where} / {key}" if where else key)
        ]
    return [] if known == answer else [f"{where}: {_short(known)} → {_short(answer)}"]


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}…"


def issue(reports: list[Report]) -> str:
    """Return the text of an issue: a table of all trainers, and what was found of those that changed."""
    head = "| trainer | tested | newest | looked at | writers executed | result |"
    lines = ["# Releases of trainers", "", head, "|---|---|---|---|---|---|"]
    for each in reports:
        cells = (each.trainer.name, each.tested, each.newest, each.release, each.executed, each.outcome)
        lines.append(f"| {' | '.join(cells)} |")
    for each in reports:
        if each.findings:
            lines += ["", f"## {each.trainer.name} {each.release}", ""]
            lines += [f"- {finding}" for finding in each.findings]
    lines += ["", "Look at each change, correct the adapter, then accept the answers: `make watch ACCEPT=1`."]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Watch the trainers that the command line names, by default all."""
    parser = argparse.ArgumentParser(prog="python -m tests.upstream.watch")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="packages, by default all")
    parser.add_argument(
        "--at", nargs="*", default=[], metavar="NAME==VERSION", help="instead of the newest release"
    )
    parser.add_argument("--accept", action="store_true", help="keep what is read now as the answer")
    options = parser.parse_args()
    at = dict(each.split("==") for each in options.at)
    chosen = [each for each in TRAINERS if not options.only or each.package in options.only]
    reports = [watch(each, at.get(each.package)) for each in chosen]
    text = issue(reports)
    print(text)
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)
    if options.accept:
        for report in reports:
            if report.outcome != "failed":
                accept(report)
        return 0
    return int(any(report.outcome != "same" for report in reports))


if __name__ == "__main__":
    sys.exit(main())
