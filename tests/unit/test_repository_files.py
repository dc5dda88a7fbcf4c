"""The files about the repository agree with the package: citation, forms for issues, template for changes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import rlpanel

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
FORMS = [path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config"]


def read(path: Path) -> dict[str, Any]:
    """Return the contents of a YAML file."""
    return dict(yaml.safe_load(path.read_text("utf-8")))


def test_the_citation_is_of_this_version() -> None:
    cited = read(ROOT / "CITATION.cff")
    assert (cited["title"], cited["version"]) == (PROJECT["name"], rlpanel.__version__)
    assert (cited["license"], cited["keywords"]) == (PROJECT["license"], PROJECT["keywords"])


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_asks_for_each_thing_once(path: Path) -> None:
    form = read(path)
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert {"name", "description"} <= form.keys()
    assert len({field["id"] for field in fields}) == len(fields)
    assert len({field["attributes"]["label"] for field in fields}) == len(fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_the_template_names_what_there_is() -> None:
    text = (ROOT / ".github" / "pull_request_template.md").read_text("utf-8")
    makefile = (ROOT / "Makefile").read_text("utf-8")
    named = re.findall(r"`make ([a-z-]+)`", text)
    assert named
    assert [target for target in named if f"\n{target}:" not in makefile] == []
    assert [name for name in re.findall(r"\b[A-Z]+\.md\b", text) if not (ROOT / name).exists()] == []
