"""Installs the oldest or the newest versions of the dependencies, into ``.venv-oldest`` or ``.venv-newest``.

    python -m tests.environments oldest parquet,sql
    python -m tests.environments newest parquet,sql -c tests/constraints.txt

An environment is made anew only if something else belongs into it: it takes two CPU minutes. Without
constraints, what is newest today belongs into it, so it is always made anew.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from tests import groups, lowest, pythons

ROOT = Path(__file__).parents[1]
#: Packages of the group `test` that only tests import which do not run on other versions.
NOT_NEEDED = frozenset({"moto", "axe-playwright-python"})


def requirements(declared: groups.Groups) -> list[str]:
    """Return the requirements of the tests that run on other versions."""
    lines = groups.requirements(declared, "test")
    return [line for line in lines if Requirement(line).name not in NOT_NEEDED]


def contents(declared: dict[str, Any], python: str, extras: str, pins: str) -> str:
    """Return a text that changes whenever something else belongs into an environment.

    Parameters
    ----------
    declared : dict
        What ``pyproject.toml`` declares; settings of tools do not count.
    python : str
        Path of the interpreter.
    extras : str
        Names of extras, separated by commas.
    pins : str
        Text of the constraints.
    """
    named = {key: declared[key] for key in ("build-system", "project", "dependency-groups")}
    return json.dumps([named, python, extras, pins, sorted(NOT_NEEDED)], indent=1)


def is_current(folder: Path, wanted: str) -> bool:
    """Return whether an environment works and was made for the same contents."""
    made = folder / "contents.json"
    return (folder / "bin" / "python").exists() and made.exists() and made.read_text("utf-8") == wanted


def main(name: str, extras: str, constraints: Sequence[str]) -> None:
    """Make the environment if it is not current; without a Python for it, leave an empty folder."""
    folder = ROOT / f".venv-{name}"
    python = {"oldest": pythons.oldest, "newest": pythons.newest}[name]()
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    pins = lowest.constraints() if name == "oldest" else _texts_of(constraints)
    wanted = contents(declared, python or "", extras, pins)
    if pins and is_current(folder, wanted):
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if python is None:
        return
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    files = {"constraints.txt": pins, "groups.txt": "\n".join(requirements(declared["dependency-groups"]))}
    for file, text in files.items():
        (folder / file).write_text(f"{text}\n", "utf-8")
    arguments = ["-c", f"{folder}/constraints.txt", "-r", f"{folder}/groups.txt", "-e", f".[{extras}]"]
    subprocess.run([*_installer(folder), *arguments], check=True, cwd=ROOT)
    (folder / "contents.json").write_text(wanted, "utf-8")


def _installer(folder: Path) -> list[str]:
    """Return the command that installs: uv's where it is on PATH, else pip's.

    Little of it is imported, and that only once, so it need not be compiled.
    """
    python = f"{folder}/bin/python"
    if shutil.which("uv"):
        return ["uv", "pip", "install", "-q", "--python", python]
    quiet = ["-qq", "--disable-pip-version-check", "--no-input", "--no-compile"]
    return [python, "-m", "pip", "install", *quiet]


def _texts_of(constraints: Sequence[str]) -> str:
    """Return the text of the files in pip's options ``-c FILE``."""
    return "\n".join((ROOT / file).read_text("utf-8") for file in constraints if file != "-c")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
