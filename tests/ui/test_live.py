"""While ranks append lines, the board updates, and the user's choices stay."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

from rlpanel.number_text import number
from tests.factories import append, line, rewrite, write_run
from tests.ui.board import BoardPage
from tests.ui.conftest import OpenBoard
from tests.ui.raw import band, raw_frame

FILE = "rollout_data_rank_0.jsonl"
SAMPLES = 8


@pytest.fixture(scope="module", autouse=True)
def old_run(root: Path) -> None:
    write_run(root / "old", steps=3, samples=SAMPLES)


@pytest.fixture
def run(root: Path, request: pytest.FixtureRequest) -> Path:
    """A run for a single test: three steps of eight samples."""
    return write_run(root / request.node.name.removeprefix("test_"), steps=3, samples=SAMPLES)


def curve_equals_file(board: BoardPage, run: Path, column: str = "reward") -> None:
    wanted = band(raw_frame(run), column.removesuffix("_mean"))

    def equal() -> bool:
        shown = board.source(column)
        assert shown["x"].tolist() == wanted["x"].tolist()
        return all(np.allclose(shown[key], values, equal_nan=True) for key, values in wanted.items())

    board.until(equal, f"the browser's {column} equals the file's")


def test_a_line_is_a_point_and_a_whole_step_is_followed(board: BoardPage, run: Path) -> None:
    board.go(run=run.name).settled(3)
    append(run / FILE, line(4, index=0, reward=5.0))
    curve_equals_file(board, run)
    assert board.source("reward")["y"][-1] == 5.0
    append(run / FILE, *(line(4, index=index) for index in range(1, SAMPLES)))
    board.at_step(4)
    curve_equals_file(board, run)
    expect(board.step_label).to_have_text(f"Step 4 of 4, {SAMPLES} samples")
    expect(board.count).to_have_text(f"{SAMPLES} of step 4")
    board.head_says("Reward", number(raw_frame(run).query("step == 4").reward.mean()))


def test_what_was_chosen_stays_while_the_run_grows(board: BoardPage, run: Path) -> None:
    chosen = raw_frame(run).query("step == 2").uid.tolist()[5]
    board.go(run=run.name, step=2).settled(2)
    board.rows.nth(5).click()
    board.shows(chosen)
    append(run / FILE, *(line(2, index=index) for index in range(SAMPLES, SAMPLES + 5)))
    append(run / FILE, *(line(4, index=index) for index in range(SAMPLES)))
    expect(board.pill).to_have_text("↻ 5 new")
    curve_equals_file(board, run)
    board.head_says("Reward", number(raw_frame(run).query("step == 2").reward.mean()))
    board.at_step(2)
    board.shows(chosen)
    expect(board.count).to_have_text(f"{SAMPLES} of step 2")
    expect(board.step_label).to_have_text(f"Step 2 of 4, {SAMPLES + 5} samples")
    board.pill.click()
    expect(board.count).to_have_text(f"{SAMPLES + 5} of step 2")
    expect(board.pill).to_be_hidden()
    board.shows(chosen)
    expect(board.rows.nth(5)).to_contain_class("tabulator-selected")


def test_half_a_line_waits_for_its_rest(board: BoardPage, run: Path) -> None:
    board.go(run=run.name).settled(3)
    whole = line(4, index=0)
    append(run / FILE, whole[:60])
    append(run / "rollout_data_rank_1.jsonl", line(5, rank=1, index=0))
    expect(board.badge).to_contain_text(f"2 ranks · {3 * SAMPLES + 1} samples · step 5")
    append(run / FILE, whole[60:])
    expect(board.badge).to_contain_text(f"2 ranks · {3 * SAMPLES + 2} samples · step 5")
    curve_equals_file(board, run)
    assert board.source("reward")["x"].tolist() == [1, 2, 3, 4, 5]


def test_a_new_run_appears_in_the_list(board: BoardPage, root: Path) -> None:
    board.go(run="old").settled(3)
    write_run(root / "deep" / "in" / "new", steps=2, samples=4)
    entry = board.page.locator(".rl-runs").get_by_role("treeitem", name="deep/in/new, live")
    expect(entry).to_be_visible()
    expect(board.badge).to_contain_text("old")
    board.at_step(3)
    entry.click()
    board.at_step(2)
    expect(board.badge).to_contain_text("deep/in/new")


def test_a_link_shows_its_run_before_the_reader_lists_it(open_board: OpenBoard, root: Path) -> None:
    folder = root / "soon"
    folder.mkdir()
    board = open_board(run="soon")
    selected = board.page.locator(".rl-runs [aria-selected=true] .label")
    expect(selected).to_have_text("soon")
    write_run(folder, steps=2, samples=4)
    board.settled(2)
    expect(board.badge).to_contain_text("soon")
    expect(selected).to_have_text("soon")


def test_a_run_that_starts_again_replaces_its_rows(board: BoardPage, run: Path) -> None:
    board.go(run=run.name).settled(3)
    rewrite(run / FILE, *(line(step, index=0, reward=step / 2) for step in (1, 2)))
    expect(board.badge).to_contain_text("2 samples · step 2")
    board.at_step(2)
    curve_equals_file(board, run)
    assert board.source("reward")["y"].tolist() == [0.5, 1.0]


@pytest.mark.slow
def test_every_open_browser_follows(board: BoardPage, open_board: OpenBoard, run: Path) -> None:
    boards = [board.go(run=run.name).settled(3), open_board(run=run.name, step=1).settled(1)]
    append(run / FILE, *(line(4, index=index) for index in range(SAMPLES)))
    for board in boards:
        curve_equals_file(board, run)
    boards[0].at_step(4)
    boards[1].at_step(1)


@pytest.fixture
def growing(root: Path) -> Iterator[Path]:
    """A run to which steps are appended, fifty per second, up to 400."""
    folder = write_run(root / "growing", steps=1, samples=2)
    stop = threading.Event()

    def write() -> None:
        for step in range(2, 401):
            append(folder / FILE, line(step, index=0), line(step, index=1))
            if stop.wait(0.02):
                return

    writer = threading.Thread(target=write)
    writer.start()
    yield folder
    stop.set()
    writer.join()


@pytest.mark.slow
def test_nothing_is_lost_while_the_page_loads(open_board: OpenBoard, growing: Path) -> None:
    board = open_board(run="growing")
    board.until(lambda: "step 400" in board.badge.locator("div").text_content(), "the last step")
    board.at_step(400)
    curve_equals_file(board, growing)
    curve_equals_file(board, growing, "kl_k3_mean")
