"""A check of the findings waits for a page that reads the rows of a run."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from rlpanel.panels.session.threads import Threads


@pytest.fixture
def threads() -> Iterator[Threads]:
    made = Threads()
    yield made
    made.close()


class Check:
    """Asks on a thread whether a check is to end."""

    def __init__(self, threads: Threads) -> None:
        self.answers: list[bool] = []
        ended = threads.end_of_check()
        self.thread = threading.Thread(target=lambda: self.answers.append(ended()), daemon=True)
        self.thread.start()

    def waits(self) -> bool:
        self.thread.join(0.3)
        return self.thread.is_alive()

    def answer(self) -> bool:
        self.thread.join(30)
        [answer] = self.answers
        return answer


def test_a_check_waits_until_the_page_has_read(threads: Threads) -> None:
    reading = threads.before_findings(iter("ab"))
    assert next(reading) == "a"
    check = Check(threads)
    assert check.waits()
    assert list(reading) == ["b"]
    assert check.answer() is False


def test_a_check_goes_on_once_the_page_drops_its_reading(threads: Threads) -> None:
    reading = threads.before_findings(iter("ab"))
    next(reading)
    check = Check(threads)
    assert check.waits()
    del reading
    assert check.answer() is False


def test_a_check_waits_for_no_reading_that_has_not_begun(threads: Threads) -> None:
    reading = threads.before_findings(iter("ab"))
    assert Check(threads).answer() is False
    assert list(reading) == ["a", "b"]


def test_a_check_that_waits_ends_with_the_server(threads: Threads) -> None:
    reading = threads.before_findings(iter("ab"))
    next(reading)
    check = Check(threads)
    assert check.waits()
    threads.close()
    assert check.answer() is True
    reading.close()  # type: ignore[attr-defined]


def test_a_check_waits_a_limited_time() -> None:
    threads = Threads(max_wait=0.01)
    reading = threads.before_findings(iter("ab"))
    next(reading)
    assert Check(threads).answer() is False
    assert list(reading) == ["b"]
