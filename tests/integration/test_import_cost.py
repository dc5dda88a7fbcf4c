"""Importing the package loads as little as possible: a training node has the standard library alone."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run_python(code: str) -> str:
    """Return the output of ``code`` in a new Python process."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


@pytest.mark.parametrize("module", ["rlpanel", "rlpanel.cli", "rlpanel.app.demo"])
def test_importing_loads_nothing_heavy(module: str) -> None:
    heavy = "{'panel', 'bokeh', 'holoviews', 'hvplot', 'pandas', 'numpy', 'param'}"
    assert run_python(f"import sys, {module}; print(sorted({heavy} & set(sys.modules)))") == "[]"


@pytest.mark.parametrize(
    "code",
    [
        "import rlpanel",
        "import rlpanel.recording",
        "from rlpanel import RolloutWriter, record",
        "import rlpanel.recording.verl, rlpanel.recording.openrlhf",
    ],
)
def test_importing_for_training_loads_the_standard_library_alone(code: str) -> None:
    outside = "{name.split('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)"
    code = f"import sys; before = set(sys.modules); {code}; print(sorted({outside}))"
    assert run_python(code) == "['rlpanel']"
