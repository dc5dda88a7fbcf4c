"""The Pythons on which `make test` also runs are found on PATH and in pyenv, if they work."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import pythons
from tests.pythons import first_working


def interpreter(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a broken Python 3.14 on PATH and a working 3.13 in pyenv; a broken one is running."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "running"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    interpreter(tmp_path / "bin" / "python3.14", "exit 127")  # as pyenv's for a version that is not active
    interpreter(tmp_path / "pyenv" / "versions" / "3.13.2" / "bin" / "python", "echo 3.13")
    return tmp_path


def test_the_first_version_that_works_is_found(machine: Path) -> None:
    assert first_working(range(14, 11, -1)) == f"{machine}/pyenv/versions/3.13.2/bin/python"


def test_path_comes_before_pyenv(machine: Path) -> None:
    path = interpreter(machine / "bin" / "python3.13", "echo 3.13")
    assert first_working(range(11, 15)) == str(path)


def test_an_interpreter_of_another_version_does_not_count(machine: Path) -> None:
    interpreter(machine / "bin" / "python3.12", "echo 3.11")
    assert first_working(range(11, 13)) is None


@pytest.mark.parametrize("minor", [11, 12])
def test_the_running_python_is_used_if_it_is_old_enough(machine: Path, minor: int) -> None:
    assert pythons.oldest() is None
    running = interpreter(machine / "running", f"echo 3.{minor}")
    assert pythons.oldest() == str(running)


def test_the_reason_is_said_why_other_versions_are_left_out(machine: Path) -> None:
    interpreter(machine / "running", "echo 3.13")
    assert pythons.oldest() is None
    assert "no Python 3.11 or 3.12" in pythons.why_no_oldest()
    assert pythons.newest(running=13) is None
    assert "no Python newer than 3.13" in pythons.why_no_newest(running=13)
    assert "no Python 3.12 or newer" in pythons.why_no_newest(running=11)
