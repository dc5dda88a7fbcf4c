"""Declared dependencies match the used ones: pyproject.toml, environment.yml, imports, changelog."""

from __future__ import annotations

import ast
import sys
import tomllib
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import rlpanel
from tests.groups import requirements
from tests.parsed_modules import parsed

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, BUILD = PYPROJECT["project"], PYPROJECT["build-system"]
EXTRAS = PROJECT["optional-dependencies"]
GROUPS = {name: requirements(PYPROJECT["dependency-groups"], name) for name in PYPROJECT["dependency-groups"]}

#: Packages whose names on conda-forge differ from those on PyPI.
CONDA_NAMES = {"python-xxhash": "xxhash", "playwright-python": "playwright", "python-duckdb": "duckdb"}
#: Modules that are there wherever they are imported: bokeh needs yaml, and pytest loads its plugin.
GIVEN = {"yaml", "pytest"}
Requirements = dict[str, str]


def read(lines: list[str]) -> Requirements:
    """Return version bounds by package."""
    requirements = [Requirement(line) for line in lines]
    return {canonicalize_name(found.name): str(found.specifier) for found in requirements}


def conda() -> Requirements:
    """Return the bounds in environment.yml, under PyPI's names."""
    lines = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    from_pip = [line for each in lines if isinstance(each, dict) for line in each["pip"]]
    return from_conda([line for line in lines if isinstance(line, str)]) | read(from_pip)


def from_conda(lines: list[str]) -> Requirements:
    """Return the bounds of conda's packages, under PyPI's names."""
    found = read([line.replace(" ", "", 1) for line in lines])
    return {CONDA_NAMES.get(name, name): bounds for name, bounds in found.items()}


def imported() -> set[str]:
    """Return the third-party top-level modules that any file of the package imports."""
    names: set[str] = set()
    for path in Path(rlpanel.__file__).parent.rglob("*.py"):
        for node in parsed(path).imports:
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif node.module and not node.level:
                names.add(node.module.split(".")[0])
    newer = {"compression"}  # in the standard library from Python 3.14 on
    return names - set(sys.stdlib_module_names) - newer - GIVEN - {"rlpanel"}


def test_conda_gets_what_pip_gets() -> None:
    names = (
        "parquet",
        "tokenizers",
        "remote",
        "dask",
        "tensorboard",
        "notebook",
        "sql",
        "mcp",
        "tui",
    )
    extras = [line for name in names for line in EXTRAS[name]]
    wanted = read([*PROJECT["dependencies"], *extras, *GROUPS["test"], *GROUPS["lint"]])
    assert conda() == wanted | {"python": PROJECT["requires-python"], "pip": ""}


def test_the_conda_package_needs_what_the_wheel_needs() -> None:
    recipe = yaml.safe_load((ROOT / "deploy" / "conda" / "recipe.yaml").read_text())
    python = {"python": PROJECT["requires-python"]}
    needed = recipe["requirements"]
    assert from_conda(needed["run"]) == read(PROJECT["dependencies"]) | python
    assert from_conda(needed["host"]) == read(BUILD["requires"]) | python | {"pip": ""}
    assert recipe["context"]["version"] == rlpanel.__version__
    commands = [f"{name} = {target}" for name, target in PROJECT["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == commands


def test_every_import_is_a_declared_dependency() -> None:
    declared = read([line for lines in (PROJECT["dependencies"], *EXTRAS.values()) for line in lines])
    homes = packages_distributions()
    undeclared = {
        name
        for name in imported()
        if not {canonicalize_name(home) for home in homes.get(name, [name])} & declared.keys()
    }
    assert undeclared == set()


@pytest.mark.parametrize(
    "line", [line for lines in (PROJECT["dependencies"], *EXTRAS.values(), GROUPS["dev"]) for line in lines]
)
def test_every_dependency_has_a_lower_bound(line: str) -> None:
    assert [part.operator for part in Requirement(line).specifier].count(">=") == 1


@pytest.mark.parametrize("line", [*PROJECT["dependencies"], *GROUPS["test"]])
def test_what_is_installed_is_within_the_bounds(line: str) -> None:
    requirement = Requirement(line)
    wanted = requirement.marker is None or requirement.marker.evaluate()
    assert not wanted or version(requirement.name) in requirement.specifier


@pytest.mark.parametrize("python", [line[-4:] for line in PROJECT["classifiers"] if "Python :: 3." in line])
def test_make_test_installs_one_version_of_each_package(python: str) -> None:
    extras = [line for lines in EXTRAS.values() for line in lines]
    tools = [*GROUPS["test"], *GROUPS["lint"]]
    wanted = {found.name: found for found in map(Requirement, [*PROJECT["dependencies"], *extras, *tools])}
    lines = (ROOT / "tests" / "constraints.txt").read_text("utf-8").splitlines()
    pins = [Requirement(line) for line in lines if not line.startswith("#")]
    used = [pin for pin in pins if pin.marker is None or pin.marker.evaluate({"python_version": python})]
    assert sorted(pin.name for pin in used) == sorted(wanted)
    for pin in used:
        [exactly] = pin.specifier
        assert exactly.operator == "=="
        assert exactly.version in wanted[pin.name].specifier


def test_the_package_offers_nothing_for_its_own_developers() -> None:
    assert GROUPS.keys() & EXTRAS.keys() == set()
    parts = {line for name in ("test", "lint", "docs", "release") for line in GROUPS[name]}
    assert {*GROUPS["dev"]} == parts


def test_the_changelog_tells_of_this_version() -> None:
    assert f"\n## {rlpanel.__version__} " in (ROOT / "CHANGELOG.md").read_text()
