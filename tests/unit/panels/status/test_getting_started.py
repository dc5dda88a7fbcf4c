"""The page of a folder without runs: it shows names as text, and offers the form to whoever may open it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlpanel.panels.session.context import Context
from rlpanel.panels.status.empty_state import EmptyState
from rlpanel.sources.discovery.diagnose import diagnose
from rlpanel.sources.discovery.directory import Directory
from tests.factories import append
from tests.page_parts import send


@pytest.mark.parametrize("read_only", [False, True])
def test_the_form_is_offered_to_whoever_may_open_a_file(tmp_path: Path, read_only: bool) -> None:
    append(tmp_path / "<b>.jsonl", b'{"a": 1}\n')
    found = diagnose(Directory(tmp_path))
    context = Context(root=str(tmp_path), root_diagnosis=found, read_only=read_only)
    page = EmptyState(context, lambda: None)
    assert "<b>" not in page.html
    assert "&lt;b&gt;.jsonl" in page.html
    assert bool(page.buttons["map"]) is not read_only
    send(page, "map")
    assert context.mapping_form == "open"


def test_without_records_there_is_nothing_to_map(tmp_path: Path) -> None:
    append(tmp_path / "README.md", b"text")
    found = diagnose(Directory(tmp_path))
    page = EmptyState(Context(root=str(tmp_path), root_diagnosis=found), lambda: None)
    assert page.buttons == {"map": "", "demo": "Open the demo run"}
