"""Chips above the grid, and what taking one off leaves."""

from __future__ import annotations

from rlpanel.panels.samples.sample_bar import chips_of, without
from rlpanel.panels.session.context import Selection


def narrowed() -> Selection:
    return Selection(
        filter='rank = 1 and (reward > 0 or tag = "a and b")',
        search=" apples ",
        sort="-reward",
        columns={"response": "x: y", "kl": "3"},
    )


def test_each_condition_is_a_chip() -> None:
    assert chips_of(narrowed()) == [
        ["filter:0", "rank = 1"],
        ["filter:1", '(reward > 0 or tag = "a and b")'],
        ["search", "contains “apples”"],
        ["column:response", "response: x: y"],
        ["column:kl", "kl: 3"],
        ["sort", "highest reward first"],
    ]
    assert chips_of(Selection()) == []


def test_each_chip_can_be_taken_off() -> None:
    selection = narrowed()
    while chips := chips_of(selection):
        key, label = chips[0]
        selection.param.update(**without(selection, key))
        assert label not in [each[1] for each in chips_of(selection)]
        assert len(chips_of(selection)) == len(chips) - 1


def test_all_are_taken_off_at_once_and_one_that_is_gone_changes_nothing() -> None:
    selection = narrowed()
    for key in ("filter:7", "filter:x", "column:gone", "else"):
        selection.param.update(**without(selection, key))
    assert len(chips_of(selection)) == 6
    selection.param.update(**without(selection, "all"))
    assert chips_of(selection) == []
