"""The tabs of a sample: related samples, the token ranking of its step, and the link to a token."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Page, expect

from rlpanel.app.demo import write_recording
from rlpanel.number_text import number
from tests.factories import append, line
from tests.ui.board import BoardPage, cells_of
from tests.ui.raw import raw_frame

PPO = "couplets-ppo"
PAYLOAD = "<img src=x onerror=\"window.ran = 'compare'\">"
QUESTIONS = [f"question {n}" for n in range(40)]
LONG = [f"line {n} of a long answer" for n in range(400)]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    write_recording("ppo_couplets", root / PPO)
    for name, lines in {
        "texts": [
            line(1, prompt="p", group="a", tokens=False, response=f"the cat sat\n{PAYLOAD}",
                 ref_response=f"the dog sat\n{PAYLOAD} too", reward=0.25),
            line(1, prompt="p", group="a", tokens=False, index=1, response="the cat ran", reward=0.75),
            line(2, prompt="p", group="a", tokens=False, response="a cat sat", reward=1.5),
        ],
        "long": [
            line(1, tokens=False, response="\n".join(LONG),
                 ref_response="\n".join(text.replace("line 7 ", "row 7 ") for text in LONG)),
        ],
        "chat": [line(1, prompt=f"You are {PAYLOAD}<|im_end|>\n" + "\n".join(QUESTIONS))],
        "plain": [line(1, tokens=False, drop=["ref_response", "ground_truth", "group"])],
    }.items():  # fmt: skip
        (root / name).mkdir()
        append(root / name / "rollout_data_rank_0.jsonl", *lines)
    return root


def raw_tokens(root: Path, step: int) -> pd.DataFrame:
    """Return one row per token of the step, from the file, without rlpanel."""
    rows, offset = [], 0
    for text in (root / PPO / "rollout_data_rank_0.jsonl").read_bytes().split(b"\n")[:-1]:
        found = json.loads(text)
        if found["step"] == step:
            ratio = np.array(found["logprobs"]) - np.array(found["ref_logprobs"])
            columns = {
                "token": found["response_tokens"],
                "kl": np.exp(-ratio) - 1 + ratio,
                "error": np.abs(np.array(found["values"]) - np.array(found["returns"])),
                "at": range(len(ratio)),
            }
            rows.append(pd.DataFrame(columns).assign(uid=f"rollout_data_rank_0.jsonl:{offset}"))
        offset += len(text) + 1
    return pd.concat(rows, ignore_index=True)


def choose(page: Page, select: str, option: str) -> None:
    page.locator(select).locator("select").select_option(label=option)


def test_a_prompt_is_folded_to_a_line_and_opens_below_its_system_prompt(board: BoardPage) -> None:
    board.go(run="chat", step=1).settled(1)
    prompt = board.page.locator(".rl-prompt details.prompt")
    summary = prompt.locator("> summary")
    expect(summary).to_contain_text(PAYLOAD)
    assert (prompt.bounding_box() or {})["height"] < 30
    marker = board.settings().get_by_label("System prompt ends", exact=True)
    marker.fill("<|im_end|>")
    marker.press("Enter")
    expect(summary).not_to_contain_text("You are")
    expect(summary).to_contain_text("question 0 question 1")
    summary.click()
    expect(prompt.locator("> div")).to_contain_text("question 39")
    expect(prompt.get_by_text("system prompt · 52 characters")).to_be_visible()
    assert board.page.evaluate("window.ran") is None
    marker.fill("")
    marker.press("Enter")
    expect(summary).to_contain_text("You are")


def test_what_differs_from_the_reference_is_marked_and_markup_stays_text(board: BoardPage) -> None:
    board.go(run="texts", step=1).settled(1)
    board.tab("Diff")
    choose(board.page, ".rl-against", "Reference response")
    view = board.page.locator(".rl-compare")
    expect(view.locator(".sides ins")).to_have_text(["cat "])
    expect(view.locator(".sides del")).to_have_text(["dog ", "too"])
    expect(view.locator(".sides > div").nth(3)).to_have_text(f"{PAYLOAD} too")
    for tag, drawn in (("ins", "solid"), ("del", "dotted")):
        expect(view.locator(f".sides {tag}").first).to_have_css("text-decoration-style", drawn)
    assert view.locator("img").count() == 0
    assert board.page.evaluate("window.ran") is None


def test_the_group_and_another_step_are_laid_beside_and_one_click_away(board: BoardPage) -> None:
    board.go(run="texts", step=1).settled(1)
    board.tab("Diff")
    head = board.page.locator(".rl-compare h5").nth(1)
    choose(board.page, ".rl-against", "Another sample of the group (1)")
    expect(head).to_contain_text("Rollout 2 of 2")
    expect(board.page.locator(".rl-compare")).to_contain_text("the highest reward of the group")
    expect(board.page.locator(".rl-compare .sides > div").nth(1)).to_have_text("the cat ran")
    choose(board.page, ".rl-against", "Same prompt at another step (1)")
    expect(head).to_contain_text("Step 2")
    expect(board.page.locator(".rl-compare .sides > div").nth(1)).to_have_text("a cat sat")
    board.page.get_by_role("button", name="Open sample", exact=True).click()
    board.at_step(2)
    expect(head).to_contain_text("Step 1")


def test_the_two_sides_of_a_long_text_scroll_together(board: BoardPage) -> None:
    board.go(run="long", step=1).settled(1)
    board.tab("Diff")
    sides = board.page.locator(".rl-compare .sides > div")
    expect(sides).to_have_count(800)
    for at in (100, 790):
        left, right = sides.nth(2 * (at // 2)), sides.nth(2 * (at // 2) + 1)
        left.scroll_into_view_if_needed()
        here, there = left.bounding_box(), right.bounding_box()
        assert here is not None
        assert there is not None
        assert (here["y"], here["height"]) == (there["y"], there["height"])
    expect(board.page.locator(".rl-compare .sides del")).to_have_text(["row "])


def test_a_sample_with_nothing_beside_it_says_so(board: BoardPage) -> None:
    board.go(run="plain", step=1).settled(1)
    board.tab("Diff")
    expect(board.page.locator(".rl-compare")).to_contain_text("Nothing to compare with")
    board.tab("Rollouts")
    expect(board.page.locator(".rl-rollouts-view .words")).to_contain_text("response_tokens")
    assert "Token ranking" not in board.page.locator(".rl-pages").inner_text()


def test_the_steps_tokens_are_ranked_as_pandas_ranks_them(board: BoardPage, root: Path) -> None:
    frame = raw_tokens(root, 30)
    board.go(run=PPO, step=30).settled(30)
    board.tab("Token ranking")
    table = board.page.locator(".rl-ranking")
    for column, option in (("error", "Highest mean |value − return|"), ("kl", "Highest mean KL k3 (nats)")):
        wanted = frame.groupby("token")[column].agg(["size", "mean", "max"]).query("size >= 3")
        wanted = wanted.sort_values("mean", ascending=False)
        choose(board.page, ".rl-measure", option)
        expect(table.locator('[tabulator-field="c_mean"].tabulator-cell').first).to_have_text(
            number(wanted["mean"].iloc[0])
        )
        rows = table.locator(".tabulator-row").all()[:8]
        for row, (token, values) in zip(rows, wanted.iterrows(), strict=False):
            cells = [text.strip() for text in row.locator(".tabulator-cell:visible").all_inner_texts()]
            assert cells[0] == (f"“{token}”" if token else "∅ (empty token)")
            assert cells[1:4] == [f"{values['size']:,.0f}", number(values["mean"]), number(values["max"])]


def test_a_ranked_token_leads_to_where_it_is_largest_and_the_link_leads_there_too(
    board: BoardPage, root: Path
) -> None:
    frame = raw_tokens(root, 30)
    counted = frame[frame.groupby("token").token.transform("size") >= 3]
    token = counted.groupby("token").kl.mean().idxmax()
    places = counted[counted.token == token].sort_values("kl", ascending=False, kind="stable")
    place, second = places.iloc[0], places.iloc[1]
    board.go(run=PPO, step=30).settled(30)
    board.tab("Token ranking")
    row = board.page.locator(".rl-ranking .tabulator-row").first
    row.locator('[tabulator-field="c_second"]').click()
    board.shows(second.uid)
    head = board.page.locator(".rl-pin .rl-tip-head")
    expect(head).to_contain_text(f"#{second['at']} “{token}”")
    board.tab("Token ranking")
    row.locator('[tabulator-field="c_token"]').click()
    board.shows(place.uid)
    expect(head).to_contain_text(f"#{place['at']} “{token}”")
    board.until(lambda: f"token={place['at']}" in board.page.url, "the link names the token")
    board.open(run=PPO, step=30, sample=place.uid, token=place["at"]).settled(30)
    board.shows(place.uid)
    expect(head).to_contain_text(f"#{place['at']} “{token}”")
    expect(board.page.locator(f'[data-i="{place["at"]}"].pinned')).to_be_visible()
    view = board.page.locator(".rl-tokens")
    view.press("ArrowRight")  # the page's own arrow key changes the step
    expect(head).to_contain_text(f"#{place['at'] + 1} ")
    view.press("Escape")
    expect(head).to_have_count(0)
    board.at_step(30)
    board.press("k")
    view.press("ArrowRight")
    expect(head).to_contain_text("#0 ")
    board.press("j")
    board.until(lambda: "token=" not in board.page.url, "another sample lets go of the token")
    expect(head).to_have_count(0)


def test_a_rare_token_is_left_out_until_it_is_asked_for(board: BoardPage, root: Path) -> None:
    frame = raw_tokens(root, 30)
    sizes = frame.groupby("token").size()
    board.go(run=PPO, step=30).settled(30)
    board.tab("Token ranking")
    rows = board.page.locator('.rl-ranking [tabulator-field="c_count"].tabulator-cell')
    expect(rows.first).to_be_visible()
    choose(board.page, ".rl-least", "Seen at least 30 times")
    expect(rows).to_have_count(int((sizes >= 30).sum()))
    choose(board.page, ".rl-least", "Seen at least 300 times")
    expect(board.page.locator(".rl-ranking-note")).to_contain_text("no token is seen that often")
    choose(board.page, ".rl-least", "Seen at least 3 times")


def test_the_ranking_follows_the_grids_search(board: BoardPage, root: Path) -> None:
    board.go(run=PPO, step=30).settled(30)
    board.tab("Token ranking")
    note = board.page.locator(".rl-ranking-note")
    expect(note).to_contain_text("in 64 samples")
    board.search.fill("silver")
    board.search.press("Enter")
    frame = raw_tokens(root, 30)
    expect(board.count).to_contain_text("match")
    hits = int(board.count.inner_text().split()[0])
    raw = raw_frame(root / PPO)
    uids = raw.uid[(raw.step == 30) & (raw.prompt + raw.response).str.contains("silver")]
    sizes = frame[frame.uid.isin(uids)].groupby("token").kl.agg(["size", "mean"]).query("size >= 3")
    assert hits == len(uids)
    expect(note).to_contain_text(f"in {hits} of 64 samples that match the grid's search")
    found = board.page.locator('.rl-ranking [tabulator-field="c_mean"].tabulator-cell')
    expect(found.first).to_have_text(number(sizes["mean"].max()))
    expect(found).to_have_count(min(len(sizes), 50))


@pytest.mark.slow
def test_the_ranking_takes_in_new_samples_where_it_stands(board: BoardPage, root: Path) -> None:
    tokens = [f"t{n}" for n in range(60)]
    ratios = [-0.01 * n for n in range(60)]
    log = root / "growing" / "rollout_data_rank_0.jsonl"
    log.parent.mkdir()
    fields = {"tokens": False, "response_tokens": tokens, "logprobs": ratios, "ref_logprobs": [0.0] * 60}
    append(log, *(line(1, index=index, **fields) for index in range(3)))
    board.go(run="growing", step=1).settled(1)
    board.tab("Token ranking")
    note, table = (
        board.page.locator(".rl-ranking-note"),
        board.page.locator(".rl-ranking .tabulator-tableholder"),
    )
    expect(note).to_contain_text("180 tokens in 3 samples")
    counts = board.page.locator('.rl-ranking [tabulator-field="c_count"].tabulator-cell')
    expect(counts.nth(8)).to_have_text("3")
    table.evaluate("holder => { holder.scrollTop = 300 }")
    board.until(lambda: table.evaluate("holder => holder.scrollTop") == 300, "the table is scrolled")
    append(log, line(1, index=3, **fields))
    expect(note).to_contain_text("240 tokens in 4 samples")
    expect(counts.nth(8)).to_have_text("4")
    board.until(lambda: table.evaluate("holder => holder.scrollTop") == 300, "the table stays where it was")


@pytest.mark.slow
def test_every_title_of_the_ranking_stands_over_its_numbers(board: BoardPage) -> None:
    board.go(run=PPO, step=30).settled(30)
    board.tab("Token ranking")
    expect(board.page.locator(".rl-ranking .tabulator-row").first).to_be_visible()
    for name in ("count", "mean", "largest", "at", "second", "third"):
        title = board.page.locator(f".rl-ranking .tabulator-col{cells_of(name)}")
        cell = board.page.locator(f".rl-ranking .tabulator-cell{cells_of(name)}").first
        board.until(
            lambda title=title, cell=cell: abs(title.evaluate(_EDGE) - cell.evaluate(_EDGE)) <= 2, name
        )


#: The right end of an element's text.
_EDGE = """(element) => {
    const range = document.createRange()
    range.selectNodeContents(element.querySelector(".tabulator-col-title") ?? element)
    return range.getBoundingClientRect().right
}"""
