"""Frameworks' writers, executed once a session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.upstream.process import execute


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that runs a writer, ``module.function``, once and returns its folder."""
    folders: dict[str, Path] = {}

    def write(name: str) -> Path:
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp(name) / "run"
            done = execute(name, folders[name])
            assert done.returncode == 0, done.stderr[-3000:]
        return folders[name]

    return write
