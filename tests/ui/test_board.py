"""Every panel of the board shows the values of the file, and every click selects the right object."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import expect

from rlpanel.app.demo import write_recording
from rlpanel.number_text import number
from tests.factories import write_run
from tests.ui.board import BoardPage, Served
from tests.ui.conftest import Profile
from tests.ui.raw import band, raw_frame

GRPO, PPO = "couplets-grpo", "couplets-ppo"
HUNDREDS = ["Reward", "Response length", "Reward gap"]
CURVES = {"Reward": "reward", "KL k3": "kl_k3", "Response length": "tokens", "Surprisal": "surprisal"}
SOURCES = {
    "reward": "reward",
    "kl_k3": "kl_k3_mean",
    "tokens": "response_tokens",
    "surprisal": "surprisal_mean",
}


#: Notes which parts of the board exist when the first view is removed.
NOTE_DRAWN = """
const has = (node, part) => node.classList?.contains(part)
    || (node.shadowRoot && has(node.shadowRoot, part))
    || [...node.children ?? []].some((child) => has(child, part))
document.addEventListener("rlpanel-settled", () => {
    window.drawn = ["tabulator-row", "rl-sample-head", "rl-curve"].filter((part) => has(document, part))
})
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    write_recording("grpo_couplets", root / GRPO)
    write_recording("ppo_couplets", root / PPO)
    write_run(root / "with-reference", steps=2, samples=16, valid_reward=0.25, ref_valid_reward=0.75)
    for twin in ("a", "b"):
        write_run(root / f"twin-{twin}", steps=1, samples=1, response=f"the answer of {twin}")
    write_run(root / "hundreds", steps=range(0, 2400, 100), tokens=False)
    return root


@pytest.fixture(scope="module")
def raw(root: Path) -> dict[str, pd.DataFrame]:
    return {folder.name: raw_frame(folder) for folder in root.iterdir()}


def assert_curve(board: BoardPage, name: str, wanted: dict[str, np.ndarray]) -> None:
    shown = board.source(name)
    for key, values in wanted.items():
        np.testing.assert_allclose(shown[key], values, rtol=1e-9, atol=1e-12, err_msg=f"{name} {key}")


def change_of(means: pd.Series[float]) -> str:
    """Return the change of the last step against the ten before, if it exceeds their noise."""
    before = means.iloc[-11:-1]
    change, noise = means.iloc[-1] - before.mean(), 2 * before.std() * np.sqrt(1.1)
    return f"{'▲' if change > 0 else '▼'} {number(abs(change))}" if abs(change) > noise else ""


def test_keys_walk_samples_and_steps(board: BoardPage, raw: dict[str, pd.DataFrame]) -> None:
    frame = raw[PPO]
    board.go(run=PPO, step=30).settled(30)
    uids = frame[frame.step == 30].uid.tolist()
    board.page.locator(".logo").first.click()  # arrow keys on a tab would choose another tab
    for key, at in (("j", 1), ("j", 2), ("k", 1)):
        board.press(key)
        board.shows(uids[at])
    for key, step in (("ArrowRight", 31), ("ArrowLeft", 30), ("ArrowLeft", 29)):
        board.press(key)
        board.at_step(step)
    board.shows(frame[frame.step == 29].uid.iloc[0])
    expect(board.page.locator(".rl-follow input")).not_to_be_checked()


def test_j_goes_on_to_the_next_page_of_the_grid(board: BoardPage, raw: dict[str, pd.DataFrame]) -> None:
    uids = raw[PPO].query("step == 30").uid.tolist()
    board.go(run=PPO, step=30).settled(30)
    rows = board.rows.count()
    for at in range(1, rows + 1):
        board.press("j")
        board.shows(uids[at])
    expect(board.grid.locator(".tabulator-page.active")).to_have_text("2")
    expect(board.selected).to_have_count(1)


