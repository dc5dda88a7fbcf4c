"""The intervals between two scans of the folders."""

from __future__ import annotations

import pytest

from rlpanel.store.index.rescan_timer import Clock, RescanTimer


def test_one_slow_look_does_not_delay_the_next() -> None:
    looks = RescanTimer()
    looks.took(8.0)  # the first one, which imports pyarrow
    assert (looks.rest, looks.rest_moved) == (0.0, 0.0)
    looks.took(0.003)
    looks.took(8.0)
    assert looks.rest == pytest.approx(0.06)
    assert looks.rest_moved == pytest.approx(0.01)


def test_looks_that_stay_slow_take_a_twentieth_of_the_time_and_a_third_while_files_come() -> None:
    looks = RescanTimer()
    looks.took(3.0)
    looks.took(6.0)
    assert looks.rest == pytest.approx(60.0)
    assert looks.rest_moved == pytest.approx(10.0)


def test_a_clock_says_an_interval_once() -> None:
    clock = Clock()
    assert clock(1000.0)
    assert not clock(1000.0)
    assert clock(0.0)
