"""Comparing runs: overlaid curves, and responses to the same prompts."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

from rlpanel.app.demo import write_recording
from tests.factories import append, line
from tests.ui.board import BoardPage, cells_of
from tests.ui.raw import raw_frame

pytestmark = pytest.mark.slow

FILE = "rollout_data_rank_0.jsonl"
PPO, GRPO, SFT, EVALS = "couplets-ppo", "couplets-grpo", "sft", "with evals"
BONUS, PLAIN = "with bonus", "without bonus"
HOSTILE = "<img src=x onerror=\"window.ran = 'runs'\">"
#: Prompt, step, reward, response.
RL = [("a", 1, 0.0, "cat"), ("a", 2, 1.0, "the cat sat"), ("b", 2, 0.5, HOSTILE), ("c", 2, 0.25, "x"),
      ("only here", 2, 1.0, "y")]  # fmt: skip
BASE = [("<|user|>a<|assistant|>", 0, 0.5, "the dog sat"), ("<|user|>b<|assistant|>", 0, 0.5, "b"),
        ("<|user|>c<|assistant|>", 0, 0.75, "x"), ("only there", 0, 0.0, "z")]  # fmt: skip

EVAL = [("held out", 2, 3.0, "y")]


def rows(samples: list[tuple[str, int, float, str]]) -> list[bytes]:
    drop = ["ref_response", "ref_reward", "ground_truth", "group"]
    return [
        line(step, index=at, prompt=prompt, reward=reward, response=response, response_tokens=[response, "."],
             logprobs=[-0.5, -0.25], ref_logprobs=[-0.5, -0.5], values=None, token_rewards=None, drop=drop)
        for at, (prompt, step, reward, response) in enumerate(samples)
    ]  # fmt: skip


def scored(bonus: dict[str, float]) -> list[bytes]:
    """Return three steps with 16 prompts; their match falls by step, and the bonus is part of the reward."""
    return [
        line(step, index=at, prompt=f"prompt {at}", reward=at / 16 - step + sum(bonus.values()),
             rewards={"match": at / 16 - step} | bonus)
        for step in (1, 2, 3) for at in range(16)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    write_recording("ppo_couplets", root / PPO)
    write_recording("grpo_couplets", root / GRPO)
    for name, samples in {HOSTILE: RL, SFT: BASE}.items():
        (root / name).mkdir()
        append(root / name / FILE, *rows(samples))
    for name, bonus in {BONUS: {"<i>bonus": 1.0}, PLAIN: {}}.items():
        (root / name).mkdir()
        append(root / name / FILE, *scored(bonus))
    (root / EVALS).mkdir()
    evals = [made.replace(b'"step"', b'"split": "eval", "step"') for made in rows(EVAL)]
    append(root / EVALS / FILE, *rows(RL), *evals)
    return root


def means(root: Path, run: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the steps and their mean rewards."""
    found = raw_frame(root / run).groupby("step").reward.mean()
    return found.index.to_numpy(float), found.to_numpy()


def smoothed(values: np.ndarray, weight: float) -> np.ndarray:
    """Smooth like TensorBoard, one value after the other."""
    last, found = 0.0, []
    for at, value in enumerate(values, 1):
        last = last * weight + (1 - weight) * value
        found.append(last / (1 - weight**at))
    return np.array(found)


def holds(board: BoardPage, source: str, **columns: np.ndarray) -> None:
    """Wait until the browser has these columns."""

    def equal() -> bool:
        shown = board.source(source)
        for name, values in columns.items():
            np.testing.assert_allclose(shown[name], values)
        return True

    board.until(equal, f"{source} holds what the file says")


def lines_over(board: BoardPage) -> dict[str, dict[str, list[float]]]:
    """Return the lines of the other runs in the reward plot, from the browser."""
    return board.page.evaluate(_LINES)


def lies_over(board: BoardPage, run: str, **columns: np.ndarray) -> None:
    """Wait until a run's line in the reward plot has these values."""

    def equal() -> bool:
        shown = lines_over(board)[run]
        for name, values in columns.items():
            np.testing.assert_allclose(shown[name], values)
        return True

    board.until(equal, f"the line of {run} is what the file says")


