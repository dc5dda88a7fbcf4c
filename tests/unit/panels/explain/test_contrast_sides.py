"""Ranges of steps as a user writes them, and those of a finding."""

from __future__ import annotations

from pathlib import Path

import pytest

import rlpanel
from rlpanel.errors import SettingError
from rlpanel.panels.explain.contrast_sides import parse_range, ranges_of
from rlpanel.panels.session.context_parts import MarkedSteps
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import write_run


@pytest.mark.parametrize(
    ("text", "bounds"), [("7", (7, 7)), (" 3 – 9 ", (3, 9)), ("9-3", (3, 9)), ("1:4", (1, 4))]
)
def test_a_range_is_read(text: str, bounds: tuple[int, int]) -> None:
    assert parse_range(text) == bounds


@pytest.mark.parametrize("text", ["", "a", "1-", "1-2-3", "-5"])
def test_what_is_no_range_gets_a_message(text: str) -> None:
    with pytest.raises(SettingError, match="not a range of steps"):
        parse_range(text)


@pytest.mark.parametrize(
    ("affected", "ranges"),
    [
        ((4, 5), ((4, 5), (2, 3))),
        ((2, 3, 4), ((2, 2), (1, 1))),
        ((1, 2), None),  # no step before
        ((8, 9), None),  # those of a run with more steps, while this one is being opened
        ((), None),
    ],
)
def test_a_finding_is_compared_with_the_steps_before(
    tmp_path: Path, affected: tuple[int, ...], ranges: tuple[tuple[int, int], tuple[int, int]] | None
) -> None:
    run = rlpanel.open_run(write_run(tmp_path / "run", steps=5, tokens=False), follow=False)
    assert ranges_of(MarkedSteps(affected, "alarm"), run.snapshot) == ranges


def test_a_run_that_was_not_read_yet_has_no_steps_to_compare() -> None:
    assert ranges_of(MarkedSteps((4, 5), "alarm"), Snapshot("")) is None
