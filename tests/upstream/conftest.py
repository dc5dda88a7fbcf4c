"""Frameworks' writers, executed once a session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.upstream.process import run_once


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that runs a writer, ``module.function``, once and returns its folder."""
    return run_once(tmp_path_factory)