@pytest.mark.parametrize("run", [PPO, GRPO])
def test_every_panel_shows_the_numbers_of_the_file(
    board: BoardPage, raw: dict[str, pd.DataFrame], run: str
) -> None:
    frame = raw[run]
    board.go(run=run).settled(60)
    expect(board.page.locator(".rl-curve")).to_have_count(4 if run == GRPO else 5)
    for title, column in CURVES.items():
        if (title, run) == ("Surprisal", PPO):
            continue  # a run with a critic shows the critic's curves instead
        assert_curve(board, SOURCES[column], band(frame, column))
        means = frame.groupby("step")[column].mean()
        board.head_says(title, number(means.iloc[-1]), change_of(means))
    expect(board.step_label).to_have_text("Step 60 of 60, 64 samples")
    expect(board.badge).to_contain_text(f"{run}")
    expect(board.badge).to_contain_text("1 rank · 3,840 samples · step 60")
    last_step = frame[frame.step == 60]
    numbers = board.page.locator(".rl-numbers .number").all()
    labels = [each.locator(".label").inner_text() for each in numbers]
    shown = {
        label: each.inner_text()[len(label) :].strip() for label, each in zip(labels, numbers, strict=True)
    }
    for label, column in {"log-ratio": "log_ratio", "KL k3 sum": "kl_k3_sum"}.items():
        assert shown[label] == f"{number(last_step[column].mean())} nats"
    assert "reward" not in shown, "the head of its curve has it"
    counts = last_step.reward.value_counts().sort_index()
    bars = board.bars("rl-distribution")["policy"]
    drawn = bars["top"] > 0
    assert bars["top"][drawn].tolist() == counts.tolist()
    centres = (bars["left"] + bars["right"])[drawn] / 2
    np.testing.assert_allclose(centres, counts.index, atol=1e-6)
    expect(board.page.locator(".rl-distribution")).to_contain_text("step 60, n = 64")
    expect(board.page.locator(".rl-gap")).to_be_hidden()
    expect(board.count).to_have_text("64 of step 60")
    rows = board.rows.count()
    assert board.column("reward") == [number(value) for value in last_step.reward[:rows]]
    assert board.column("kl_k3_mean") == [number(value) for value in last_step.kl_k3[:rows]]
    assert board.uid() == last_step.uid.iloc[0]


def test_a_sort_is_of_the_whole_step_and_a_click_finds_its_sample(
    board: BoardPage, raw: dict[str, pd.DataFrame]
) -> None:
    last = raw[GRPO].query("step == 60")
    board.go(run=GRPO).settled(60)
    rows = board.rows.count()
    for ascending in (True, False):
        board.header("kl_k3_mean").locator(".tabulator-col-title").click()
        wanted = last.sort_values("kl_k3", ascending=ascending)
        assert board.settled().column("kl_k3_mean") == [number(value) for value in wanted.kl_k3[:rows]]
    board.rows.nth(3).click()
    board.shows(wanted.uid.iloc[3])
    expect(board.rows.nth(3)).to_have_class(re.compile("tabulator-selected"))
    assert board.column("response")[3] == wanted.response.iloc[3]


