"""Pip constraints that pin each dependency to its lower bound; `make oldest` runs the tests with them.

The tools of the tests have the same version as in `.venv`.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
PINS = Path(__file__).parent / "constraints.txt"
#: Extras that the tests use.
NEEDED = ("parquet", "tokenizers", "tensorboard", "remote", "dask", "sql", "mcp")


def lowest(requirement: Requirement) -> str:
    """Return ``name==bound`` with the requirement's environment marker."""
    bound = next(part.version for part in requirement.specifier if part.operator == ">=")
    marker = f"; {requirement.marker}" if requirement.marker else ""
    return f"{requirement.name}=={bound}{marker}"


def constraints() -> str:
    """Return the constraints for the dependencies and for the extras that tests need, one on each line."""
    declared = tomllib.loads(PYPROJECT.read_text())
    project = declared["project"]
    extras = project["optional-dependencies"]
    names = project["dependencies"] + [line for name in NEEDED for line in extras[name]]
    bounds = [lowest(Requirement(name)) for name in names]
    tools = {Requirement(name).name for name in declared["dependency-groups"]["test"]}
    pins = [line for line in PINS.read_text("utf-8").splitlines() if not line.startswith("#")]
    return "\n".join([*bounds, *(pin for pin in pins if Requirement(pin).name in tools)])


if __name__ == "__main__":
    print(constraints())
