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


@pytest.mark.parametrize(
    "command",
    [
        "runs .",
        "steps run",
        "samples run --text --sort=-reward",
        "sample run rollout_data_rank_0.jsonl:0 --tokens",
        "groups run",
        "prompts run",
        "search run sun",
        "notes run",
        "link run --step 1",
    ],
)
def test_a_command_that_asks_a_run_loads_only_what_it_needs(tmp_path: Path, command: str) -> None:
    write_run(tmp_path / "run")
    heavy = {"panel", "bokeh", "holoviews", "hvplot", "pandas", "watchdog", "pyarrow", "duckdb", "mcp"}
    heavy |= {"rlpanel.findings.check", "rlpanel.analysis.selection_contrast", "rich.table"}
    if command.startswith("link"):  # the selection is declared beside what draws smoothed curves
        heavy -= {"pandas", "pyarrow"}
    code = (
        f"import os, sys; os.chdir({str(tmp_path)!r}); sys.argv = ['rlpanel', *{command.split()!r}]\n"
        "from rlpanel.cli import main\n"
        "try: main()\n"
        f"finally: print('LOADED', sorted({heavy!r} & set(sys.modules)))"
    )
    assert run_python(code).splitlines()[-1] == "LOADED []"


@pytest.mark.parametrize(
    "options",
    [
        "runs --embed-in *",
        "runs --token short",
        "runs --alert-url mailto:somebody",
        "runs/run/rollout_data_rank_0.jsonl",
    ],
)
def test_a_wrong_option_of_serve_is_reported_before_the_server_is_loaded(
    tmp_path: Path, options: str
) -> None:
    write_run(tmp_path / "runs" / "run")
    code = (
        f"import os, sys; os.chdir({str(tmp_path)!r})\n"
        f"sys.argv = ['rlpanel', 'serve', *{options.split()!r}]\n"
        "from rlpanel.cli import main\n"
        "try: main()\n"
        "except SystemExit as exit: print('EXIT', exit.code, sorted({'panel', 'bokeh'} & set(sys.modules)))"
    )
    assert run_python(code).splitlines()[-1] == "EXIT 2 []"


def test_opening_a_run_loads_no_plots(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", steps=1)
    opened = f"import sys, rlpanel; run = rlpanel.open_run({str(folder)!r}, follow=False)"
    heavy = "{'panel', 'bokeh', 'holoviews', 'hvplot'}"
    code = f"{opened}; run.steps; run.groups(1); print(sorted({heavy} & set(sys.modules)))"
    assert run_python(code) == "[]"
