"""What a link of another site asks for waits for the viewer, if it costs much."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rlpanel.app.board.board import Board
from rlpanel.panels.first_view.first_view import first_view_html
from rlpanel.panels.samples.sample_bar import QueryBar
from rlpanel.panels.samples.sample_grid import SampleGrid
from rlpanel.panels.status.notices import LinkNotice, notice_html
from tests.factories import write_run
from tests.page_parts import part_of, send

LINK = "?run=a&step=1&search=/(a%2B)%2B$/&filter=reward > 0&scope=run&over=b&metric=kl_k3"


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    for name in ("a", "b"):
        write_run(tmp_path / name, steps=2, samples=2)
    made = Board(tmp_path)
    yield made
    made.close()


def waiting(board: Board) -> dict[str, object]:
    """Return what waits, after checking that nothing of it is selected."""
    selection = board.context.selection
    assert (selection.search, selection.filter, selection.scope, selection.overlay_runs) == (
        "",
        "",
        "step",
        [],
    )
    return board.context.waiting_values


def test_what_costs_much_waits_and_the_rest_is_selected(board: Board) -> None:
    board.read_url(LINK, foreign=True)
    assert waiting(board) == {
        "search": "/(a+)+$/",
        "filter": "reward > 0",
        "scope": "run",
        "overlay_runs": ["b"],
    }
    assert (board.context.selection.step, board.context.selection.metric) == (1, "kl_k3")
    assert "(a+)" not in first_view_html(board.context)


def test_the_viewers_own_link_runs_at_once(board: Board) -> None:
    board.read_url(LINK)
    assert board.context.waiting_values == {}
    assert (board.context.selection.search, board.context.selection.overlay_runs) == ("/(a+)+$/", ["b"])


def test_a_link_without_a_query_waits_for_nothing(board: Board) -> None:
    board.read_url("?run=a&step=1&scope=run&metric=kl_k3", foreign=True)
    assert board.context.waiting_values == {}
    assert board.context.selection.scope == "run"


def test_the_viewer_runs_it_or_leaves_it_out(board: Board) -> None:
    board.read_url(LINK, foreign=True)
    notice = LinkNotice(board.context)
    grid = SampleGrid(board.context)
    send(notice, "leave")
    assert waiting(board) == {}
    board.read_url(LINK, foreign=True)
    assert notice.visible
    assert part_of(grid, QueryBar).filter == ""
    send(notice, "run")
    assert (board.context.selection.search, board.context.selection.filter) == ("/(a+)+$/", "reward > 0")
    assert not notice.visible


def test_another_run_has_nothing_to_do_with_the_link(board: Board) -> None:
    board.read_url(LINK, foreign=True)
    notice = LinkNotice(board.context)
    board.context.selection.run = "b"
    assert not notice.visible


def test_the_notice_shows_what_waits_as_text() -> None:
    shown = notice_html({"search": "<b>" + "x" * 300, "overlay_runs": ["r1", "r2"], "scope": "run"})
    assert "&lt;b&gt;xxx" in shown
    assert "x" * 200 not in shown
    assert "r1, r2" in shown
