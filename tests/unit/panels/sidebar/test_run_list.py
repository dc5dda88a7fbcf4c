"""The list of runs: what an entry says, what is sent, and messages of the browser."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlpanel.panels.session.context import Context, Selection
from rlpanel.panels.session.context_parts import MAX_OVERLAY_RUNS
from rlpanel.panels.sidebar import run_list
from rlpanel.panels.sidebar.run_list import RunList, entry_of
from rlpanel.sources.discovery.directory import RunInfo
from rlpanel.store.index.run_summary import RunSummary
from tests.page_parts import send

READ = RunSummary(
    samples=1234, step=30, reward=0.5, trend=(1.0, 2.0, 3.0), complete=True, bytes=100, newest_line=50.0
)
MANY = 200
SENT = ("runs", "changes", "value", "over", "now")


def info(name: str, **values: Any) -> RunInfo:
    return replace(RunInfo(name, Path("/root") / name, files=1, bytes=100, modified=50.0), **values)


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_list, "UPDATE_EVERY", 0.0)


@pytest.fixture
def runs() -> RunList:
    infos = [info(f"exp/run-{number}") for number in range(MANY)]
    return RunList(Context(runs=infos, selection=Selection(run="exp/run-0")))


def know(runs: RunList, name: str, summary: RunSummary) -> None:
    runs.context.summaries.note(Path("/root") / name, summary)


def test_a_run_that_was_never_read_has_name_and_age_only() -> None:
    assert entry_of("a", info("a"), RunSummary()) == {"name": "a", "label": "a", "time": 50.0}


def test_an_entry_of_a_run_that_was_never_read_has_step_and_reward_of_its_last_lines() -> None:
    entry = entry_of("a", info("a"), RunSummary(step=12, reward=1.5))
    assert entry == {"name": "a", "label": "a", "time": 50.0, "step": 12, "tail": True, "reward": "1.5"}
    assert "reward" not in entry_of("a", info("a"), RunSummary(step=12))


def test_an_entry_says_what_is_known() -> None:
    assert entry_of("a", info("a"), replace(READ, severity="alarm", finding="It broke.", checked=29)) == {
        "name": "a",
        "label": "a",
        "time": 50.0,
        "samples": 1234,
        "more": False,
        "step": 30,
        "reward": "0.5",
        "trend": [0, 50, 100],
        "severity": "alarm",
        "finding": "It broke.",
        "checked": 29,
    }


def test_a_run_that_cannot_be_read_says_so_while_that_lasts(runs: RunList) -> None:
    runs.context.failing = {info("exp/run-1").path: "not enough memory"}
    entry = runs.changes[0]
    assert (entry["name"], entry["problem"]) == ("exp/run-1", "not enough memory")
    runs.context.failing = {}
    assert not runs.changes


def test_a_run_without_rewards_has_none_in_its_entry() -> None:
    entry = entry_of("a", info("a"), replace(READ, reward=None, trend=()))
    assert not {"reward", "trend", "severity"} & set(entry)


@pytest.mark.parametrize(
    ("files", "summary"),
    [
        (info("a", modified=90.0, bytes=200), READ),
        (info("a"), replace(READ, complete=False)),
    ],
)
def test_a_count_that_may_be_too_small_is_a_lower_bound(files: RunInfo, summary: RunSummary) -> None:
    assert entry_of("a", files, summary)["more"] is True


def test_counts_of_files_that_were_replaced_by_smaller_ones_are_not_shown() -> None:
    assert "samples" not in entry_of("a", info("a", bytes=99), READ)


def test_a_line_that_was_read_since_the_last_scan_counts_for_the_age() -> None:
    assert entry_of("a", info("a"), replace(READ, newest_line=70.0))["time"] == 70.0


def test_a_flat_trend_is_in_the_middle() -> None:
    assert entry_of("a", info("a"), replace(READ, trend=(2.0, 2.0)))["trend"] == [50, 50]


def test_only_entries_that_changed_are_sent(runs: RunList) -> None:
    sent = runs.runs
    know(runs, "exp/run-7", READ)
    runs.context.now = 1.0
    assert runs.runs is sent
    assert [entry["name"] for entry in runs.changes] == ["exp/run-7"]
    assert runs.changes[0]["samples"] == 1234
    for number in range(MANY):
        know(runs, f"exp/run-{number}", READ)
    runs.context.now = 2.0
    assert runs.changes == []
    assert all(entry["samples"] == 1234 for entry in runs.runs)


def test_nothing_is_sent_while_only_time_passes(runs: RunList) -> None:
    events: list[Any] = []
    runs.param.watch(events.append, list(SENT))
    runs.context.now = 1.0
    runs.context.infos = {each.name: each for each in runs.context.runs}
    runs.context.now = 2.0
    assert events == []


def test_a_newer_file_is_told_without_a_change_of_the_order(runs: RunList) -> None:
    runs.context.infos = {"exp/run-3": info("exp/run-3", modified=80.0)}
    runs.context.now = 1.0
    assert runs.changes == [{"name": "exp/run-3", "label": "exp/run-3", "time": 80.0}]


def test_updates_are_throttled(runs: RunList, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_list, "UPDATE_EVERY", 1000.0)
    know(runs, "exp/run-7", READ)
    runs.context.now = 1.0
    assert runs.changes == []
    runs.context.selection.run = "exp/run-1"  # a choice is shown at once
    assert runs.value == "exp/run-1"


def test_the_selected_run_is_listed_before_it_is_found() -> None:
    runs = RunList(Context(selection=Selection(run="soon")))
    assert runs.runs == [{"name": "soon", "label": "soon"}]


def test_a_click_opens_a_run(runs: RunList) -> None:
    selection = runs.context.selection
    selection.param.update(step=3, uid="x:1", follow=False)
    send(runs, {"open": "exp/run-5"})
    assert (selection.run, selection.step, selection.uid, selection.follow) == ("exp/run-5", None, "", True)


def test_ticks_are_the_overlay_runs(runs: RunList) -> None:
    selection = runs.context.selection
    send(runs, {"compare": "exp/run-5", "on": True})
    send(runs, {"compare": "exp/run-6", "on": True})
    assert selection.overlay_runs == runs.over == ["exp/run-5", "exp/run-6"]
    send(runs, {"compare": "exp/run-5", "on": False})
    assert selection.overlay_runs == ["exp/run-6"]
    send(runs, {"clear": True})
    assert selection.overlay_runs == []


def test_every_tick_is_answered_by_its_number(runs: RunList) -> None:
    send(runs, {"compare": "exp/run-5", "on": True, "tick": 1})
    assert (runs.over, runs.answered) == (["exp/run-5"], 1)
    send(runs, {"compare": "a run that is gone", "on": True, "tick": 2})
    assert (runs.over, runs.answered) == (["exp/run-5"], 2)
    send(runs, {"compare": "exp/run-6", "on": True, "tick": "3"})
    assert runs.answered == 2


def test_a_link_ticks_runs_and_the_open_run_is_never_ticked(runs: RunList) -> None:
    runs.context.selection.overlay_runs = ["exp/run-0", "exp/run-2"]
    assert runs.over == ["exp/run-2"]
    send(runs, {"compare": "exp/run-0", "on": True})
    assert runs.context.selection.overlay_runs == ["exp/run-2"]


def test_more_ticks_than_colours_are_refused(runs: RunList) -> None:
    for number in range(1, MAX_OVERLAY_RUNS + 3):
        send(runs, {"compare": f"exp/run-{number}", "on": True})
    assert runs.context.selection.overlay_runs == [
        f"exp/run-{number}" for number in range(1, MAX_OVERLAY_RUNS + 1)
    ]


@pytest.mark.parametrize(
    "message",
    [
        None,
        "exp/run-5",
        {"open": "../etc"},
        {"open": ["exp/run-5"]},
        {"compare": "other", "on": True},
        {"clear": 1},
    ],
)
def test_unexpected_messages_change_nothing(runs: RunList, message: Any) -> None:
    runs.context.selection.overlay_runs = ["exp/run-2"]
    send(runs, message)
    assert runs.context.selection.run == "exp/run-0"
    assert runs.context.selection.overlay_runs == ["exp/run-2"]
