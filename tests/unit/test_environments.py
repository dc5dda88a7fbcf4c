"""An environment with other versions is made anew if another package belongs into it, and only then."""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.environments import contents, is_current, requirements

PYPROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
PYTHON, EXTRAS, PINS = "/usr/bin/python3.12", "parquet,sql", "numpy==2.0.0"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An environment that was made for `PYPROJECT`."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    (tmp_path / "contents.json").write_text(contents(PYPROJECT, PYTHON, EXTRAS, PINS), "utf-8")
    return tmp_path


def changed(**tables: Any) -> dict[str, Any]:
    declared = copy.deepcopy(PYPROJECT)
    for name, values in tables.items():
        declared[name.replace("_", "-")].update(values)
    return declared


def test_other_settings_of_a_tool_change_no_environment(folder: Path) -> None:
    same = changed(tool={"ruff": {"line-length": 80}})
    assert is_current(folder, contents(same, PYTHON, EXTRAS, PINS))


@pytest.mark.parametrize(
    "wanted",
    [
        (changed(project={"dependencies": ["numpy>=3"]}), PYTHON, EXTRAS, PINS),
        (changed(dependency_groups={"test": ["pytest>=10"]}), PYTHON, EXTRAS, PINS),
        (PYPROJECT, "/usr/bin/python3.13", EXTRAS, PINS),
        (PYPROJECT, PYTHON, "parquet", PINS),
        (PYPROJECT, PYTHON, EXTRAS, "numpy==2.1.0"),
    ],
    ids=["dependency", "tool of the tests", "Python", "extra", "version"],
)
def test_another_package_or_version_does(folder: Path, wanted: tuple[dict[str, Any], str, str, str]) -> None:
    assert not is_current(folder, contents(*wanted))


def test_an_environment_whose_installation_failed_is_made_anew(folder: Path) -> None:
    wanted = (folder / "contents.json").read_text("utf-8")
    (folder / "contents.json").unlink()
    assert not is_current(folder, wanted)


def test_what_only_other_tests_import_is_left_out() -> None:
    declared: dict[str, list[str | dict[str, str]]] = {
        "base": ["hypothesis>=6"],
        "test": ["pytest>=9.0", "moto[server]>=5.1", {"include-group": "base"}],
    }
    assert requirements(declared) == ["pytest>=9.0", "hypothesis>=6"]
