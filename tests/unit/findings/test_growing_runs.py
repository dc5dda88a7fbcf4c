"""A run that grows from its first step is checked after each step, and no rule fails."""

from __future__ import annotations

from pathlib import Path

import rlpanel
from rlpanel.findings.check import CheckResult, check
from rlpanel.settings import FindingSettings
from tests.factories import write_run


def test_no_rule_fails_while_a_run_is_young(tmp_path: Path) -> None:
    previous: CheckResult | None = None
    failed = []
    for steps in (1, 2, 3, 4, 5, 6, 8, 10):
        write_run(tmp_path / "run", steps=steps)
        with rlpanel.open_run(tmp_path / "run", follow=False) as run:
            previous = check(run.view, FindingSettings(), run.snapshot.newest_line + 60, previous)
        failed += [(steps, found.sentence) for found in previous.findings if found.rule == "rule_failed"]
    assert failed == []
