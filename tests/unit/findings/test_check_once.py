"""Two pages of a run ask for its findings at once: its rows are checked once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rlpanel
from rlpanel.findings.check import cached_findings
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RULES, Rule, RuleContext
from rlpanel.settings import FindingSettings
from tests.factories import write_run


def test_a_page_waits_for_the_check_of_another_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = rlpanel.open_run(write_run(tmp_path / "run", steps=6, tokens=False), follow=False).index
    checked, again = list[int](), threading.Event()

    def ask() -> list[Finding]:
        return cached_findings(index, FindingSettings(), time.time())

    def counts(context: RuleContext) -> Iterator[Finding]:
        checked.append(len(context.steps))
        if len(checked) == 1:
            pages.submit(ask).add_done_callback(lambda _: again.set())
            again.wait(1)  # the other page, which must not be through before this one is
        yield Finding(severity="info", sentence="It counts.", rule="counts", title="Counts")

    monkeypatch.setitem(RULES, "counts", Rule("counts", "Counts", counts, (), "", clock=False))
    with ThreadPoolExecutor(1) as pages:
        found = ask()
    assert again.is_set()
    assert len(checked) == 1
    assert any(finding.rule == "counts" for finding in found)