def test_a_filter_leaves_what_fits(board: BoardPage, raw: dict[str, pd.DataFrame]) -> None:
    last = raw[GRPO].query("step == 59")
    board.go(run=GRPO, step=59).settled(59)
    rows = board.rows.count()
    field = board.header("reward").locator("input")
    expect(field).to_be_hidden()
    board.page.get_by_role("button", name="Filter single columns").click()
    field.fill("1.5")
    field.press("Enter")
    wanted = last[last.reward >= 1.5]
    assert board.settled().column("reward") == [number(value) for value in wanted.reward[:rows]]
    board.grid.get_by_role("button", name="Last").click()
    rest = wanted.response[rows * ((len(wanted) - 1) // rows) :].tolist()
    assert board.settled().column("response") == rest
    board.rows.last.click()
    board.shows(wanted.uid.iloc[-1])
    field.fill("")
    field.press("Enter")
    expect(board.count).to_have_text("64 of step 59")
    board.page.get_by_role("button", name="Filter single columns").click()
    expect(field).to_be_hidden()


def test_the_search_looks_into_prompts_and_responses(board: BoardPage, raw: dict[str, pd.DataFrame]) -> None:
    last = raw[GRPO].query("step == 60")
    word = last.response.iloc[5].split()[1]
    board.go(run=GRPO).settled(60)
    board.press("/")
    expect(board.search).to_be_focused()
    board.page.keyboard.type(word.upper())
    board.page.keyboard.press("Enter")
    hits = [
        word.lower() in f"{line.prompt}\n{line.response}\n{line.ground_truth}".lower()
        for line in last.itertuples()
    ]
    expect(board.count).to_have_text(f"{sum(hits)} of 64 match")
    assert board.settled().column("response") == last[hits].response[: board.rows.count()].tolist()


def test_a_click_on_a_curve_chooses_its_step(board: BoardPage, raw: dict[str, pd.DataFrame]) -> None:
    frame = raw[GRPO]
    board.go(run=GRPO).settled(60)
    canvas = board.curve("KL k3").locator("canvas").first
    box = canvas.bounding_box()
    assert box is not None
    board.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(board.step_label.locator("b")).to_have_text(re.compile(r"Step (2[5-9]|3[0-5])$"))
    step = int(board.until(lambda: re.findall(r"Step (\d+)", board.step_label.locator("b").inner_text()))[0])
    board.at_step(step)
    means = frame.groupby("step")[["kl_k3", "reward"]].mean()
    board.head_says("KL k3", number(means.kl_k3[step]))
    board.head_says("Reward", number(means.reward[step]))


def test_following_again_goes_to_the_newest_step(board: BoardPage) -> None:
    board.go(run=GRPO, step=7).settled(7)
    board.page.locator(".rl-follow input").check()
    board.at_step(60)


def test_another_run_is_one_click_away(board: BoardPage, raw: dict[str, pd.DataFrame]) -> None:
    board.go(run=GRPO).settled(60)
    board.page.locator(".rl-runs").get_by_role("treeitem", name="hundreds").click()
    board.at_step(2300)
    expect(board.badge).to_contain_text("hundreds")
    assert_curve(board, "reward", band(raw["hundreds"], "reward"))
    expect(board.page.locator(".rl-curve .head b")).to_have_text(HUNDREDS)


def test_the_slider_and_the_buttons_walk_steps_of_any_spacing(board: BoardPage) -> None:
    board.go(run="hundreds", step=1100).settled(1100)
    expect(board.step_label).to_have_text("Step 1100 of 2300, 8 samples")
    board.page.get_by_role("button", name="Next step").click()
    board.at_step(1200)
    board.page.get_by_role("button", name="Previous step").click()
    board.page.get_by_role("button", name="Previous step").click()
    board.at_step(1000)
    slider = board.page.locator(".rl-stepbar").get_by_role("slider")
    slider.focus()
    slider.press("End")
    board.at_step(2300)
    slider.press("Home")
    board.at_step(0)


def test_the_slider_shows_its_step_while_it_is_dragged(board: BoardPage) -> None:
    board.go(run="hundreds", step=0).settled(0)
    box = board.page.locator(".rl-stepbar").get_by_role("slider").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    board.page.mouse.move(box["x"] + 7, middle)
    board.page.mouse.down()
    board.page.mouse.move(box["x"] + box["width"] / 2, middle, steps=5)
    expect(board.step_label.locator("b")).to_have_text(re.compile(r"Step 1[0-3]00$"))
    expect(board.count).to_contain_text("step 0")
    board.page.mouse.move(box["x"] + box["width"] - 1, middle, steps=5)
    board.page.mouse.up()
    board.at_step(2300)


def test_a_run_with_a_reference_shows_both_and_the_gap(
    board: BoardPage, raw: dict[str, pd.DataFrame]
) -> None:
    frame = raw["with-reference"]
    board.go(run="with-reference").settled(2)
    for column in ("reward", "ref_reward", "valid_reward", "ref_valid_reward"):
        assert_curve(board, column, band(frame, column))
    last = frame[frame.step == 2]
    gap = np.sort(last.reward - last.ref_reward)
    gaps = board.bars("rl-gap")
    np.testing.assert_allclose(gaps["policy"]["top"], np.maximum(gap, 0), rtol=1e-5)
    np.testing.assert_allclose(gaps["reference"]["bottom"], np.minimum(gap, 0), rtol=1e-5)
    won, lost = f"{np.mean(gap > 0):.0%}", f"{np.mean(gap < 0):.0%}"
    expect(board.page.locator(".rl-gap")).to_contain_text(f"sorted, {won} win, {lost} lose")
    both = board.bars("rl-distribution")
    bars = both["policy"]
    assert bars["top"].sum() == both["reference"]["top"].sum() == len(last)
    counts, _ = np.histogram(last.reward, bins=np.append(bars["left"], bars["right"][-1]))
    assert bars["top"].tolist() == counts.tolist()


def test_the_pair_has_response_reference_truth_and_gap(
    board: BoardPage, raw: dict[str, pd.DataFrame]
) -> None:
    line = raw["with-reference"].query("step == 2").iloc[0]
    board.go(run="with-reference").settled(2)
    board.tab("Text")
    expect(board.pair.locator("section")).to_have_count(3)
    texts = board.pair.locator("section").all_inner_texts()
    assert [text.split("\n")[0].strip() for text in texts] == [
        "Response",
        "Reference response",
        "Ground truth",
    ]
    assert [text.split("\n")[-1] for text in texts] == [line.response, line.ref_response, line.ground_truth]
    expect(board.pair).to_contain_text(line.prompt)
    gaps = (line.reward - line.ref_reward, 0.25 - 0.75)
    shown = board.pair.locator(".gaps b").all_inner_texts()
    assert shown == [number(gap, sign=True) for gap in gaps]


def test_the_same_line_of_another_run_is_another_sample(
    board: BoardPage, raw: dict[str, pd.DataFrame]
) -> None:
    board.go(run="twin-a").settled(1)
    board.tab("Text")
    expect(board.pair).to_contain_text(raw["twin-a"].response[0])
    assert raw["twin-a"].uid[0] == raw["twin-b"].uid[0]
    board.page.locator(".rl-runs").get_by_role("treeitem", name="twin-b").click()
    expect(board.pair).to_contain_text(raw["twin-b"].response[0])


def test_the_step_bar_sends_nothing_that_it_received(board: BoardPage) -> None:
    """A control that sends back what it receives would bring an earlier step back."""
    sent: list[str] = []
    board.go(run=GRPO, step=20).settled(20)
    board.page.locator(".logo").first.click()  # arrow keys on a tab would choose another tab
    network = board.page.context.new_cdp_session(board.page)
    network.on("Network.webSocketFrameSent", lambda frame: sent.append(frame["response"]["payloadData"]))
    network.send("Network.enable")
    for step in (30, 45, 10):
        board.go(run=GRPO, step=step)
    board.at_step(10)
    board.press("ArrowRight")
    board.at_step(11)
    expect(board.page.locator(".rl-stepbar").get_by_role("slider")).to_have_value("10")
    network.detach()
    assert sum("navigated" in frame for frame in sent) == 3
    assert not [frame for frame in sent if re.search(r'\["(move|show|select|follow)",', frame)]


@pytest.mark.usefixtures("clean")
def test_the_first_view_stays_until_the_board_is_drawn(profile: Profile, served: Served) -> None:
    """The page itself is sent first, and its views when they are built."""
    with profile.context.new_page() as page:
        page.add_init_script(NOTE_DRAWN)
        BoardPage(page, served.url).open(run=GRPO)
        assert page.evaluate("window.drawn") == ["tabulator-row", "rl-sample-head", "rl-curve"]


@pytest.mark.slow
def test_the_estimator_changes_curve_grid_and_tokens(board: BoardPage, raw: dict[str, pd.DataFrame]) -> None:
    board.go(run=PPO).settled(60)
    board.choose("KL estimator", "k1 (log-ratio)")
    expect(board.curve("Log-ratio")).to_be_visible()
    assert_curve(board, "log_ratio_mean", band(raw[PPO], "log_ratio"))
    expect(board.header("kl_k3_mean")).to_have_count(0)
    expect(board.header("log_ratio_mean")).to_be_visible()
    expect(board.sample_head).to_contain_text("log-ratio sum")
    board.choose("KL estimator", "k3")
    expect(board.curve("KL k3")).to_be_visible()
