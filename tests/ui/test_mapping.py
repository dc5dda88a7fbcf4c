"""The form for a folder in no known format: it previews changes, opens the folder, and saves the mapping."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.factories import append
from tests.ui.board import BoardPage, Served
from tests.ui.conftest import OpenBoard

SCRIPT = "<img src=x onerror=alert(1)>"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a log that names nothing as rlpanel does."""
    made = tmp_path / "root"
    made.mkdir()
    for at in range(6):
        row = {
            "ask": {"words": f"{SCRIPT} {at}?"},
            "said": f"answer {at}",
            "mark": at / 4,
            "__proto__": SCRIPT,
        }
        append(made / "log.jsonl", json.dumps(row).encode() + b"\n")
    return made


@pytest.fixture
def server(folder: Path) -> Iterator[Served]:
    with Served(folder) as made:
        yield made


def choose(board: BoardPage, field: str, key: str) -> None:
    form = board.page.locator(".rl-mapping")
    form.get_by_label(field, exact=True).select_option(key)


def test_fields_are_chosen_previewed_and_opened(server: Served, open_board: OpenBoard) -> None:
    board = open_board(server=server)
    board.stage.get_by_role("button", name="Map the fields of a file").click()
    form = board.page.locator(".rl-mapping")
    expect(form.locator(".tree .line")).to_have_count(5)
    expect(form.get_by_role("button", name="Open", exact=True)).to_be_disabled()
    choose(board, "prompt", "ask.words")
    choose(board, "response", "said")
    choose(board, "reward", "mark")
    expect(form.locator(".sample")).to_have_count(3)
    expect(form.locator(".sample").nth(1)).to_contain_text("reward0.25")
    expect(form.locator(".sample").nth(1)).to_contain_text(f"{SCRIPT} 1?")
    expect(form.locator(".tree .mapped")).to_have_text(["prompt", "response", "reward"])
    form.get_by_label("Step of all samples").fill("7")
    form.get_by_label("Step of all samples").press("Enter")
    expect(form.locator(".sample").first).to_contain_text("step7")
    form.get_by_role("button", name="Open", exact=True).click()
    board.at_step(7)
    expect(form).to_be_hidden()
    expect(board.rows).to_have_count(6)
    expect(board.rows.first).to_contain_text(SCRIPT)


def test_the_mapping_is_saved_from_a_narrow_page(server: Served, open_board: OpenBoard, folder: Path) -> None:
    board = open_board(server=server)
    board.page.set_viewport_size({"width": 400, "height": 800})
    board.stage.get_by_role("button", name="Map the fields of a file").click()
    choose(board, "response", "said")
    form = board.page.locator(".rl-mapping")
    expect(form.locator(".sample")).to_have_count(3)
    assert form.evaluate("(form) => form.scrollWidth <= form.clientWidth")
    form.locator("summary").click()
    expect(form.locator("pre").last).to_contain_text('response = "said"')
    form.get_by_role("button", name="Save and open").click()
    expect(form).to_be_hidden()
    saved = tomllib.loads((folder / "rlpanel.toml").read_text())["map"]
    assert saved == {"response": "said", "step": 0}
    board.settled(0)


def test_a_guess_is_shown_and_changed(open_board: OpenBoard, tmp_path: Path) -> None:
    for at in range(6):
        row = {"question": f"q{at}", "completion": f"a{at}", "passed": at % 2 == 0, "other": at}
        append(tmp_path / "log.jsonl", json.dumps(row).encode() + b"\n")
    with Served(tmp_path) as server:
        board = open_board(server=server).settled(0)
        notice = board.page.locator(".rl-guess")
        expect(notice).to_contain_text("reward ← passed")
        board.head_says("Reward", "0.5")
        notice.get_by_role("button", name="change").click()
        form = board.page.locator(".rl-mapping")
        expect(form.locator(".sample")).to_have_count(3)
        expect(board.grid).not_to_be_visible()
        choose(board, "reward", "other")
        expect(form.locator(".sample").nth(2)).to_contain_text("reward2")
        form.get_by_role("button", name="Open", exact=True).click()
        board.head_says("Reward", "2.5")
        expect(notice).to_be_hidden()
        expect(board.rows).to_have_count(6)
