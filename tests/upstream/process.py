"""A writer in a process of its own, with the Python of the training environment."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.upstream.sources import ROOT

PYTHON = ROOT / os.environ.get("TRAIN_VENV", ".venv-train") / "bin" / "python"


#: Module that runs a writer by name.
WRITERS = "tests.upstream.writers"


def execute(
    name: str, folder: Path, module: str = WRITERS, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a writer of a module by name; it writes into a new folder."""
    return subprocess.run(
        [str(PYTHON), "-m", module, name, str(folder)], cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def run_once(factory: pytest.TempPathFactory, module: str = WRITERS) -> Callable[[str], Path]:
    """Return a function that runs a writer of a module once and returns its folder."""
    folders: dict[str, Path] = {}

    def run(name: str) -> Path:
        if name not in folders:
            folders[name] = factory.mktemp(name) / "run"
            done = execute(name, folders[name], module)
            assert done.returncode == 0, done.stderr[-3000:]
            assert "no longer recorded" not in done.stderr, done.stderr
        return folders[name]

    return run
