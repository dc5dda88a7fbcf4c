"""Messages about a missing package name a command that works without an index that knows rlpanel."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from rlpanel.errors import install_command

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]


@pytest.mark.parametrize("extra", ["parquet", "sql", "mcp", "remote", "dask", "tensorboard"])
def test_the_command_installs_the_packages_of_the_extra(extra: str) -> None:
    command, action, *packages = shlex.split(install_command(extra))
    assert (command, action) == ("pip", "install")
    assert sorted(str(Requirement(name)) for name in packages) == sorted(
        str(Requirement(line)) for line in EXTRAS[extra]
    )


def test_an_unknown_extra_is_named_as_such() -> None:
    assert install_command("other") == 'pip install "rlpanel[other]"'


def test_no_message_names_the_package_on_an_index() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in (ROOT / "rlpanel").rglob("*.py")
        if path.stem != "extra_packages"
        for line in path.read_text("utf-8").splitlines()
        if re.search(r"install ['\"]?rlpanel\b", line) and "--no-deps" not in line
    ]
    assert found == []
