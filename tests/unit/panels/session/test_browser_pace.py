"""Pauses between the redraws of a browser."""

from __future__ import annotations

import time
from typing import Any

import pytest

from rlpanel.panels.session.session import LOOK_AGAIN, MAX_PAUSE, MAX_WAIT, SHARE, BrowserPace
from tests.page_parts import send


def drawn_once(busy: float) -> BrowserPace:
    """Return the pace of a browser that was busy for some milliseconds with its first redraw."""
    pace = BrowserPace()
    pace.end()
    send(pace, [1, busy])
    return pace


def test_a_browser_that_never_reports_gets_all_redraws() -> None:
    pace = BrowserPace()
    assert pace.wait == 0
    pace.end()
    assert pace.wait == 0


def test_after_a_drawing_the_browser_rests_three_times_as_long() -> None:
    assert SHARE == 1 / 4
    assert 1.0 < drawn_once(500).wait <= 1.5


def test_a_long_drawing_does_not_stop_the_news() -> None:
    assert MAX_PAUSE - 1 < drawn_once(60_000).wait <= MAX_PAUSE


def test_the_next_redraw_waits_until_the_last_one_is_drawn() -> None:
    pace = drawn_once(0)
    assert pace.wait == 0
    pace.end()
    assert pace.wait == LOOK_AGAIN
    send(pace, [1, 900])
    assert pace.wait == LOOK_AGAIN
    send(pace, [2, 0])
    assert pace.wait == 0


def test_a_suspended_browser_gets_ever_fewer_redraws(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    pace = drawn_once(0)
    waits = []
    for _ in range(4):
        pace.end()
        begun = now
        while pace.wait:
            now += 1
        waits.append(now - begun)
    assert waits == [MAX_WAIT * unreported for unreported in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    "message",
    [
        None,
        7,
        [1],
        ["1", 2],
        [2, 10],
        [1, float("inf")],
        [1, "a"],
        {"sent": 1},
        ["settled", "a"],
        ["settled", 1],
    ],
)
def test_messages_that_no_browser_of_ours_sends_are_ignored(message: Any) -> None:
    pace = BrowserPace()
    pace.end()
    send(pace, message)
    assert pace.wait == 0
    send(pace, [1, 500])  # this redraw was not reported before
    assert pace.wait > 1.0
