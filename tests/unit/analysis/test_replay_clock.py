"""The clock of a replay: shortened pauses, times that go back or are missing, and no times at all."""

from __future__ import annotations

import random

import numpy as np
import pytest

from rlpanel.analysis.replay_clock import MAX_PAUSE, replay_clock


def test_pauses_are_shortened_and_their_rest_is_counted() -> None:
    clock = replay_clock([100.0, 102.0, 202.0, 203.0])
    assert clock.is_timed
    assert clock.start == 100.0
    np.testing.assert_allclose(clock.recorded, [0, 2, 102, 103])
    np.testing.assert_allclose(clock.shown, [0, 2, 2 + MAX_PAUSE, 3 + MAX_PAUSE])
    assert (clock.pauses, clock.left_out) == (1, 100 - MAX_PAUSE)


def test_times_that_go_back_and_missing_ones_stay_at_the_time_before() -> None:
    clock = replay_clock([None, 10.0, 12.0, 11.0, None, 13.0])
    np.testing.assert_allclose(clock.recorded, [0, 0, 2, 2, 2, 3])
    assert (clock.missing, clock.backwards) == (2, 1)


@pytest.mark.parametrize(
    "moments", [[], [5.0], [None, None, None], [7.0, 7.0, 7.0], [5.0, 4.0, 3.0, 2.0], [float("nan"), 1.0]]
)
def test_without_times_in_order_events_have_equal_distances(moments: list[float | None]) -> None:
    clock = replay_clock(moments)
    assert not clock.is_timed
    assert clock.start is None
    np.testing.assert_allclose(clock.shown, np.arange(len(moments)))


def test_any_times_give_an_ascending_clock_that_a_loop_gives_too() -> None:
    chance = random.Random(7)
    for _ in range(200):
        moments = [
            None if chance.random() < 0.2 else chance.choice((1.0, 30.0)) * chance.random() + 2 * at
            for at in range(12)
        ]
        clock = replay_clock(moments)
        if not clock.is_timed:
            continue
        first = next(moment for moment in moments if moment is not None)
        latest, shown, before = first, 0.0, first
        for at, moment in enumerate(moments):
            latest = max(latest, first if moment is None else moment)
            shown += min(latest - before, MAX_PAUSE)
            before = latest
            assert clock.recorded[at] == pytest.approx(latest - first)
            assert clock.shown[at] == pytest.approx(shown)
