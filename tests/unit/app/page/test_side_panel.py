"""The side panel as one region: with many runs, a change of one is sent alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlpanel.app.page.page_regions import SidePanel
from rlpanel.panels.session.context import Context, Selection
from rlpanel.panels.sidebar import run_list
from rlpanel.panels.sidebar.run_list import RunList
from rlpanel.panels.sidebar.settings_form import SettingsForm
from rlpanel.sources.discovery.directory import RunInfo
from rlpanel.store.index.run_summary import RunSummary


def test_a_tick_of_a_long_list_sends_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_list, "UPDATE_EVERY", 0.0)
    runs = [RunInfo(f"run-{at}", Path(f"/runs/run-{at}"), files=1, bytes=9, modified=5.0) for at in range(90)]
    context = Context(runs=runs, selection=Selection(run="run-7"))
    panel = SidePanel({"run_list": RunList(context), "settings": SettingsForm(context)})
    assert len(panel.run_list_runs) > 4_000
    sent: list[str] = []
    panel.param.watch(lambda event: sent.append(event.name), list(SidePanel.param))
    context.summaries.note(runs[7].path, RunSummary(samples=4, step=2, reward=0.5, trend=(1.0, 2.0), bytes=9))
    context.now = 1.0
    assert (sent, "run-7" in panel.run_list) == (["run_list"], True)
    assert len(panel.run_list) < 1000


def test_its_script_has_what_all_parts_need_once() -> None:
    assert SidePanel._esm.count("function element(") == 1
