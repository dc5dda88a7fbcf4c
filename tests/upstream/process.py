"""A writer in a process of its own, with the Python of the training environment."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.upstream.sources import ROOT

PYTHON = ROOT / os.environ.get("TRAIN_VENV", ".venv-train") / "bin" / "python"


def execute(name: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a writer, ``module.function``, that writes into a new folder."""
    return subprocess.run(
        [str(PYTHON), "-m", "tests.upstream.writers", name, str(folder)], cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
