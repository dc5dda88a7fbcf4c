"""Frameworks' writers, executed once a session."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.upstream.sources import ROOT

PYTHON = ROOT / os.environ.get("TRAIN_VENV", ".venv-train") / "bin" / "python"


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


def execute(name: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a writer with the Python of the training environment."""
    return subprocess.run(
        [str(PYTHON), "-m", "tests.upstream.writers", name, str(folder)], cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
