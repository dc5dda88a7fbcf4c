"""The groups of a step: strip, table, and the samples of one group side by side."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Locator, expect

from tests.factories import append, sample, write_run
from tests.ui.board import BoardPage, cells_of
from tests.ui.raw import raw_frame

STEP = 45
#: The texts of KL k3 in the registry: help, advice and source.
FULL = re.compile("KL k3.*Never below 0.*Good: near 0.*Formula: .*[Ss]chulman", re.DOTALL)
MARKUP = "<img src=x onerror='window.ran = 1'>"


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path, grpo_run: Path) -> None:
    """The recorded run, a run that grows and whose group names are markup, and a run without groups."""
    shutil.copytree(grpo_run, root / "grpo")
    append_groups(root / "grows", 1, 8)
    write_run(root / "alone", steps=2, prompt=None, drop=["group"])


@pytest.fixture(scope="module")
def raw(root: Path) -> pd.DataFrame:
    """The recorded step as read by pandas."""
    return raw_frame(root / "grpo").query("step == @STEP")


def append_groups(folder: Path, first: int, last: int) -> None:
    """Append groups of two to step 1; their rewards are the number and twice the number."""
    folder.mkdir(exist_ok=True)
    rows = [
        sample(1, group=f"{MARKUP}{at}", reward=at * (place + 1), response=f"{MARKUP} {at}", tokens=False)
        for at in range(first, last + 1)
        for place in (0, 1)
    ]
    append(folder / "rollout_data_rank_0.jsonl", *(json.dumps(row).encode() + b"\n" for row in rows))


def tap(board: BoardPage, share: float) -> None:
    """Click the strip at a fraction of its width."""
    box = board.page.locator(".rl-groups .bars svg").first.bounding_box()
    assert box is not None
    left, right = box["x"] + 34, box["x"] + box["width"] - 8
    board.page.mouse.click(left + share * (right - left), box["y"] + 60)


def strip(board: BoardPage) -> Locator:
    return board.page.locator(".rl-groups .head")


def cards(board: BoardPage) -> Locator:
    return board.page.locator(".rl-group-cards .card")


def test_the_strip_is_what_pandas_counts_sorted_by_mean(board: BoardPage, raw: pd.DataFrame) -> None:
    board.go(run="grpo", step=STEP).settled(STEP)
    expect(strip(board)).to_have_text("Groups 8, 2 all high")
    wanted = raw.groupby("group_id").reward.agg(["mean", "std", "max", "min"]).sort_values("mean")
    held = dict(board.bar_plot("rl-groups")["tips"]["rows"])
    for name, column in {"mean": "mean", "std": "std", "highest": "max", "lowest": "min"}.items():
        np.testing.assert_allclose(held[name], wanted[column], rtol=1e-5, atol=1e-9)


def test_a_click_lays_a_group_side_by_side_and_a_step_lets_it_go(board: BoardPage, raw: pd.DataFrame) -> None:
    board.go(run="grpo", step=STEP).settled(STEP)
    means = raw.groupby("group_id").reward.mean()
    worst = raw[raw.group_id == means.idxmin()]
    tap(board, 0.01)
    expect(board.count).to_have_text("8 of 64 match")
    expect(cards(board)).to_have_count(8)
    expect(cards(board).locator("p")).to_have_text(worst.response.tolist())
    logged = cards(board).locator('[data-name="advantage"] dd').all_text_contents()
    recomputed = cards(board).locator('[data-name="grpo_advantage"] dd').all_text_contents()
    assert logged == recomputed
    expect(board.page.locator(".rl-fit")).to_contain_text("from GRPO, ")
    cards(board).nth(3).click()
    board.shows(worst.uid.iloc[3])
    board.press("ArrowRight")
    board.at_step(STEP + 1)
    expect(board.count).to_contain_text("64 of step")


def test_the_table_of_groups_leads_to_one(board: BoardPage, raw: pd.DataFrame) -> None:
    board.go(run="grpo", step=STEP).settled(STEP)
    board.tab("Group")
    board.pick(".rl-group-tab .rl-what", "All groups of the step")
    rows = board.page.locator(".rl-group-table .tabulator-row")
    expect(rows).to_have_count(8)
    passing = (raw.groupby("group_id").reward.agg(lambda reward: (reward >= 1).mean())).mean()
    expect(board.page.locator(".rl-group-note")).to_contain_text(f"8 groups · pass@1 {passing:.3g} · ")
    fifth = raw.group_id.unique()[5]
    expect(rows.nth(5).locator(cells_of("group"))).to_have_text(str(fifth))
    expect(rows.nth(5).locator(cells_of("prompt"))).to_contain_text(
        raw[raw.group_id == fifth].prompt.iloc[0].splitlines()[0][:8]
    )
    rows.nth(5).locator(cells_of("group")).click()
    expect(cards(board)).to_have_count(8)
    expect(cards(board).locator("p")).to_have_text(raw[raw.group_id == fifth].response.tolist())


def test_groups_stream_into_the_shown_step_as_texts(board: BoardPage, root: Path) -> None:
    board.go(run="grows", step=1).settled(1)
    expect(strip(board)).to_contain_text("8")
    append_groups(root / "grows", 9, 12)
    board.until(lambda: board.bar_plot("rl-groups")["x"][1] == 12)
    tap(board, 0.99)
    expect(cards(board)).to_have_count(2)
    expect(cards(board).locator("p")).to_have_text([f"{MARKUP} 12"] * 2)
    assert board.page.evaluate("window.ran") is None


def test_without_groups_nothing_is_shown(board: BoardPage) -> None:
    board.go(run="alone", step=2).settled(2)
    expect(board.page.locator(".rl-groups")).not_to_be_visible()


@pytest.mark.slow
def test_every_head_says_what_it_is_how_to_read_it_and_where_it_is_from(board: BoardPage) -> None:
    board.go(run="grpo", step=STEP).settled(STEP)
    page = board.page
    for place in (
        board.curve("KL k3").locator(".head"),
        page.locator(".rl-numbers .number[title]").filter(has_text="KL k3"),
    ):
        expect(place).to_have_attribute("title", FULL)
    board.tab("Tokens")
    expect(page.locator('.rl-chips [data-metric="kl_k3"]')).to_have_attribute("title", FULL)
    board.header("kl_k3_mean").hover()
    expect(page.locator(".rl-grid .tabulator-tooltip, .tabulator-tooltip").first).to_contain_text(FULL)