def test_other_runs_lie_over_the_curves_and_grow(board: BoardPage, root: Path) -> None:
    board.go(run=PPO).settled(60)
    for run in (GRPO, HOSTILE):
        board.page.locator(".rl-runs").get_by_label(f"Compare {run}", exact=True).check()
    expect(board.page).to_have_url(re.compile(f"over={GRPO}%2C"))
    steps, reward = means(root, GRPO)
    lies_over(board, GRPO, x=steps, y=reward)
    append(root / HOSTILE / FILE, *rows([("d", 3, 4.0, "new")]))
    lies_over(board, HOSTILE, x=np.array([1, 2, 3]), y=np.array([0.0, 0.6875, 4.0]))
    legend = board.page.locator(".rl-curve-bar .run")
    expect(legend).to_have_text([PPO, GRPO, HOSTILE])
    legend.nth(1).click()
    expect(legend.nth(1)).to_have_attribute("aria-pressed", "false")
    board.until(lambda: list(lines_over(board)) == [HOSTILE])
    legend.nth(1).click()
    board.until(lambda: list(lines_over(board)) == [GRPO, HOSTILE])
    assert board.page.evaluate("() => window.ran") is None


def test_one_split_is_shown_and_another_lies_over_it(board: BoardPage) -> None:
    board.go(run=EVALS, beside="eval").settled(2)
    holds(board, "reward", x=np.array([1, 2]), y=np.array([0.0, 0.6875]))
    lies_over(board, "/eval", x=np.array([2]), y=np.array([3.0]))
    board.choose("Split", "eval")
    expect(board.page).to_have_url(re.compile("split=eval"))
    holds(board, "reward", x=np.array([2]), y=np.array([3.0]))
    board.until(lambda: board.column("prompt") == ["held out"], "the grid shows the split's sample alone")
    board.go(run=SFT).settled(0)
    expect(board.settings().get_by_label("Split", exact=True)).to_have_count(0)


def test_curves_are_aligned_by_samples_and_smoothed_over_the_raw_line(board: BoardPage, root: Path) -> None:
    board.go(run=PPO, step=30, over=GRPO, align="samples", smooth=0.6).settled(30)
    for run, wait in ((PPO, partial(holds, board, "reward")), (GRPO, partial(lies_over, board, GRPO))):
        steps, reward = means(root, run)
        wait(x=64 * steps, y=smoothed(reward, 0.6), raw=reward)
    expect(board.page.locator(".rl-curve-bar .note:not(.said)")).to_have_text("aligned by samples seen")
    box = board.curve("Reward").locator("canvas").first.bounding_box() or {}
    board.page.mouse.click(box["x"] + box["width"] - 12, box["y"] + box["height"] / 2)
    board.at_step(60)


def test_the_same_prompts_in_two_runs(board: BoardPage) -> None:
    """a: 1 − 0.5, b: 0.5 − 0.5, c: 0.25 − 0.75."""
    board.go(run=HOSTILE, step=2, against=SFT).settled(2)
    board.tab("Compare")
    words = board.page.locator(".rl-compare-runs")
    expect(words).to_contain_text("3 prompts in both runs")
    expect(words).to_contain_text(re.compile(f"[12] only in {re.escape(HOSTILE)}"))
    expect(words).to_contain_text(f"1 only in {SFT}")
    expect(words).to_contain_text("Matched by text without chat template")
    for outcome in ("won", "tied", "lost"):
        expect(words.locator(".outcome")).to_contain_text(re.compile(rf"{outcome}\s+33%\s+\(6–79%\)\s+1"))
    expect(words.locator(".outcome")).to_contain_text(
        "mean difference 0.0 ± 1.2 (95 %, Student's t over 3 prompts)"
    )
    pairs = board.page.locator(".rl-pairs .tabulator-row")
    expect(pairs.locator(cells_of("prompt"))).to_have_text(["c", "b", "a"])
    expect(pairs.locator(cells_of("difference"))).to_have_text(["−0.5", "0", "0.5"])
    layers = board.bars("rl-difference")
    bars = {name: layers[name]["top"].tolist() for name in ("reference", "muted", "policy")}
    assert bars == {"reference": [1, 0, 0], "muted": [0, 1, 0], "policy": [0, 1, 1]}
    pairs.nth(2).locator(cells_of("prompt")).click()
    pair = board.page.locator(".rl-run-pair")
    expect(pair.locator(".sides ins")).to_have_text(["the cat sat"])
    expect(pair.locator(".sides del")).to_have_text(["the dog sat"])
    pairs.nth(1).locator(cells_of("prompt")).click()
    expect(pair.locator(".sides ins")).to_have_text([HOSTILE])
    assert board.page.evaluate("() => window.ran") is None


