"""Shell completion of runs, columns, steps and tables, asked as the scripts of the shells ask."""

from __future__ import annotations

import os
import re
from contextlib import chdir
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.factories import write_run
from tests.integration.cli.command_line import run_in


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completed")
    write_run(folder / "runs" / "exp1", steps=[1, 2, 20, 21])
    write_run(folder / "runs" / "exp2", steps=1)
    write_run(folder / "runs" / "sweep" / "a", steps=1)
    (folder / "runs" / "empty").mkdir()
    return folder


def completed(folder: Path, line: str) -> list[str]:
    """Return what bash is offered at the end of a line."""
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    with patch.dict(os.environ, words | {"_RLPANEL_COMPLETE": "complete_bash"}), chdir(folder):
        return run_in(folder, "rlpanel").stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("rlpanel steps runs/", ["runs/exp1", "runs/exp2", "runs/sweep/"]),
        ("rlpanel steps runs/sw", ["runs/sweep/"]),
        ("rlpanel steps runs/sweep/", ["runs/sweep/a"]),
        ("rlpanel compare runs/exp1 runs/exp", ["runs/exp1", "runs/exp2"]),
        ("rlpanel samples runs/exp1 --step ", ["21", "20", "2", "1"]),
        ("rlpanel samples runs/exp1 --step 2", ["21", "20", "2"]),
        ("rlpanel steps runs/exp1 --columns reward_m", ["reward_mean", "reward_min", "reward_max"]),
        ("rlpanel steps runs/exp1 --columns reward_mean,reward_mi", ["reward_mean,reward_min"]),
        ("rlpanel samples runs/exp1 --columns ref_rew", ["ref_reward"]),
        ("rlpanel samples runs/exp1 --sort kl_k3_m", ["kl_k3_mean"]),
        ("rlpanel samples runs/exp1 --sort -kl_k3_m", ["-kl_k3_mean"]),
        ("rlpanel samples runs/exp1 --sort = -kl_k3_m", ["-kl_k3_mean"]),  # bash splits words at "="
        ("rlpanel samples runs/exp1 --sort reward --colu", ["--columns"]),
        ("rlpanel samples runs/exp1 --text --colu", ["--columns"]),
        ("rlpanel sample runs/exp1 uid --metric surp", ["surprisal"]),
        ("rlpanel schema gr", ["groups"]),
        ("rlpanel steps nowhere --columns re", []),
        ("rlpanel steps nowhere/", []),
        ("rlpanel tai", ["tail"]),
    ],
)
def test_the_shell_is_offered(home: Path, line: str, offered: list[str]) -> None:
    assert completed(home, line) == offered


@pytest.mark.parametrize("shell", ["zsh", "fish"])
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("--sort -kl_k3_m", "-kl_k3_mean"),
        ("--sort=-kl_k3_m", "--sort=-kl_k3_mean"),
        ("--sort=kl_k3_m", "--sort=kl_k3_mean"),
        ("--columns=reward,ref_rew", "--columns=reward,ref_reward"),
    ],
)
def test_other_shells_are_offered_whole_words(home: Path, shell: str, words: str, offered: str) -> None:
    asked = {
        "_TYPER_COMPLETE_ARGS": f"rlpanel samples runs/exp1 {words}",
        "_RLPANEL_COMPLETE": f"complete_{shell}",
    }
    with patch.dict(os.environ, asked | {"_TYPER_COMPLETE_FISH_ACTION": "get-args"}), chdir(home):
        found = run_in(home, "rlpanel").stdout
    assert re.findall(r"[-=\w,]+_mean|[-=\w,]+_reward", found) == [offered]


def test_completion_can_be_installed() -> None:
    assert "--install-completion" in run_in(Path.cwd(), "rlpanel --help").stdout
