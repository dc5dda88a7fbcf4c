"""*Copy as Python* in the browser: the clipboard holds a cell that loads what is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from rlpanel.app.demo import write_recording
from tests.ui.board import BoardPage
from tests.ui.conftest import Profile

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def run(root: Path, profile: Profile) -> Path:
    profile.context.grant_permissions(["clipboard-read", "clipboard-write"])
    return write_recording("grpo_calculator", root / "calculator")


def copied(board: BoardPage, click: Locator, part: str) -> str:
    """Click, and return the clipboard's text once it contains ``part``."""
    click.click()
    board.until(lambda: part in board.page.evaluate("navigator.clipboard.readText()"), f"copied {part}")
    text = board.page.evaluate("navigator.clipboard.readText()")
    compile(text, "cell", "exec")
    return text


def test_the_clipboard_has_the_cell_of_what_is_shown(board: BoardPage, run: Path) -> None:
    board.go(run="calculator", step=24, filter="tool_errors > 0").settled()
    page = board.page
    page.locator(".rl-query summary", has_text="Export").click()
    cell = copied(board, page.get_by_role("button", name="Copy as Python"), "run.samples(24")
    assert f'open_run("{run}")' in cell
    assert 'filter="tool_errors > 0"' in cell

    board.curve("Reward").locator(".rl-take summary").click()
    copied(board, page.get_by_role("button", name="Copy as Python"), 'run.plot.curve("reward"')

    page.locator(".rl-actions summary").click()
    copied(board, page.get_by_title("Copy the notebook cell that loads the sample"), "run.sample(")
    page.keyboard.press("Escape")

    page.locator(".rl-current-findings .sentence").click()
    python = page.locator(".rl-opened-finding .python")
    cell = copied(board, python, "finding = next")
    expect(python).to_have_text("✓")
    expect(python).to_have_text("Python")
    assert "samples = run.samples(" in cell
