"""Importing the package loads as little as possible: a training node has the standard library alone."""

from __future__ import annotations

import json
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


def test_importing_for_training_loads_the_standard_library_alone() -> None:
    code = (
        "import rlpanel, rlpanel.recording; from rlpanel import RolloutWriter, record; "
        "import rlpanel.recording.verl, rlpanel.recording.openrlhf"
    )
    outside = "{name.split('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)"
    code = f"import sys; before = set(sys.modules); {code}; print(sorted({outside}))"
    assert run_python(code) == "['rlpanel']"


#: Runs command lines one after another, and prints after each which of some modules are loaded.
_LOADED = """
import json, sys
commands, heavy = json.loads(sys.argv[1])
from rlpanel.cli import main
for command in commands:
    sys.argv = ["rlpanel", *command.split()]
    try:
        main()
    except SystemExit as end:
        print(json.dumps([command, end.code or 0, sorted(set(heavy) & set(sys.modules))]))
"""


def loaded_by(folder: Path, commands: list[str], heavy: set[str]) -> list[tuple[int, list[str]]]:
    """Return the exit code of each command, and the heavy modules that are loaded after it."""
    done = subprocess.run(
        [sys.executable, "-c", _LOADED, json.dumps([commands, sorted(heavy)])],
        cwd=folder, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith('["')]
    found = {command: (code, modules) for command, code, modules in map(json.loads, lines)}
    return [found[command] for command in commands]


def test_a_command_that_asks_a_run_loads_only_what_it_needs(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    commands = [
        "runs .",
        "steps run",
        "samples run --text --sort=-reward",
        "sample run rollout_data_rank_0.jsonl:0 --tokens",
        "groups run",
        "prompts run",
        "search run sun",
        "notes run",
        "link run --step 1",
    ]
    heavy = {"panel", "bokeh", "holoviews", "hvplot", "pandas", "watchdog", "pyarrow", "duckdb", "mcp"}
    heavy |= {"rlpanel.findings.check", "rlpanel.analysis.selection_contrast", "rich.table"}
    *asking, (code, loaded) = loaded_by(tmp_path, commands, heavy)
    assert asking == [(0, [])] * len(asking)
    # The selection is declared beside what draws smoothed curves.
    assert (code, set(loaded) - {"pandas", "pyarrow"}) == (0, set())


def test_a_command_that_reads_no_run_imports_its_own_module_alone(tmp_path: Path) -> None:
    heavy = {
        "numpy",
        "rich",
        "rlpanel.cli.ask_commands",
        "rlpanel.cli.serve_commands",
        "rlpanel.queries.runs",
    }
    assert loaded_by(tmp_path, ["link run --step 1", "skill"], heavy) == [(0, []), (0, [])]
    others = heavy - {"rlpanel.queries.runs"}
    assert loaded_by(tmp_path, ["schema"], others) == [(0, [])]


def test_a_wrong_option_of_serve_is_reported_before_the_server_is_loaded(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "run")
    # The last one stays in the environment.
    wrong = ("runs/run/rollout_data_rank_0.jsonl", "runs --embed-in *", "runs --token short")
    wrong += ("runs --alert-url mailto:somebody",)
    commands = [f"serve {options}" for options in wrong]
    assert loaded_by(tmp_path, commands, {"panel", "bokeh"}) == [(2, [])] * len(wrong)


def test_opening_a_run_loads_no_plots(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", steps=1)
    opened = f"import sys, rlpanel; run = rlpanel.open_run({str(folder)!r}, follow=False)"
    heavy = "{'panel', 'bokeh', 'holoviews', 'hvplot'}"
    code = f"{opened}; run.steps; run.groups(1); print(sorted({heavy} & set(sys.modules)))"
    assert run_python(code) == "[]"
