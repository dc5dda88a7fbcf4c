"""The page lists links that are not followed; a followed link is a run like any other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.factories import write_run
from tests.integration.server_process import ServerProcess
from tests.ui.board import Served
from tests.ui.conftest import OpenBoard

REASON = "links are not followed; start with --follow-links"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    """A root that contains only a link to a run elsewhere."""
    write_run(tmp_path / "scratch" / "exp7", steps=2, samples=4)
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "exp7").symlink_to(tmp_path / "scratch" / "exp7")
    with Served(tmp_path / "root") as made:
        yield made


def test_a_root_of_links_names_them_and_says_how_they_are_followed(
    server: Served, open_board: OpenBoard, tmp_path: Path
) -> None:
    board = open_board(server=server)
    expect(board.stage).to_contain_text(f"exp7 -> {tmp_path}/scratch/exp7")
    expect(board.stage).to_contain_text(REASON)


def test_links_beside_a_run_are_named_below_the_list_of_runs(
    server: Served, open_board: OpenBoard, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    write_run(root / "own", steps=2, samples=4)
    for name in ("exp8", "exp9", "<img src=x>"):
        (root / name).symlink_to(tmp_path / "scratch")
    board = open_board(server=server).settled()
    left_out = board.page.locator(".rl-left-out")
    expect(left_out).to_contain_text("Not shown: 4")
    expect(left_out).to_contain_text(f"<img src=x> -> {tmp_path}/scratch")
    expect(left_out).to_contain_text(REASON)
    expect(left_out).to_contain_text("and 1 more")
    for path in root.iterdir():
        if path.is_symlink():
            path.unlink()
    expect(left_out).to_be_hidden()


@pytest.mark.slow
def test_a_followed_link_is_a_run_with_its_links_name(
    server: Served, open_board: OpenBoard, tmp_path: Path
) -> None:
    with ServerProcess("--follow-links", tmp_path / "root") as process:
        board = open_board(server=process, run="exp7").settled(2)
        expect(board.badge).to_contain_text("exp7")
        expect(board.page.locator(".rl-left-out")).to_be_hidden()
        board.page.close()  # it would look for the server that ended
