"""The throughput of a backlog, as numbers and as text."""

from __future__ import annotations

import pickle

import pytest

from rlpanel.store.index.snapshot_builder import Throughput
from rlpanel.store.snapshot.snapshot import describe


def noted(pace: Throughput, now: float, done: int) -> float:
    """The rate after another measurement."""
    pace.note(now, done)
    return pace.rate(now, done)


def test_the_rate_is_zero_after_one_measurement() -> None:
    assert noted(Throughput(), 10.0, 500) == 0.0


def test_the_rate_is_that_of_the_last_seconds() -> None:
    """100 bytes a second for ten seconds, then 300."""
    pace = Throughput()
    for second in range(11):
        pace.note(float(second), 100 * second)
    rates = [noted(pace, 10.0 + second, 1000 + 300 * second) for second in range(1, 7)]
    assert rates == [140.0, 180.0, 220.0, 260.0, 300.0, 300.0]


def test_the_rate_restarts_if_the_number_of_bytes_falls() -> None:
    """A file was replaced."""
    pace = Throughput()
    pace.note(0.0, 1000)
    assert [noted(pace, 1.0, 100), noted(pace, 2.0, 150)] == [0.0, 50.0]


def test_asking_for_the_rate_changes_nothing() -> None:
    pace = Throughput()
    pace.note(0.0, 0)
    assert [pace.rate(1.0, 100), pace.rate(2.0, 100), pace.rate(1.0, 100)] == [100.0, 50.0, 100.0]


def test_memory_does_not_grow_with_the_number_of_calls() -> None:
    pace = Throughput()
    rates = [noted(pace, call / 10_000, call) for call in range(40_000)]
    assert rates[-1] == pytest.approx(10_000)
    assert len(pickle.dumps(pace)) < 2_000


@pytest.mark.parametrize(
    ("done", "total", "rate", "words"),
    [
        (0, 2_000_000_000, 0.0, "0% of 2 GB"),
        (500_000_000, 2_000_000_000, 100e6, "25% of 2 GB · 100 MB/s · 15 s left"),
        (0, 60_000_000_000, 100e6, "0% of 60 GB · 100 MB/s · 10 min left"),
        (0, 1_080_000_000_000, 100e6, "0% of 1,080 GB · 100 MB/s · 3.0 h left"),
        (2_000_000, 1_000_000, 1e6, "100% of 1 MB · 1 MB/s · 0 s left"),
        (0, 0, 0.0, "100% of 0 kB"),
    ],
)
def test_progress_in_words(done: int, total: int, rate: float, words: str) -> None:
    assert describe(done, total, rate) == words
