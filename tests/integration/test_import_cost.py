"""Importing the package loads as little as possible: a training node has the standard library alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.factories import write_run


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


def test_opening_a_run_loads_no_plots(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", steps=1)
    opened = f"import sys, rlpanel; run = rlpanel.open_run({str(folder)!r}, follow=False)"
    heavy = "{'panel', 'bokeh', 'holoviews', 'hvplot'}"
    code = f"{opened}; run.steps; run.groups(1); print(sorted({heavy} & set(sys.modules)))"
    assert run_python(code) == "[]"
