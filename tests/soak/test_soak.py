"""A short soak test for every change; `python -m tests.bench.soak` runs for an hour."""

from __future__ import annotations

from pathlib import Path

from tests.bench.soak import soak


def test_after_two_minutes_of_faults_the_store_is_that_of_a_fresh_index(tmp_path: Path) -> None:
    """Also, no thread and no file is left open. The number of faults depends on the machine."""
    done = soak(tmp_path, 120.0)
    assert done["samples at the end"] > 0
    assert done["writer killed"] > 5
