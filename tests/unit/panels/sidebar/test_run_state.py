"""States of runs by the age of their newest line."""

from __future__ import annotations

import pytest

from rlpanel.panels.sidebar.run_badge import age, run_state


@pytest.mark.parametrize(
    ("seconds", "state"),
    [(-5, "live"), (60, "live"), (61, "quiet"), (3600, "quiet"), (3601, "finished")],
)
def test_the_state_is_that_of_the_age(seconds: float, state: str) -> None:
    assert run_state(seconds) == state


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0 s"), (59.4, "59 s"), (120, "2 min"), (7200, "2 h"), (200000, "2 d")]
)
def test_an_age_has_one_unit(seconds: float, text: str) -> None:
    assert age(seconds) == text
