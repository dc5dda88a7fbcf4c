"""A short soak on every change; `python -m tests.bench.soak` goes on for an hour."""

from __future__ import annotations

from pathlib import Path

from tests.bench.soak import soak


def test_after_two_minutes_of_faults_the_store_is_that_of_a_fresh_index(tmp_path: Path) -> None:
    """And no thread and no file is left open; how often what happened goes with the machine."""
    done = soak(tmp_path, 120.0)
    assert done["samples at the end"] > 0
    assert done["writer killed"] > 5
