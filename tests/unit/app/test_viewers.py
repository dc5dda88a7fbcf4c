"""Pages come, sleep and go: the server neither waits for one nor keeps what is gone."""

from __future__ import annotations

from itertools import pairwise

import pytest

from rlpanel.views import pace
from rlpanel.views.pace import Turns

RANK0 = "rollout_data_rank_0.jsonl"


def test_one_page_is_drawn_at_once() -> None:
    turns = Turns()
    turns.took(0.02)
    assert turns.after(100.0) == 100.0
    assert turns.after(100.1) == 100.1


def test_many_pages_leave_the_loop_time_for_others() -> None:
    turns = Turns()
    for _ in range(50):
        turns.took(0.02)
    begins = [turns.after(100.0) for _ in range(50)]
    gaps = [later - earlier for earlier, later in pairwise(begins)]
    assert gaps == pytest.approx([0.02 / pace.SHARE] * 49, rel=0.01)