def test_shared_reward_functions_and_the_other_half_of_the_prompts(board: BoardPage) -> None:
    """The bonus would win every prompt; step 1 is the best one, and each prompt loses 2 until step 3."""
    board.go(run=BONUS, step=3, against=PLAIN).settled(3)
    board.tab("Compare")
    words, columns = board.page.locator(".rl-compare-runs"), board.page.locator(".rl-pairs .tabulator-col")
    expect(words).to_contain_text("Compared on 1 shared reward function: match, unweighted")
    expect(words).to_contain_text(f"Left out: <i>bonus (only in {BONUS})")
    expect(words).to_contain_text("mean difference 0 (no interval: all differences are equal)")
    used = columns.filter(has_text="used")
    expect(used).not_to_be_visible()
    pairs = board.page.locator(".rl-pairs .tabulator-row")
    board.until(
        lambda: {*pairs.locator(cells_of("difference")).all_inner_texts()} == {"0"}, "no prompt differs"
    )
    shown = pairs.first.locator(cells_of("here")).inner_text()
    pairs.locator(cells_of("prompt")).first.click()
    same = re.compile(f"shared reward {shown}")
    expect(board.page.locator(".rl-run-pair .sides h5")).to_contain_text([same, same])
    board.pick(".rl-samples-here", "Best step")
    expect(words).to_contain_text(f"Best step of {BONUS} (1) chosen on")
    expect(words).to_contain_text("mean difference +2 (no interval")
    expect(used).to_be_visible()
    said = words.locator(".basis").last.inner_text()
    chosen, compared = re.findall(r"on (\d+) prompts; compared on the other (\d+)", said)[0]
    assert int(chosen) + int(compared) == 16
    assert sum(board.bars("rl-difference")["policy"]["top"]) == int(compared)


def heads(board: BoardPage) -> list[float]:
    """Return the heights of the table's heads."""
    return board.page.locator(".rl-pairs .tabulator-col").evaluate_all(
        "heads => heads.filter(head => head.style.display !== 'none').map(head => head.offsetHeight)"
    )


def test_two_checkpoints_of_one_run_in_two_clicks_and_the_table_has_its_heads(board: BoardPage) -> None:
    """The match of a prompt falls by 1 a step; of the other runs, one shares the prompts and is proposed."""
    board.go(run=PLAIN, step=3).settled(3)
    board.tab("Compare")
    words = board.page.locator(".rl-compare-runs")
    expect(words).to_contain_text(f"0 only in {BONUS}")
    expect(board.page).to_have_url(re.compile(r"against=with\+bonus"))
    board.pick(".rl-against-run", "This run, at other steps")
    expect(words).to_contain_text("16 prompts in both runs")
    expect(words).to_contain_text("mean difference −2 (no interval")
    expect(board.page).to_have_url(re.compile(r"against=without\+bonus.*there_at=first"))
    assert min(heads(board)) > 15
    pairs = board.page.locator(".rl-pairs .tabulator-row")
    expect(pairs.first.locator(cells_of("step here"))).to_have_text("3")
    expect(pairs.first.locator(cells_of("step there"))).to_have_text("1")
    groups = board.page.locator(".rl-pairs .tabulator-col-group > .tabulator-col-content")
    expect(groups).to_have_text(["reward", "samples", "step"])
    board.pick(".rl-against-run", HOSTILE)
    expect(words).to_contain_text("no prompt in common")
    board.pick(".rl-against-run", BONUS)
    expect(words).to_contain_text("16 prompts in both runs")
    board.until(lambda: min(heads(board)) > 15, "the heads are there after another run was chosen")
    table = board.page.locator(".rl-pairs")
    table.evaluate("table => { table.style.display = 'none' }")
    board.pick(".rl-samples-here", "Best step")
    expect(table.locator(".tabulator-col", has_text="used")).to_have_count(1)
    table.evaluate("table => { table.style.display = '' }")
    board.until(lambda: min(heads(board)) > 15, "a table that was built while hidden has heads")
    board.go(run=PLAIN, step=3, page="compare", against=PLAIN, here_at="2..3", there_at="1").settled(3)
    expect(words).to_contain_text("mean difference −1.5 (no interval")


def test_a_pair_token_by_token_and_at_another_step(board: BoardPage) -> None:
    board.go(run=HOSTILE, step=2, against=SFT, here_at="1").settled(2)
    board.tab("Compare")
    expect(board.page.locator(".rl-compare-runs")).to_contain_text("1 prompt in both runs")
    board.page.locator(".rl-pairs .tabulator-row").first.locator(cells_of("prompt")).click()
    board.pick(".rl-pair-how", "Token by token")
    shown = board.page.locator(".rl-compare-tokens .rl-tokens-text")
    expect(shown).to_have_text(["cat.", "the dog sat."])
    board.page.get_by_role("button", name="Open the other run's sample").click()
    board.at_step(0)
    expect(board.badge).to_contain_text(SFT)


_LINES = """() => {
    const source = Bokeh.documents.flatMap((doc) => [...doc.all_models])
        .findLast((model) => model.type === "ColumnDataSource" && model.name === "over-reward")
    const of = (key, at) => Array.from(source.get(key)[at])
    return Object.fromEntries(source.get("run").map((run, at) =>
        [run, {x: of("xs", at), y: of("ys", at), raw: of("raws", at)}]))
}"""
