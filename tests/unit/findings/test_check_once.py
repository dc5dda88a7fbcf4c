"""A run is checked once for two pages that ask at once, and no further once nobody waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rlpanel
from rlpanel.analysis.step_texts import RunTexts
from rlpanel.findings.check import CheckEnded, cached_findings, check
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RULES, Rule, RuleContext
from rlpanel.settings import FindingSettings
from rlpanel.store.index.run_index import RunIndex
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


def test_a_check_that_nobody_waits_for_ends_before_its_next_rule(tmp_path: Path) -> None:
    index = rlpanel.open_run(write_run(tmp_path / "run", steps=6, tokens=False), follow=False).index
    asked = list[int]()

    def ended() -> bool:
        asked.append(1)
        return len(asked) > 12

    with pytest.raises(CheckEnded):
        cached_findings(index, FindingSettings(), time.time(), ended=ended)
    assert len(asked) == 13
    now = time.time()
    assert cached_findings(index, FindingSettings(), now) == findings(index, now)


def findings(index: RunIndex, now: float) -> list[Finding]:
    return check(index.view, FindingSettings(), now, index=index).findings


def test_reading_texts_that_nobody_waits_for_ends_before_the_next_step(tmp_path: Path) -> None:
    index = rlpanel.open_run(write_run(tmp_path / "run", steps=6, tokens=False), follow=False).index
    texts = RunTexts()
    texts.read(index, index.snapshot, index.snapshot.steps.values, ended=lambda: len(texts.steps) == 2)
    assert sorted(texts.steps) == [1, 2]
    texts.read(index, index.snapshot, index.snapshot.steps.values)
    assert len(texts.steps) == 6
