"""Each workaround names its upstream thread, the versions that need it, and its end."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import rlpanel

PACKAGE = Path(rlpanel.__file__).parent
DOCS = PACKAGE.parent / "docs"
MODULES = sorted(path for path in (PACKAGE / "panel_fixes").glob("*.py") if path.stem != "__init__")
THREAD = re.compile(r"https://github\.com/[\w-]+/[\w-]+/(?:issues|pull)/\d+|docs/upstream/([\w-]+\.md)")
NEEDED = re.compile(r"^(?:(?:Panel|Bokeh|Tornado) \d[\d.]*(?: to \d[\d.]*)?(?:, |$))+")


def facts(path: Path) -> dict[str, str]:
    """Return the closing lines of a module's docstring by their keys."""
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    found = re.findall(r"^(Upstream|Needed by|Delete when): (.+(?:\n .+)*)", docstring, re.MULTILINE)
    return dict(found)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_workaround_names_thread_versions_and_end(path: Path) -> None:
    said = facts(path)
    assert said.keys() == {"Upstream", "Needed by", "Delete when"}
    threads = THREAD.findall(said["Upstream"])
    assert threads
    assert [name for name in threads if name and not (DOCS / "upstream" / name).is_file()] == []
    assert NEEDED.match(said["Needed by"])
    assert said["Delete when"].endswith(".")


def test_each_report_belongs_to_a_workaround() -> None:
    named = {name for path in MODULES for name in THREAD.findall(facts(path)["Upstream"])}
    assert {path.name for path in (DOCS / "upstream").glob("*.md")} == named - {""}
