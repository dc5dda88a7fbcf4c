"""The table of runs: the worst finding first, chips, filters and folders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlpanel.board_url import RUN_CHIPS
from rlpanel.panels.runs.run_order import CHIPS, Choice, arrange, chip_counts
from rlpanel.panels.runs.run_rows import RunRow, run_row, state_at
from rlpanel.sources.discovery.directory import RunInfo
from rlpanel.store.index.run_folder import MAX_SETTINGS
from rlpanel.store.index.run_summary import RunSummary

FINE = RunSummary(samples=8, step=10, reward=0.5, bytes=9, severity="", checked_bytes=9, first=1)
ALARM = replace(FINE, severity="alarm", finding="reward is 0", alarms=1, onset=4, reward=0.0)
WARNING = replace(FINE, severity="warning", finding="it grows", warnings=2, onset=6)
KNOWN = {
    "math/lr3e-6-seed2": ALARM,
    "math/lr1e-6-seed0": FINE,
    "math/lr1e-6-seed1": replace(FINE, reward=0.7),
    "math/lr1e-6-seed10": FINE,
    "math/lr1e-6-seed3": FINE,
    "code/seed1": WARNING,
    "code/seed2": RunSummary(),
    "code/seed3": RunSummary(unchecked="the last line is incomplete", unreadable=True, checked_bytes=9),
}


def row(
    label: str, summary: RunSummary, modified: float = 50.0, now: float = 1e6, problem: str = ""
) -> RunRow:
    info = RunInfo(label, Path("/root") / label, 1, 9, modified)
    return run_row(info, summary, label, label, problem, state_at(info, summary, now))


ROWS = [row(label, summary, 50.0 - at) for at, (label, summary) in enumerate(KNOWN.items())]


def names(choice: Choice) -> list[Any]:
    return [line for line in arrange(ROWS, choice).lines if isinstance(line, str)]


def test_the_worst_finding_is_the_first() -> None:
    assert names(Choice(folders=False)) == [
        *("math/lr3e-6-seed2", "code/seed3", "code/seed1", "code/seed2"),
        *("math/lr1e-6-seed0", "math/lr1e-6-seed1", "math/lr1e-6-seed10", "math/lr1e-6-seed3"),
    ]


def test_folders_stand_in_the_order_of_their_worst_run_and_fold_many_fine_ones() -> None:
    lines = arrange(ROWS, Choice()).lines
    head, broken, rest, other, *inside = lines
    assert isinstance(head, dict)
    assert (head["folder"], head["runs"], head["alarm"], head["fine"]) == ("math", 5, 1, 4)
    assert (head["mean"], broken) == ("0.44", "math/lr3e-6-seed2")
    assert rest == {"rest": "math", "open": False, "fine": 4, "unchecked": 0}
    assert isinstance(other, dict)
    assert other["folder"] == "code"
    assert inside == ["code/seed3", "code/seed1", "code/seed2"]
    assert len(names(Choice(toggled=frozenset({"+math"})))) == 8
    assert names(Choice(toggled=frozenset({"math"}))) == inside


def test_values_that_are_not_known_come_last_in_either_direction() -> None:
    assert names(Choice(sort="reward", falls=True))[0] == "math/lr1e-6-seed1"
    assert names(Choice(sort="reward"))[0] == "math/lr3e-6-seed2"
    for falls in (False, True):
        assert names(Choice(sort="reward", falls=falls))[-2:] == ["code/seed2", "code/seed3"]
    assert names(Choice(sort="lr", falls=True))[0] == "math/lr3e-6-seed2"


def test_numbers_in_names_are_in_their_order() -> None:
    sorted_names = names(Choice(sort="run", folders=False))
    assert sorted_names.index("math/lr1e-6-seed3") < sorted_names.index("math/lr1e-6-seed10")


@pytest.mark.parametrize(
    ("chips", "count"),
    [({"with"}, 2), ({"with", "unread"}, 3), ({"without"}, 4), ({"unchecked"}, 1), ({"with", "live"}, 0)],
)
def test_chips_of_one_kind_widen_and_those_of_two_narrow(chips: set[str], count: int) -> None:
    assert arrange(ROWS, Choice(chips=frozenset(chips))).shown == count


def test_chips_count_all_runs() -> None:
    counts = chip_counts(ROWS)
    assert [counts[chip] for chip in ("with", "without", "unchecked", "unread", "finished")] == [
        2,
        4,
        1,
        1,
        8,
    ]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("math seed1", 2),
        ("SEED3", 2),
        ("lr > 1e-6", 1),
        ("lr >= 1e-6 and reward > 0.6", 1),
        ('finding contains "grows"', 1),
        ('state == "finished" and missing(reward)', 2),
        ("nothing", 0),
    ],
)
def test_a_filter_is_words_or_an_expression(text: str, count: int) -> None:
    arranged = arrange(ROWS, Choice(text=text))
    assert (arranged.shown, arranged.error) == (count, "")


def test_a_wrong_filter_says_so_and_shows_all() -> None:
    arranged = arrange(ROWS, Choice(text="rewad > 1"))
    assert arranged.shown == len(ROWS)
    assert "did you mean reward" in arranged.error


def test_a_run_far_from_its_planned_end_has_stopped_early() -> None:
    planned = replace(FINE, config={"max_steps": 100.0})
    assert row("a", planned).state == "stopped early"
    assert row("a", replace(planned, step=99)).state == "finished"
    assert row("a", planned, modified=999_990.0).state == "live"
    assert row("a", planned, modified=999_000.0).state == "quiet"


def test_a_row_says_what_is_known() -> None:
    cells = row("a", replace(ALARM, error=0.02, length=1204.0, trend=(0.1, 0.5), warnings=3)).cells
    assert (cells["reward"], cells["error"], cells["length"], cells["onset"]) == ("0", "0.02", "1,204", "4")
    assert (cells["said"], cells["others"], cells["from"]) == ("reward is 0", "and 3 more", 33)
    assert row("a", RunSummary()).cells["said"] == "not checked yet"
    assert "too long" in row("a", RunSummary(unchecked="too long")).cells["said"]
    assert row("a", FINE, problem="no rights").cells["said"] == "cannot be read: no rights"
    assert "reward" not in row("a", replace(FINE, bytes=99)).numbers  # its files were replaced


def test_the_address_knows_all_chips() -> None:
    assert list(CHIPS) == list(RUN_CHIPS)


def test_a_run_with_as_many_settings_as_are_kept_is_marked() -> None:
    settings = {f"setting{number}": float(number) for number in range(MAX_SETTINGS)}
    assert row("many", replace(FINE, config=settings)).full
    assert not row("few", replace(FINE, config=dict([*settings.items()][1:]))).full
