"""`panel serve --num-threads` builds pages and handles clicks on threads; the board works there too."""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.factories import append, line, write_run
from tests.integration.forked import CHECKOUT
from tests.integration.server_process import ServerProcess
from tests.ui.board import BoardPage

THREADED = (
    sys.executable,
    "-m",
    "panel",
    "serve",
    str(CHECKOUT / "dashboards" / "board.py"),
    "--num-threads",
    "4",
)


def test_a_page_built_on_a_thread_opens_follows_and_obeys(page: Page, tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs" / "grows", steps=3)
    with ServerProcess("--args", run.parent, command=THREADED) as server:
        # `panel serve` expects this name; before version 6.6, Tornado refuses the address.
        url = f"http://localhost:{server.port}/board"
        board = BoardPage(page, url).open().settled(3)
        for step in (4, 5):
            append(run / "rollout_data_rank_0.jsonl", *(line(step, index=index) for index in range(8)))
            board.at_step(step)
        board.press("ArrowLeft")
        board.settled(4)  # a click on a row that the browser is about to replace picks nothing
        board.rows.nth(3).click()
        expect(board.rows.nth(3)).to_contain_class("tabulator-selected")
        board.tab("Text")
        board.search.fill("prompt")
        board.press("Enter")
        board.settled()
        assert [text for text in server.output if "Traceback" in text or "ERROR" in text] == []
