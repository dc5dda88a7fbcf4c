"""The page *Update*: what carried a step's gradient, and what other losses make of its samples."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import expect

import rlpanel
from rlpanel.app.demo import write_recording
from tests.factories import append, line, write_run
from tests.ui.board import BoardPage

HACK = Path(__file__).parents[1] / "data" / "hacks" / "phrase"
IMAGES = Path(__file__).parents[2] / "docs" / "images"
ATTACK = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    write_recording("grpo_calculator", root / "tools")
    hostile = write_run(root / "hostile", steps=0)
    rows = [
        line(1, index=index, group=f"{ATTACK}{index // 4}", lang=ATTACK, reward=float(index % 4))
        for index in range(8)
    ]
    append(hostile / "rollout_data_rank_0.jsonl", *rows)
    (hostile / "run.json").write_text('{"algo": "dr_grpo"}')
    shutil.copytree(HACK, root / "hack")
    judged = [
        line(
            step, index=index, group=f"{step}-{index // 4}", reward=float(index % 2), ground_truth="x",
            rewards={ATTACK: float(index % 2), "penalty": -0.25 * (index % 3)},
            judge={ATTACK: f"because {ATTACK}"}, response="Surely so" if index % 2 else "No",
        )
        for step in (1, 2)
        for index in range(80)
    ]  # fmt: skip
    append(write_run(root / "judged", steps=0) / "rollout_data_rank_0.jsonl", *judged)
    (root / "judged" / "run.json").write_text('{"algo": "grpo"}')


@pytest.mark.parametrize("theme", ["dark", pytest.param("light", marks=pytest.mark.slow)])
def test_the_page_shows_what_carried_the_update(board: BoardPage, theme: str) -> None:
    board.open(run="tools", page="update", step=22, theme=theme)  # a theme is taken when a page loads
    page = board.page
    expect(page.locator(".rl-update-head h3")).to_contain_text("samples carry half of the update")
    expect(page.locator(".rl-update-tree rect.sample").first).to_be_visible()
    widths = page.locator(".rl-update-tree rect.group").evaluate_all(
        "rects => rects.map(r => r.width.baseVal.value)"
    )
    assert widths == sorted(widths, reverse=True)  # the heaviest group first
    expect(page.locator(".rl-update-losses button").first).to_contain_text("this run")
    if os.environ.get("RLPANEL_SHOTS"):
        page.screenshot(path=IMAGES / f"update-{theme}.png")


def test_a_click_selects_the_sample_and_a_dimension_lists_its_values(board: BoardPage) -> None:
    board.go(run="tools", page="update", step=22)
    page = board.page
    heaviest = page.locator(".rl-update-tree rect.sample").first
    uid = heaviest.get_attribute("data-uid")
    assert uid
    heaviest.click()
    expect(page).to_have_url(re.compile(f"sample={re.escape(uid).replace(':', '%3A')}"))
    page.locator(".rl-update-bar").get_by_role("tab", name="token", exact=True).click()
    titles = page.locator(".rl-update-rows .titles span")
    expect(titles.nth(2)).to_have_text("token")  # every dimension has a column named "tokens"
    page.locator(".rl-update-rows button").first.click()
    expect(page).to_have_url(re.compile("filter=response"))


def test_phrases_are_counted_in_the_next_steps_on_demand(board: BoardPage) -> None:
    board.go(run="tools", page="update", step=15)
    page = board.page
    expect(page.locator(".rl-update-next")).to_be_hidden()
    page.locator(".rl-update-bar").get_by_role("tab", name="phrase", exact=True).click()
    expect(page.locator(".rl-update-rows .titles")).not_to_contain_text("sum")  # shares may overlap
    page.locator(".rl-update-next button").click()
    expect(page.locator(".rl-update-next-words")).to_contain_text("from step 16 to 20")
    expect(page.locator(".rl-update-next-words")).to_contain_text("rank correlation")
    expect(page.locator(".rl-update-rows .titles")).to_contain_text("next steps")
    board.go(run="hack", page="update", step=10)  # this run logs no tokens
    expect(page.locator(".rl-update-tree rect.sample").first).to_be_visible()
    expect(page.locator(".rl-update-next")).to_be_hidden()


def test_the_constants_of_a_loss_are_in_the_address(board: BoardPage) -> None:
    board.go(run="tools", page="update", step=22)
    page = board.page
    page.locator(".rl-update-losses button", has_text="CISPO").click()
    expect(page).to_have_url(re.compile("loss=cispo"))
    page.locator(".rl-update-beta").get_by_role("slider").press("ArrowRight")
    expect(page).to_have_url(re.compile(r"loss=cispo\+beta%3D0\.002"))
    page.reload()
    expect(page.locator(".rl-update-beta")).to_contain_text("0.0020")
    expect(page.locator(".rl-update-losses .chosen")).to_contain_text("CISPO")


def test_the_table_of_losses_is_a_file_with_its_constants_and_the_same_in_python(
    board: BoardPage, root: Path
) -> None:
    board.go(run="tools", page="update", step=22, loss="cispo beta=0.02 epsilon_high=0.1")
    page = board.page
    chosen = page.locator(".rl-update-losses .chosen")
    expect(chosen).to_contain_text("CISPO")
    board.settled()
    head = page.locator(".rl-update-losses-head")
    head.locator("summary").click()
    with page.expect_download() as taken:
        head.locator(".list button").filter(has_text=re.compile("^CSV$")).click()
    assert taken.value.suggested_filename == "tools-losses-22.csv"
    exported = pd.read_csv(taken.value.path()).set_index("algorithm").loc["cispo"]
    with rlpanel.open_run(root / "tools", follow=False) as run:
        found = run.what_if("cispo", beta=0.02, epsilon_high=0.1, step=22).frame()
        usual = run.what_if("cispo", step=22).frame()
    ours = found[found.algorithm == "cispo"].iloc[0]
    assert f"{ours.effective:.2f}" in chosen.inner_text()
    assert "ε_high = 0.1" in exported.formula
    assert "β = 0.02" in exported.formula
    for name in ("effective", "weighted", "std", "gained", "lost", "correlation"):
        assert exported[name] == pytest.approx(ours[name]), name
    assert ours.effective != usual[usual.algorithm == "cispo"].iloc[0].effective
    assert exported.approximated == "; ".join(ours.approximated)


def test_names_of_a_log_stay_text(board: BoardPage) -> None:
    board.go(run="hostile", page="update", step=1)
    page = board.page
    expect(page.locator(".rl-update-tree text", has_text="<img").first).to_be_visible()
    page.locator(".rl-update-bar").get_by_role("tab", name="group", exact=True).click()
    expect(page.locator(".rl-update-rows button").first).to_contain_text(ATTACK)
    assert page.locator("img[src=x]").count() == 0


def test_two_clicks_show_the_samples_of_a_reward_hack(board: BoardPage) -> None:
    """On the page *Update*: what the reward pays for by mistake, and the samples with that phrase."""
    board.go(run="hack", page="update", step=20)
    page = board.page
    page.evaluate("""() => {
        window.clicks = 0
        addEventListener("click", (event) => { window.clicks += event.isTrusted }, true)
    }""")
    parts = page.locator(".rl-reward-parts button")
    expect(parts).to_have_count(2)
    expect(parts.first).to_contain_text("judge")
    expect(parts.first).to_contain_text("100.0%")
    expect(page.locator(".rl-reward-plot canvas").first).to_be_visible()
    page.locator(".rl-reward-find button").click()
    feature = page.locator(".rl-reward-features button").first
    expect(feature).to_contain_text("Let me count")
    is_whole = "name => name.scrollWidth <= name.clientWidth && name.scrollHeight <= name.clientHeight"
    assert feature.locator(".label span").evaluate(is_whole)
    expect(page.locator(".rl-reward-said")).to_contain_text("Candidates of a reward hack")
    assert page.evaluate("window.clicks") == 1
    feature.click()
    expect(page).to_have_url(re.compile(r"filter=response\+contains.*Let\+me\+count"))
    rows = page.locator(".rl-samples .tabulator-row, .rl-grid .tabulator-row")
    expect(rows.first).to_be_visible()
    assert page.evaluate("window.clicks") == 2


def test_phrases_are_a_dimension_and_link_to_their_samples(board: BoardPage) -> None:
    board.go(run="tools", page="update", step=22)
    page = board.page
    page.locator(".rl-update-bar").get_by_role("tab", name="phrase").click()
    expect(page.locator(".rl-update-rows .titles")).to_contain_text("phrase")
    page.locator(".rl-update-rows button").first.click()
    expect(page).to_have_url(re.compile("filter=response"))
    expect(page.locator(".rl-samples .tabulator-row, .rl-grid .tabulator-row").first).to_be_visible()


def test_what_judges_wrote_stands_beside_their_score_as_text(board: BoardPage) -> None:
    board.go(run="judged", page="update", step=1)
    page = board.page
    expect(page.locator(".rl-reward-legend")).to_contain_text(ATTACK)
    page.locator(".rl-reward-find button").click()
    page.locator(".rl-reward-features button").first.click()
    expect(page.locator(".rl-reward-judges p.judge").first).to_contain_text(f"because {ATTACK}")
    expect(page.locator(".rl-reward-judges p.judge").first).to_contain_text(f"{ATTACK} 1")
    assert page.locator("img[src=x]").count() == 0


def test_other_reward_weights_and_groups_are_in_the_address(board: BoardPage) -> None:
    board.go(run="judged", page="update", step=1)
    page = board.page
    weights = page.locator(".rl-update-weights input")
    weights.fill("penalty=0")
    weights.press("Enter")
    expect(page).to_have_url(re.compile("loss=reward_weights"))
    expect(page.locator(".rl-update-losses button").nth(1)).to_contain_text("changed")
    page.locator(".rl-update-losses button", has_text="RLOO").click()
    expect(page).to_have_url(re.compile("loss=rloo\\+reward_weights"))
    page.reload()
    expect(page.locator(".rl-update-weights input")).to_have_value("penalty=0")
    expect(page.locator(".rl-update-losses .chosen")).to_contain_text("RLOO")
    wrong = page.locator(".rl-update-groups input")
    wrong.fill("1..0")
    wrong.press("Enter")
    expect(page.locator(".rl-update-words")).to_contain_text("no range")
