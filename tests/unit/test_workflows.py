"""The workflows run what the Makefile has, on the supported versions of Python, and hold no secret."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FILES = {path.stem: path for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
#: What CONTRIBUTING.md says that CI runs.
IN_CI = {
    "demo",
    "lint",
    "test",
    "lint-js",
    "unit",
    "integration",
    "ui",
    "slow",
    "oldest",
    "newest",
    "test-train",
    "upstream",
    "upstream-dev",
    "watch",
    "docs",
    "dist",
}

Workflow = dict[str, Any]


def workflow(name: str) -> Workflow:
    """Return a workflow; YAML reads its key `on` as True."""
    return dict(yaml.safe_load(FILES[name].read_text("utf-8")))


def steps(job: Workflow) -> list[Workflow]:
    """Return the steps of a job, with variables replaced by each value that its matrix gives them."""
    found = []
    for step in job["steps"]:
        variables = {f'"${name}"': value for name, value in step.get("env", {}).items()}
        run = step.get("run", "")
        for variable, value in variables.items():
            axis = re.fullmatch(r"\$\{\{ matrix\.(\w+) }}", value)
            assert axis, f"{value} is not from the matrix"
            run = run.replace(variable, " ".join(job["strategy"]["matrix"][axis[1]]))
        found.append(step | {"run": run})
    return found


def made(name: str) -> set[str]:
    """Return the targets that a workflow makes."""
    runs = [step["run"] for job in workflow(name)["jobs"].values() for step in steps(job)]
    lines = [line for run in runs for line in run.splitlines() if line.startswith("make ")]
    return {target for line in lines for target in line.partition(" > ")[0].split()[1:]}


@pytest.mark.parametrize("name", FILES)
def test_a_workflow_makes_what_the_makefile_has(name: str) -> None:
    assert made(name)
    assert made(name) <= TARGETS


def test_the_workflows_make_all_that_ci_has_to() -> None:
    assert {target for name in FILES for target in made(name)} == IN_CI


def test_the_tests_run_on_each_supported_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    matrix = workflow("checks")["jobs"]["tests"]["strategy"]["matrix"]
    supported = [line.split(" :: ")[-1] for line in project["classifiers"] if "Python :: 3." in line]
    assert matrix["python"] == supported
    ends = [supported[0], supported[-1]]
    assert workflow("checks")["jobs"]["lint"]["strategy"]["matrix"]["python"] == supported
    newest = workflow("upstream")["jobs"]["newest"]
    assert (newest["strategy"]["matrix"]["python"], newest["env"]) == (ends, {"PINS": ""})
    assert project["requires-python"] == f">={supported[0]}"
    contributing = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert f"supports Python {supported[0]} to {supported[-1]}" in contributing
    assert all(each["unsupported"] and each["python"] not in supported for each in matrix["include"])


@pytest.mark.parametrize("name", FILES)
def test_a_workflow_has_few_rights_and_ends(name: str) -> None:
    found = workflow(name)
    assert found["permissions"] == {"contents": "read"}
    assert found["concurrency"]["group"].startswith(f"{name}-")
    assert all(job["timeout-minutes"] <= 90 for job in found["jobs"].values())
    granted = {key: job["permissions"] for key, job in found["jobs"].items() if "permissions" in job}
    assert granted == ({"publish": {"id-token": "write"}} if name == "release" else {})


@pytest.mark.parametrize("name", FILES)
def test_a_workflow_holds_no_secret(name: str) -> None:
    text = FILES[name].read_text("utf-8")
    assert re.findall(r"secrets|password|api[-_]token", text, re.IGNORECASE) == []


@pytest.mark.parametrize("name", FILES)
def test_an_action_is_named_by_its_commit(name: str) -> None:
    used = re.findall(r"uses: *(.+)", FILES[name].read_text("utf-8"))
    assert used
    assert [use for use in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v[\d.]+", use)] == []


def test_only_approved_uploads_reach_pypi() -> None:
    publish = workflow("release")["jobs"]["publish"]
    assert publish["environment"]["name"] == "pypi"
    assert publish["needs"] == "build"
    assert [step["uses"].split("@")[0] for step in publish["steps"]] == [
        "actions/download-artifact",
        "pypa/gh-action-pypi-publish",
    ]


def test_the_site_that_is_kept_is_the_one_that_is_built() -> None:
    kept = [step["with"]["path"] for step in workflow("docs")["jobs"]["site"]["steps"] if "if" in step]
    assert kept == re.findall(r"-m sphinx .* (\S+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
