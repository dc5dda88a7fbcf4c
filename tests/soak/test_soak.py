"""A short soak test for every change; `python -m tests.bench.soak` runs for an hour."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.soak import soak

pytestmark = pytest.mark.slow


def test_after_every_fault_the_store_is_that_of_a_fresh_index(tmp_path: Path) -> None:
    """Also, no thread and no file is left open. Within 40 s, most of the ten kinds strike several times."""
    done = soak(tmp_path, 40.0)
    assert done["samples at the end"] > 0
    assert done["server killed"] > 0
