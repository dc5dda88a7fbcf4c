"""Each workaround names its upstream thread, the versions that need it, and its end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.fixes import FOLDER, facts, fixes
from tests.fixes_report import CHECKS

DOCS = FOLDER.parents[1] / "docs"
MODULES = fixes()
#: Works around a fault by public means only, so it stands outside the room.
EVENT_LOOP = FOLDER.parent / "panels" / "session" / "event_loop.py"
THREAD = re.compile(r"https://github\.com/[\w-]+/[\w-]+/(?:issues|pull)/\d+|docs/upstream/([\w-]+\.md)")
NEEDED = re.compile(r"^(?:(?:Panel|Bokeh|HoloViews|Tornado) \d[\d.]*(?: to \d[\d.]*)?(?:, |$))+")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_a_workaround_names_thread_versions_and_end(path: Path) -> None:
    said = facts(path)
    assert said.keys() == {"Wrong", "Upstream", "Needed by", "Delete when"}
    threads = THREAD.findall(said["Upstream"])
    assert threads
    assert [name for name in threads if name and not (DOCS / "upstream" / name).is_file()] == []
    assert NEEDED.match(said["Needed by"])
    assert said["Delete when"].endswith(".")


def test_each_workaround_has_a_check_that_says_when_it_can_go() -> None:
    marked = re.compile(r'^@pytest\.mark\.upstream_fault(?:\("(\w+)"\))?$', re.MULTILINE)
    files = CHECKS.rglob("*.py")
    checked = {
        named or file.stem.removeprefix("test_")
        for file in files
        for named in marked.findall(file.read_text("utf-8"))
    }
    assert {path.stem for path in MODULES} == checked


def test_each_report_belongs_to_a_workaround() -> None:
    named = {name for path in (*MODULES, EVENT_LOOP) for name in THREAD.findall(path.read_text("utf-8"))}
    assert {path.name for path in (DOCS / "upstream").glob("*.md")} == named - {""}
