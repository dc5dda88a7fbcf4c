"""The intervals between two scans of the folders."""

from __future__ import annotations

import pytest

from rlpanel.store.index.folder_watches import IntervalTimer, RescanTimer


def test_one_slow_look_does_not_delay_the_next() -> None:
    looks = RescanTimer()
    looks.record(8.0)  # the first one, which imports pyarrow
    assert (looks.interval, looks.interval_moved) == (0.0, 0.0)
    looks.record(0.003)
    looks.record(8.0)
    assert looks.interval == pytest.approx(0.06)
    assert looks.interval_moved == pytest.approx(0.01)


def test_looks_that_stay_slow_take_a_twentieth_of_the_time_and_a_third_while_files_come() -> None:
    looks = RescanTimer()
    looks.record(3.0)
    looks.record(6.0)
    assert looks.interval == pytest.approx(60.0)
    assert looks.interval_moved == pytest.approx(10.0)


def test_a_clock_says_an_interval_once() -> None:
    clock = IntervalTimer()
    assert clock(1000.0)
    assert not clock(1000.0)
    assert clock(0.0)
