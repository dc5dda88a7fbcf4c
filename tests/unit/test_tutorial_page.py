"""The Python code of the tutorial runs, from top to bottom, and prints what the page shows."""

from __future__ import annotations

import re
import shlex
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import rlpanel
from docs import generate
from docs.terminal_session import TUTORIAL_LINES
from rlpanel.cli.commands import build_app

PAGE = (generate.FOLDER / "tutorial.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(sh|python|text)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_code_runs_and_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    printed = StringIO()
    with redirect_stdout(printed):
        for kind, block in BLOCKS:
            if kind == "sh":
                for command in block.splitlines():
                    _, *arguments = shlex.split(command)
                    assert CliRunner().invoke(build_app(arguments[0]), arguments).exit_code == 0, command
            elif kind == "python":
                exec(compile(block, "tutorial.md", "exec"), names)
    assert printed.getvalue() == "".join(block for kind, block in BLOCKS if kind == "text")
    assert "calculator unavailable" in printed.getvalue()
    with rlpanel.open_run(tmp_path / "runs" / "own", follow=False) as run:
        assert run.errors.empty
        assert len(run.samples()) == 10
        assert run.steps.reward_mean.tolist() == [0.5] * 5


def test_every_command_of_the_tutorial_is_recorded() -> None:
    assert re.findall(r"^\$ (.*)$", PAGE, re.MULTILINE) == [*TUTORIAL_LINES.values()]
