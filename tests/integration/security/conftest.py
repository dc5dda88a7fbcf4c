"""A small root of runs for the security tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.factories import write_run


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with one run, ``run``: two steps of three samples."""
    folder = tmp_path / "root"
    write_run(folder / "run", steps=2, ranks=1, samples=3)
    return folder
