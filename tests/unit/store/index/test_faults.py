"""Each reason is logged once, and rests grow while a part fails again and again."""

from __future__ import annotations

import logging
import math

import pytest

from rlpanel.store.index.faults import Faults


def test_a_reason_is_logged_once_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    faults = Faults()
    with caplog.at_level(logging.WARNING):
        for error in (ValueError("a\nb\x1b[31m"), ValueError("a\nb\x1b[31m"), TypeError("c"), TypeError("c")):
            faults.note("run", "run fails", error)
    lines = [record.getMessage() for record in caplog.records]
    assert lines == ["run fails: ValueError: a b\ufffd[31m", "run fails: TypeError: c"]


def test_rests_grow_until_their_limit_and_end_when_the_part_works() -> None:
    faults, rests = Faults(first=10.0, longest=50.0), []
    assert (faults.rest("a"), faults.next_attempt) == (0.0, math.inf)
    for _ in range(5):
        faults.note("a", "a", ValueError("x"))
        rests.append(round(faults.rest("a")))
    assert rests == [10, 20, 40, 50, 50]
    assert faults.reason("a") == "ValueError: x"
    faults.clear("a")
    assert (faults.reason("a"), faults.rest("a"), faults.next_attempt) == ("", 0.0, math.inf)
    faults.note("a", "a", ValueError("x"))  # soon after: no better than before
    assert round(faults.rest("a")) == round(faults.next_attempt) == 50
    faults.forget("a")
    faults.note("a", "a", ValueError("x"))
    assert round(faults.rest("a")) == 10
