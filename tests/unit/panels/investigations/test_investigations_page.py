"""The page Investigations without a browser: what a client may send, and a board that is read-only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.investigations.report_file import FILE
from rlpanel.panels.investigations.investigations_page import InvestigationsPage
from rlpanel.panels.session.context import Context
from tests.factories import write_run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", steps=2)


def opened(folder: Path, *, read_only: bool = False) -> InvestigationsPage:
    index = rlpanel.open_run(folder, follow=False).index
    context = Context(read_only=read_only)
    context.param.update(index=index, view=index.view)
    page = InvestigationsPage(context)
    page.active = True
    return page


CLAIM = {"kind": "number", "metric": "reward_mean", "steps": "1", "text": "so"}


def test_a_claim_is_written_and_evaluated(folder: Path) -> None:
    page = opened(folder)
    page.view.receive(["add", CLAIM])
    [report] = page.view.reports
    assert [(entry["mark"], entry["about"]) for entry in report["entries"]] == [
        ("holds", "reward_mean at step 1")
    ]
    page.view.receive(["remove", report["entries"][0]["id"]])
    assert page.view.reports == []


def test_a_read_only_board_refuses_what_any_client_can_send(folder: Path) -> None:
    page = opened(folder, read_only=True)
    for message in (["add", CLAIM], ["remove", "x"]):
        page.view.receive(message)
        assert "read-only" in page.view.state["said"]
    assert not (folder / FILE).exists()
    assert page.view.state["writes"] is False


@pytest.mark.parametrize(
    "message",
    [
        None,
        [],
        ["add"],
        ["add", None],
        ["add", {"kind": "removed"}],
        ["add", {"kind": "number", "claim": {}}],
        ["add", {"kind": "text", "text": 1}],
        ["add", {"kind": "text", "text": "x", "author": "agent"}],
        ["remove", ["x"]],
        ["open", {"a": 1}],
        ["code", True],
        ["nosuch", 1],
    ],
)
def test_a_message_that_no_page_sends_changes_nothing(folder: Path, message: Any) -> None:
    page = opened(folder)
    page.view.receive(message)
    assert not (folder / FILE).exists()
    assert page.view.state["code"] == ""
