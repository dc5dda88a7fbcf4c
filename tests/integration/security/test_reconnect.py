"""A page whose server ends, restarts or hangs says so at once, and reconnects without help."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.factories import append, line, write_run
from tests.integration.server_process import ServerProcess
from tests.ui.board import BoardPage

LOST = re.compile(r"^disconnected since \d\d:\d\d:\d\d, reconnecting …$")
SILENT = re.compile(r"^no response from the server for \d+ s$")
#: Holds how often the tab has just been loaded again.
RELOADS = "rlpanel.reloads"
SET_RELOADS = f"(count) => sessionStorage.setItem('{RELOADS}', JSON.stringify({{count, at: Date.now()}}))"
GET_RELOADS = f"() => JSON.parse(sessionStorage.getItem('{RELOADS}')).count"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with one run of four steps."""
    write_run(tmp_path / "root" / "run", steps=4)
    return tmp_path / "root"


@pytest.fixture
def faults(context: BrowserContext) -> list[str]:
    """Errors of scripts; failed requests while there is no server do not count."""
    found: list[str] = []
    context.on("weberror", lambda error: found.append(str(error.error)))
    return found


def mark(board: BoardPage) -> Locator:
    """Return what the page shows about its connection."""
    return board.page.locator(".rl-connection .box span:visible")


def ages(board: BoardPage) -> Locator:
    """Return what the head shows: live or reading, and the age of the newest line."""
    return board.badge.locator(".now:visible")


def note_field(page: Page) -> Locator:
    return page.get_by_label("note on the sample")


def test_a_page_says_that_its_server_ended_and_comes_back(
    context: BrowserContext, root: Path, faults: list[str]
) -> None:
    with ServerProcess(root) as server:
        board = BoardPage(context.new_page(), server.url).open(run="run", step=2, sort="-reward").settled(2)
        expect(ages(board)).not_to_have_count(0)
        expect(mark(board)).to_have_count(0)
        address, rewards = board.page.url, board.column("reward")
        loads: list[str] = []
        board.page.on("request", lambda it: loads.append(it.url) if it.is_navigation_request() else None)
        server.stop(signal.SIGKILL)
        expect(mark(board)).to_have_text(LOST)
        expect(ages(board)).to_have_count(0)
        expect(board.notice.locator("visible=true")).to_have_count(0)
    with ServerProcess(root, port=server.port) as again:
        expect(mark(board)).to_have_count(0)
        board.settled(2)
        assert (board.page.url, board.column("reward")) == (address, rewards)
        assert loads == [address], "a second load would break off the first"
        append(root / "run" / "rollout_data_rank_0.jsonl", line(5))
        expect(board.badge).to_contain_text("33 samples")
        expect(ages(board)).not_to_have_count(0)
        assert not [said for said in again.output if "ERROR" in said or "Traceback" in said]
    assert faults == []


@pytest.mark.slow
def test_a_tab_that_was_just_loaded_again_asks_less_often(context: BrowserContext, root: Path) -> None:
    with ServerProcess(root) as server:
        board = BoardPage(context.new_page(), server.url).open().settled()
        board.page.evaluate(SET_RELOADS, 4)
        server.stop(signal.SIGKILL)
        expect(mark(board)).to_have_text(LOST)
    with ServerProcess(root, port=server.port):
        board.page.evaluate("window.dispatchEvent(new Event('online'))")  # retries at once
        expect(mark(board)).to_have_count(0)
        board.settled()
        assert board.page.evaluate(GET_RELOADS) >= 5


@pytest.mark.slow
def test_an_unsaved_note_is_not_thrown_away(context: BrowserContext, root: Path) -> None:
    with ServerProcess(root) as server:
        board = BoardPage(context.new_page(), server.url).open(run="run", step=2).settled(2)
        board.actions()
        note_field(board.page).fill("half a thou")
        server.stop(signal.SIGKILL)
        expect(mark(board)).to_have_text(LOST)
        note_field(board.page).press_sequentially("ght")
    with ServerProcess(root, port=server.port):
        expect(mark(board)).to_contain_text("the server is back, but a field contains unsaved text")
        expect(note_field(board.page)).to_have_value(re.compile("half a thou"))
        board.page.locator(".rl-connection").get_by_role("button", name="Reload").click()
        expect(mark(board)).to_have_count(0)
        board.settled(2)


@pytest.mark.slow
def test_a_saved_note_does_not_hold_the_page_back(context: BrowserContext, root: Path) -> None:
    with ServerProcess(root) as server:
        board = BoardPage(context.new_page(), server.url).open(run="run", step=2).settled(2)
        board.actions()
        note_field(board.page).fill("a thought")
        note_field(board.page).press("Enter")
        board.until(
            lambda: "a thought" in "".join(path.read_text() for path in root.rglob(".rlpanel-notes*"))
        )
        server.stop(signal.SIGKILL)
        expect(mark(board)).to_have_text(LOST)
    with ServerProcess(root, port=server.port):
        expect(mark(board)).to_have_count(0)
        board.settled(2)
        expect(note_field(board.page)).to_have_value("a thought")


@pytest.mark.slow
def test_a_page_shows_that_its_server_does_not_answer(
    context: BrowserContext, root: Path, faults: list[str]
) -> None:
    with ServerProcess(root) as server:
        board = BoardPage(context.new_page(), server.url).open(run="run", step=2).settled(2)
        os.kill(server.pid, signal.SIGSTOP)
        try:
            expect(mark(board)).to_have_text(SILENT)
            expect(ages(board)).to_have_count(0)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        expect(mark(board)).to_have_count(0)
        expect(ages(board)).not_to_have_count(0)
        board.press("ArrowRight")
        board.at_step(3)
    assert faults == []
